import { certificateSigningRequests, subjectAccessReviews } from '@oarlock/api/resources';
import { formatTime } from '@oarlock/api/values/time';
import type { SubjectAccessReview } from '@oarlock/api/types/authorization-v1';
import type { CertificateSigningRequest } from '@oarlock/api/types/certificates-v1';
import { Informers, type Client } from '@oarlock/spi/client';
import { apiServerNames, Cluster, sourceAddressAnnotation, type ClusterFacts } from '@oarlock/spi/cluster';
import { Controllers, watch } from '@oarlock/spi/controller';
import { z } from 'zod';
import { readCsr, type CsrContent } from './csr-content.ts';
import { clientKubelet, kubeletClient, kubeletServing, servingKubelet } from './signers.ts';

const recognizedSigners: ReadonlySet<string> = new Set([clientKubelet, servingKubelet]);

async function isAuthorized(client: Client, { spec }: CertificateSigningRequest, subresource: string): Promise<boolean> {
  const { username = '', uid, groups = [], extra } = spec ?? {};
  const review: SubjectAccessReview = {
    apiVersion: 'authorization.k8s.io/v1',
    kind: 'SubjectAccessReview',
    spec: {
      user: username,
      groups: [...groups],
      ...(uid !== undefined && { uid }),
      ...(extra && { extra }),
      resourceAttributes: {
        group: 'certificates.k8s.io',
        resource: 'certificatesigningrequests',
        verb: 'create',
        subresource,
        version: '*',
      },
    },
  };
  return (await client.create(subjectAccessReviews, review)).status?.allowed === true;
}

/** A kind of kubelet certificate. A request is approved if the requester may create this subresource of certificatesigningrequests. */
interface Recognizer {
  readonly permission: string;
  readonly message: string;
  recognizes(
    spec: NonNullable<CertificateSigningRequest['spec']>,
    content: CsrContent,
    facts: ClusterFacts,
    source: string | undefined,
  ): boolean;
}

const recognizers: readonly Recognizer[] = [
  {
    permission: 'selfnodeclient',
    message: 'Auto approving self kubelet client certificate after SubjectAccessReview.',
    recognizes: (spec, content) => isClient(spec, content) && spec.username === content.commonName,
  },
  {
    permission: 'nodeclient',
    message: 'Auto approving kubelet client certificate after SubjectAccessReview.',
    recognizes: (spec, content) => isClient(spec, content),
  },
  {
    // Kubernetes leaves serving certificates to administrators. Here a node may serve its own name, at the address from which the API server
    // received its request: the kubelet writes the addresses of its Node without verification.
    permission: 'selfnodeserver',
    message: 'Auto approving self kubelet server certificate after SubjectAccessReview.',
    recognizes(spec, content, facts, source) {
      if (spec.signerName !== servingKubelet || kubeletServing(content, spec.usages ?? []) !== undefined) return false;
      const nodeName = content.commonName.slice('system:node:'.length);
      return (
        spec.username === content.commonName &&
        !apiServerNames(facts).includes(nodeName) &&
        content.dnsNames.every((name) => name === nodeName) &&
        content.ipAddresses.every((address) => canonicalAddress(address) === canonicalAddress(source))
      );
    },
  },
];
/** Returns the canonical form of an IP address, or undefined if the text is not an IP address. */
function canonicalAddress(address: string | undefined): string | undefined {
  return address?.includes(':') === true && URL.canParse(`http://[${address}]`) ? new URL(`http://[${address}]`).hostname : address;
}
const isClient = (spec: NonNullable<CertificateSigningRequest['spec']>, content: CsrContent): boolean =>
  spec.signerName === clientKubelet && kubeletClient(content, spec.usages ?? []) === undefined;

/** Approves requests for kubelet client and serving certificates if the requester is authorized for them. */
export default Controllers.plugin({
  id: 'controller-csr-approving',
  declares: { loop: 'csrapproving' },
  config: z.strictObject({}),
  needs: { informers: Informers, facts: Cluster },
  create({ informers, facts }, { clock }) {
    const requests = informers.forResource(certificateSigningRequests);
    return {
      name: 'csrapproving',
      watches: [watch(requests, ({ metadata, spec }) => (recognizedSigners.has(spec?.signerName ?? '') ? [metadata?.name ?? ''] : []))],
      async reconcile(name, { client, log }) {
        const csr = requests.get(name);
        if (csr?.spec === undefined || (csr.status?.certificate ?? '') !== '') return;
        if (csr.status?.conditions?.some(({ type }) => type === 'Approved' || type === 'Denied' || type === 'Failed') === true) return;
        let content: CsrContent;
        try {
          content = await readCsr(csr.spec.request ?? '');
        } catch (error) {
          log.warn({ csr: name, error: String(error) }, 'invalid certificate request');
          return;
        }
        for (const { permission, message, recognizes } of recognizers) {
          const source = csr.metadata?.annotations?.[sourceAddressAnnotation];
          if (!recognizes(csr.spec, content, facts, source) || !(await isAuthorized(client, csr, permission))) continue;
          const now = formatTime(clock.now());
          const approved = {
            type: 'Approved',
            status: 'True',
            reason: 'AutoApproved',
            message,
            lastUpdateTime: now,
            lastTransitionTime: now,
          };
          await client.update(
            certificateSigningRequests,
            { ...csr, status: { ...csr.status, conditions: [...(csr.status?.conditions ?? []), approved] } },
            { subresource: 'approval' },
          );
          return;
        }
      },
    };
  },
});
