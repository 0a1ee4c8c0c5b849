import { certificateSigningRequests } from '@oarlock/api/resources';
import { formatTime } from '@oarlock/api/values/time';
import type { CertificateSigningRequest } from '@oarlock/api/types/certificates-v1';
import { Informers, type Client } from '@oarlock/spi/client';
import { Keys, type ClusterKeys } from '@oarlock/spi/cluster';
import { Controllers, watch } from '@oarlock/spi/controller';
import { z } from 'zod';
import { errorText } from '@oarlock/primitives/error-text';
import { readCsr, type CsrContent } from './csr-content.ts';
import { signers } from './signers.ts';

const daySeconds = 86_400;
const minDurationSeconds = 600;

const hasCondition = ({ status }: CertificateSigningRequest, type: string): boolean =>
  status?.conditions?.some((condition) => condition.type === type && condition.status !== 'False') ?? false;

/** Returns true if the request is approved, has no certificate and is not failed. */
const awaitsCertificate = (csr: CertificateSigningRequest): boolean =>
  (csr.status?.certificate ?? '') === '' && hasCondition(csr, 'Approved') && !hasCondition(csr, 'Denied') && !hasCondition(csr, 'Failed');

async function markFailed(
  csr: CertificateSigningRequest,
  { message, client, nowMs }: { readonly message: string; readonly client: Client; readonly nowMs: number },
): Promise<void> {
  const now = formatTime(nowMs);
  const failed = {
    type: 'Failed',
    status: 'True',
    reason: 'SignerValidationFailure',
    message,
    lastUpdateTime: now,
    lastTransitionTime: now,
  };
  await client.update(
    certificateSigningRequests,
    { ...csr, status: { ...csr.status, conditions: [...(csr.status?.conditions ?? []), failed] } },
    { subresource: 'status' },
  );
}

/** Signs a certificate for the content of a request with the cluster CA. Returns the certificate in PEM. */
function signCertificate(
  keys: ClusterKeys,
  { content, usages, seconds }: { readonly content: CsrContent; readonly usages: readonly string[]; readonly seconds: number },
): ReturnType<ClusterKeys['sign']> {
  return keys.sign(content.pem, {
    commonName: content.commonName,
    organizations: content.organizations,
    dnsNames: content.dnsNames,
    ipAddresses: content.ipAddresses,
    usages: [
      ...(usages.includes('server auth') ? (['server'] as const) : []),
      ...(usages.includes('client auth') ? (['client'] as const) : []),
    ],
    days: seconds / daySeconds,
  });
}

/** Issues certificates for approved requests to the Kubernetes signers, signed by the cluster CA. */
export default Controllers.plugin({
  id: 'controller-csr-signing',
  declares: { loop: 'csrsigning' },
  config: z.strictObject({
    /** Maximum lifetime of a certificate in seconds. A request may specify a shorter lifetime. */
    longestSeconds: z
      .int()
      .min(minDurationSeconds)
      .default(365 * daySeconds),
  }),
  needs: { informers: Informers, keys: Keys },
  create({ informers, keys, config }, { clock }) {
    const requests = informers.forResource(certificateSigningRequests);
    return {
      name: 'csrsigning',
      // without the key of the CA, a process that has the key signs
      watches:
        keys.trustOnly === true
          ? []
          : [watch(requests, ({ metadata, spec }) => (signers.has(spec?.signerName ?? '') ? [metadata?.name ?? ''] : []))],
      async reconcile(name, { client }) {
        const csr = requests.get(name);
        const validate = signers.get(csr?.spec?.signerName ?? '');
        if (csr?.spec === undefined || validate === undefined || !awaitsCertificate(csr)) return;
        const { usages = [], expirationSeconds, request = '' } = csr.spec;
        let content: CsrContent;
        try {
          content = await readCsr(request);
        } catch (error) {
          await markFailed(csr, { message: errorText(error), client, nowMs: clock.now() });
          return;
        }
        const rejection = validate(content, usages);
        if (rejection !== undefined) {
          await markFailed(csr, { message: rejection, client, nowMs: clock.now() });
          return;
        }
        const seconds = Math.min(config.longestSeconds, Math.max(minDurationSeconds, expirationSeconds ?? config.longestSeconds));
        const certificate = await signCertificate(keys, { content, usages, seconds });
        await client.update(
          certificateSigningRequests,
          { ...csr, status: { ...csr.status, certificate: Buffer.from(certificate).toString('base64') } },
          { subresource: 'status' },
        );
      },
    };
  },
});
