import { certificateSigningRequests, subjectAccessReviews } from '@oarlock/api/resources';
import { formatTime } from '@oarlock/api/time';
import type { SubjectAccessReview } from '@oarlock/api/types/authorization-v1';
import type { CertificateSigningRequest } from '@oarlock/api/types/certificates-v1';
import { Informers, type Client } from '@oarlock/spi/client';
import { Controllers, watch } from '@oarlock/spi/controller';
import { z } from 'zod';
import { readCsr, type CsrContent } from './csr-content.ts';
import { clientKubelet, kubeletClient } from './signers.ts';

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

/** Approves the client certificates of kubelets whose senders may have them: `selfnodeclient` for their own, `nodeclient` for any. */
export default Controllers.plugin({
  id: 'controller-csr-approving',
  config: z.strictObject({}),
  needs: { informers: Informers },
  create({ informers }, { clock }) {
    const requests = informers.of(certificateSigningRequests);
    return {
      name: 'csrapproving',
      watches: [watch(requests, ({ metadata, spec }) => (spec?.signerName === clientKubelet ? [metadata?.name ?? ''] : []))],
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
        if (kubeletClient(content, csr.spec.usages ?? []) !== undefined) return;
        const own = csr.spec.username === content.commonName && (await may(client, csr, 'selfnodeclient'));
        if (!own && !(await may(client, csr, 'nodeclient'))) return;
        const now = formatTime(clock.now());
        const condition = {
          type: 'Approved',
          status: 'True',
          reason: 'AutoApproved',
          message: `Auto approving ${own ? 'self kubelet' : 'kubelet'} client certificate after SubjectAccessReview.`,
          lastUpdateTime: now,
          lastTransitionTime: now,
        };
        await client.update(
          certificateSigningRequests,
          { ...csr, status: { ...csr.status, conditions: [...(csr.status?.conditions ?? []), condition] } },
          { subresource: 'approval' },
        );
      },
    };
  },
});
