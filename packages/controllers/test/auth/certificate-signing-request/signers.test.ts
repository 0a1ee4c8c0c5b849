import 'reflect-metadata';
import { webcrypto } from 'node:crypto';
import { certificateSigningRequests } from '@oarlock/api/resources';
import csrSigning from '@oarlock/controllers/auth/certificate-signing-request/csr-signing-controller';
import { type CertificateRequest, type ClusterKeys } from '@oarlock/spi/cluster';
import { cryptoProvider, Pkcs10CertificateRequestGenerator } from '@peculiar/x509';
import { expect, it, vi } from 'vitest';
import { startControllers } from '../../support/run-controller.ts';

const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const;
cryptoProvider.set(webcrypto);
async function approved(name: string, subject: string, signer: string) {
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
  const request = await Pkcs10CertificateRequestGenerator.create({ name: subject, keys, signingAlgorithm: algorithm });
  return {
    metadata: { name },
    spec: {
      signerName: `kubernetes.io/${signer}`,
      usages: ['digital signature', 'client auth'],
      request: Buffer.from(request.toString('pem')).toString('base64'),
      username: 'eve',
    },
    status: { conditions: [{ type: 'Approved', status: 'True' }] },
  };
}

it('no signer certifies system:masters, and the legacy signer certifies nothing', async () => {
  const signed: string[] = [];
  const keys: ClusterKeys = {
    caBundle: 'CA',
    issue: () => Promise.reject(new Error('none')),
    sign: async (_pem: string, { commonName }: CertificateRequest) => {
      signed.push(commonName);
      return 'CERTIFICATE';
    },
    serviceAccount: { issuer: 'i', signingKey: '', verifyingKeys: [] },
  };
  const all = [
    await approved('masters', 'CN=eve,O=system:masters', 'kube-apiserver-client'),
    await approved('among-others', 'CN=eve,O=a,O=system:masters', 'kube-apiserver-client'),
    await approved('legacy', 'CN=legacy,O=system:masters', 'legacy-unknown'),
    await approved('legacy-plain', 'CN=legacy', 'legacy-unknown'),
    await approved('plain', 'CN=alice,O=a', 'kube-apiserver-client'),
  ];
  const loop = await startControllers([{ plugin: csrSigning }], {
    keys,
    seed: (api) => api.seed(certificateSigningRequests, ...all),
  });
  const status = (name: string) => loop.api.object(certificateSigningRequests, { name })?.status;
  const failed = (name: string) => status(name)?.conditions?.find(({ type }) => type === 'Failed')?.message;
  await vi.waitFor(
    () => {
      expect(status('plain')?.certificate).toBeTypeOf('string');
      for (const name of ['masters', 'among-others']) expect(failed(name)).toBe('subject organization system:masters is not allowed');
    },
    { timeout: 60_000, interval: 5 },
  );
  await loop.clock.settle();
  expect(signed).toEqual(['alice']);
  await loop.stop();
});
