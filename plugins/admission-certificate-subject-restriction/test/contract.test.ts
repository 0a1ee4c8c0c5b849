import { webcrypto } from 'node:crypto';
import 'reflect-metadata';
import { certificateSigningRequests } from '@oarlock/api/resources';
import type { CertificateSigningRequest } from '@oarlock/api/types/certificates-v1';
import { cryptoProvider, Pkcs10CertificateRequestGenerator } from '@peculiar/x509';
import { admissionContract, admissionRequest } from '@oarlock/spi/admission/contract';
import { openAdmission } from '@oarlock/testing/open-admission';
import plugin from '../src/plugin.ts';

const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const;
async function csr(name: string, signerName = 'kubernetes.io/kube-apiserver-client'): Promise<CertificateSigningRequest> {
  cryptoProvider.set(webcrypto);
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
  const request = await Pkcs10CertificateRequestGenerator.create({ name, keys, signingAlgorithm: algorithm });
  return {
    metadata: { name: 'r' },
    spec: { signerName, usages: ['client auth'], request: Buffer.from(request.toString('pem')).toString('base64') },
  };
}
const create = (object: CertificateSigningRequest) => admissionRequest('CREATE', certificateSigningRequests, object);

admissionContract('admission-certificate-subject-restriction', async () => ({
  plugin: (await openAdmission(plugin)).plugin,
  cases: [
    { title: 'an ordinary group', request: create(await csr('O=devs,CN=ada')), expected: 'allowed' },
    { title: 'another signer', request: create(await csr('O=system:masters,CN=ada', 'a.io/b')), expected: 'allowed' },
    {
      title: 'masters',
      request: create(await csr('O=devs,O=system:masters,CN=ada')),
      expected: 'denied',
      message: 'use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed',
    },
    {
      title: 'no request',
      request: create({
        metadata: { name: 'r' },
        spec: { signerName: 'kubernetes.io/kube-apiserver-client', request: 'eA==', usages: [] },
      }),
      expected: 'denied',
      message: /^failed to parse CSR: /,
    },
  ],
}));
