import 'reflect-metadata';
import { webcrypto } from 'node:crypto';
import { certificateSigningRequests } from '@oarlock/api/resources';
import csrApproving from '@oarlock/controllers/auth/certificate-signing-request/csr-approving-controller';
import { sourceAddressAnnotation } from '@oarlock/spi/cluster';
import { memoryApi } from '@oarlock/testing/memory-api';
import { cryptoProvider, Pkcs10CertificateRequestGenerator, SubjectAlternativeNameExtension } from '@peculiar/x509';
import { expect, it, vi } from 'vitest';
import { startControllers } from '../../support/run-controller.ts';
import { answerSubjectAccessReviews } from '../../support/subject-access-reviews.ts';

const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const;
cryptoProvider.set(webcrypto);
async function serving(name: string, addresses: readonly string[], source?: string) {
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
  const names = [{ type: 'dns' as const, value: 'n1' }, ...addresses.map((value) => ({ type: 'ip' as const, value }))];
  const request = await Pkcs10CertificateRequestGenerator.create({
    name: 'O=system:nodes,CN=system:node:n1',
    keys,
    signingAlgorithm: algorithm,
    extensions: [new SubjectAlternativeNameExtension(names)],
  });
  return {
    metadata: { name, annotations: { ...(source !== undefined && { [sourceAddressAnnotation]: source }) } },
    spec: {
      signerName: 'kubernetes.io/kubelet-serving',
      usages: ['digital signature', 'server auth'],
      request: Buffer.from(request.toString('pem')).toString('base64'),
      username: 'system:node:n1',
      groups: ['system:nodes'],
    },
  };
}

it('serving certificates of kubelets are approved for the address that the request came from, and no other', async () => {
  const all = [
    await serving('own', ['10.0.0.2'], '10.0.0.2'),
    await serving('six', ['2001:db8:0:0::2'], '2001:db8::2'),
    await serving('of-another', ['10.0.0.1'], '10.0.0.2'),
    await serving('more', ['10.0.0.2', '10.0.0.1'], '10.0.0.2'),
    await serving('loopback', ['10.0.0.2', '127.0.0.1'], '10.0.0.2'),
    await serving('unknown-source', ['10.0.0.2']),
  ];
  const loop = await startControllers([{ plugin: csrApproving }], {
    api: (clock) => answerSubjectAccessReviews(memoryApi({ clock }), (subresource) => subresource === 'selfnodeserver'),
    seed: (api) => api.seed(certificateSigningRequests, ...all),
  });
  const approved = () =>
    all
      .map(({ metadata }) => metadata.name)
      .filter((name) => loop.api.object(certificateSigningRequests, { name })?.status?.conditions?.some(({ type }) => type === 'Approved'));
  await vi.waitFor(() => expect(approved()).toContain('own'), { timeout: 120_000, interval: 5 });
  await loop.api.client().create(certificateSigningRequests, await serving('last', ['10.0.0.2'], '10.0.0.2'));
  await vi.waitFor(() => expect(loop.api.object(certificateSigningRequests, { name: 'last' })?.status?.conditions).toHaveLength(1), {
    timeout: 120_000,
    interval: 5,
  });
  await loop.clock.settle();
  expect(approved()).toEqual(['own', 'six']);
  await loop.stop();
});
