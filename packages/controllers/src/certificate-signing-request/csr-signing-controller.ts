import { certificateSigningRequests } from '@oarlock/api/resources';
import { formatTime } from '@oarlock/api/time';
import { Informers } from '@oarlock/spi/client';
import { Keys } from '@oarlock/spi/cluster';
import { Controllers, watch } from '@oarlock/spi/controller';
import { z } from 'zod';
import { readCsr, type CsrContent } from './csr-content.ts';
import { signers } from './signers.ts';

const daySeconds = 86_400;
const shortest = 600;

/** Hands out certificates for approved requests to Kubernetes' own signers, signed by the cluster's CA. */
export default Controllers.plugin({
  id: 'controller-csr-signing',
  declares: { loop: 'csrsigning' },
  config: z.strictObject({
    /** The longest that a certificate lives; requests may ask for less. */
    longestSeconds: z
      .int()
      .min(shortest)
      .default(365 * daySeconds),
  }),
  needs: { informers: Informers, keys: Keys },
  create({ informers, keys, config }, { clock }) {
    const requests = informers.of(certificateSigningRequests);
    return {
      name: 'csrsigning',
      // without the CA's key, who has it signs
      watches:
        keys.trustOnly === true
          ? []
          : [watch(requests, ({ metadata, spec }) => (signers.has(spec?.signerName ?? '') ? [metadata?.name ?? ''] : []))],
      async reconcile(name, { client }) {
        const csr = requests.get(name);
        const refuses = signers.get(csr?.spec?.signerName ?? '');
        if (csr?.spec === undefined || refuses === undefined || (csr.status?.certificate ?? '') !== '') return;
        const conditions = csr.status?.conditions ?? [];
        const has = (type: string) => conditions.some((condition) => condition.type === type && condition.status !== 'False');
        if (!has('Approved') || has('Denied') || has('Failed')) return;
        const fail = async (message: string): Promise<void> => {
          const now = formatTime(clock.now());
          const failed = {
            type: 'Failed',
            status: 'True',
            reason: 'SignerValidationFailed',
            message,
            lastUpdateTime: now,
            lastTransitionTime: now,
          };
          await client.update(
            certificateSigningRequests,
            { ...csr, status: { ...csr.status, conditions: [...conditions, failed] } },
            { subresource: 'status' },
          );
        };
        const { usages = [], expirationSeconds, request = '' } = csr.spec;
        let content: CsrContent;
        try {
          content = await readCsr(request);
        } catch (error) {
          await fail(error instanceof Error ? error.message : String(error));
          return;
        }
        const refusal = refuses(content, usages);
        if (refusal !== undefined) {
          await fail(refusal);
          return;
        }
        const seconds = Math.min(config.longestSeconds, Math.max(shortest, expirationSeconds ?? config.longestSeconds));
        const certificate = await keys.sign(content.pem, {
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
        await client.update(
          certificateSigningRequests,
          { ...csr, status: { ...csr.status, certificate: Buffer.from(certificate).toString('base64') } },
          { subresource: 'status' },
        );
      },
    };
  },
});
