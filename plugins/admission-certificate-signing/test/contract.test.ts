import type { KubeObject } from '@oarlock/api/object';
import { resource } from '@oarlock/api/resource';
import { certificateSigningRequests } from '@oarlock/api/resources';
import type { CertificateSigningRequest } from '@oarlock/api/types/certificates-v1';
import type { Attributes } from '@oarlock/spi/authz';
import { admissionContract, admissionRequest } from '@oarlock/spi/admission/contract';
import { openAdmission } from '@oarlock/testing/open-admission';
import plugin from '../src/plugin.ts';

const named = (name: string, ...groups: string[]) => ({ name, groups });
const allows = ({ verb, identity, ...asked }: Attributes) =>
  asked.kind === 'resource' &&
  asked.resource === 'signers' &&
  asked.group === 'certificates.k8s.io' &&
  identity.name === `${verb} ${asked.name}`;
const csr = (status: CertificateSigningRequest['status'] = {}): CertificateSigningRequest => ({
  metadata: { name: 'r' },
  spec: { signerName: 'a.io/b', request: '', usages: [] },
  ...(status && { status }),
});
const status = (user: string, next: CertificateSigningRequest) =>
  admissionRequest('UPDATE', certificateSigningRequests, next, { old: csr(), subresource: 'status', identity: named(user) });
const signed = csr({ certificate: 'x' });
const podRequests = resource('certificates.k8s.io', 'v1beta1', 'podcertificaterequests', 'PodCertificateRequest', true);
const podRequest = (status: object = {}): KubeObject => ({ metadata: { name: 'r' }, ...{ spec: { signerName: 'a.io/b' }, status } });
const podStatus = (user: string, next: object, before: object = {}) =>
  admissionRequest('UPDATE', podRequests, podRequest(next), { old: podRequest(before), subresource: 'status', identity: named(user) });

admissionContract('admission-certificate-signing', async () => ({
  plugin: (await openAdmission(plugin, { allows })).plugin,
  cases: [
    { title: 'by name', request: status('sign a.io/b', signed), expected: 'allowed' },
    { title: 'by domain', request: status('sign a.io/*', signed), expected: 'allowed' },
    { title: 'nothing of weight', request: status('x', csr({ conditions: [{ type: 'Approved', status: 'True' }] })), expected: 'allowed' },
    {
      title: 'somebody else',
      request: status('approve a.io/b', signed),
      expected: 'denied',
      message: 'user not permitted to sign requests with signerName "a.io/b"',
    },
    { title: 'a pod certificate, by name', request: podStatus('sign a.io/b', { certificateChain: 'x' }), expected: 'allowed' },
    { title: 'no pod certificate', request: podStatus('x', { conditions: [] }), expected: 'allowed' },
    {
      title: 'a pod certificate that stays',
      request: podStatus('x', { certificateChain: 'x' }, { certificateChain: 'x' }),
      expected: 'allowed',
    },
    {
      title: 'a pod certificate, by another user',
      request: podStatus('x', { certificateChain: 'x' }),
      expected: 'denied',
      message: 'Forbidden: User "x" is not permitted to "sign" for signer "a.io/b"',
    },
    { title: 'another pod certificate', request: podStatus('x', { certificateChain: 'y' }, { certificateChain: 'x' }), expected: 'denied' },
    { title: 'a failure', request: status('x', csr({ conditions: [{ type: 'Failed', status: 'True' }] })), expected: 'denied' },
  ],
}));
