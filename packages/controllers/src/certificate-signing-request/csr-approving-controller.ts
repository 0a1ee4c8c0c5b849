import { certificateSigningRequests, subjectAccessReviews } from '@oarlock/api/resources';
import { formatTime } from '@oarlock/api/time';
import type { SubjectAccessReview } from '@oarlock/api/types/authorization-v1';
import type { CertificateSigningRequest } from '@oarlock/api/types/certificates-v1';
import { Informers, type Client } from '@oarlock/spi/client';
import { apiServerNames, Cluster, type ClusterFacts } from '@oarlock/spi/cluster';
import { Controllers, watch } from '@oarlock/spi/controller';
import { z } from 'zod';
import { readCsr, type CsrContent } from './csr-content.ts';
import { clientKubelet, kubeletClient, kubeletServing, servingKubelet } from './signers.ts';

const known: ReadonlySet<string> = new Set([clientKubelet, servingKubelet]);

async function may(client: Client, { spec }: CertificateSigningRequest, subresource: string): Promise<boolean> {
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

/** Who gets which certificate of a kubelet without being looked at: whoever may create this subresource of requests. */
interface Recognizer {
  readonly permission: string;
  readonly message: string;
  recognizes(spec: NonNullable<CertificateSigningRequest['spec']>, content: CsrContent, facts: ClusterFacts): boolean;
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
    // Kubernetes leaves these to people: a node that joins here serves under its own name, at addresses that are not the API server's
    permission: 'selfnodeserver',
    message: 'Auto approving self kubelet server certificate after SubjectAccessReview.',
    recognizes(spec, content, facts) {
      if (spec.signerName !== servingKubelet || kubeletServing(content, spec.usages ?? []) !== undefined) return false;
      const nodeName = content.commonName.slice('system:node:'.length);
      return (
        spec.username === content.commonName &&
        !apiServerNames(facts).includes(nodeName) &&
        content.dnsNames.every((name) => name === nodeName) &&
        !content.ipAddresses.includes(facts.kubernetesServiceIP)
      );
    },
  },
];
const isClient = (spec: NonNullable<CertificateSigningRequest['spec']>, content: CsrContent): boolean =>
  spec.signerName === clientKubelet && kubeletClient(content, spec.usages ?? []) === undefined;

/** Approves the certificates of kubelets whose senders may have them. */
export default Controllers.plugin({
  id: 'controller-csr-approving',
  declares: { loop: 'csrapproving' },
  config: z.strictObject({}),
  needs: { informers: Informers, facts: Cluster },
  create({ informers, facts }, { clock }) {
    const requests = informers.of(certificateSigningRequests);
    return {
      name: 'csrapproving',
      watches: [watch(requests, ({ metadata, spec }) => (known.has(spec?.signerName ?? '') ? [metadata?.name ?? ''] : []))],
      async reconcile(name, { client, log }) {
        const csr = requests.get(name);
        if (csr?.spec === undefined || (csr.status?.certificate ?? '') !== '') return;
        if (csr.status?.conditions?.some(({ type }) => type === 'Approved' || type === 'Denied' || type === 'Failed') === true) return;
        let content: CsrContent;
        try {
          content = await readCsr(csr.spec.request ?? '');
        } catch (error) {
          log.warn({ csr: name, error: String(error) }, 'a certificate request cannot be read');
          return;
        }
        for (const { permission, message, recognizes } of recognizers) {
          if (!recognizes(csr.spec, content, facts) || !(await may(client, csr, permission))) continue;
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
