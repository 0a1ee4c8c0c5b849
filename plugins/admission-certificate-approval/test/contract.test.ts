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
const csr = (signerName: string): CertificateSigningRequest => ({ metadata: { name: 'r' }, spec: { signerName, request: '', usages: [] } });
const approval = (user: string, next = csr('a.io/b'), old = csr('a.io/b')) =>
  admissionRequest('UPDATE', certificateSigningRequests, next, { old, subresource: 'approval', identity: named(user) });

admissionContract('admission-certificate-approval', async () => ({
  plugin: (await openAdmission(plugin, { allows })).plugin,
  cases: [
    { title: 'by name', request: approval('approve a.io/b'), expected: 'allowed' },
    { title: 'by domain', request: approval('approve a.io/*'), expected: 'allowed' },
    {
      title: 'another signer',
      request: approval('approve a.io/c'),
      expected: 'denied',
      message: 'user not permitted to approve requests with signerName "a.io/b"',
    },
    { title: 'another verb', request: approval('sign a.io/b'), expected: 'denied' },
    { title: 'a signer name other than the stored one', request: approval('approve a.io/c', csr('a.io/c')), expected: 'denied' },
    { title: 'status', request: { ...approval('x'), subresource: 'status' }, expected: 'ignored' },
  ],
}));
