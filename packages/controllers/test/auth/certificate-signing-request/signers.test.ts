import 'reflect-metadata';
import { webcrypto } from 'node:crypto';
import { certificateSigningRequests } from '@oarlock/api/resources';
import csrSigning from '@oarlock/controllers/auth/certificate-signing-request/csr-signing-controller';
import { type CertificateRequest, type ClusterKeys } from '@oarlock/spi/cluster';
import { cryptoProvider, Pkcs10CertificateRequestGenerator } from '@peculiar/x509';
import { describe, expect, it, vi } from 'vitest';
import type { CsrContent } from '@oarlock/controllers/auth/certificate-signing-request/csr-content';
import { signers } from '@oarlock/controllers/auth/certificate-signing-request/signers';
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
    { timeout: 120_000, interval: 5 },
  );
  await loop.clock.settle();
  expect(signed).toEqual(['alice']);
  await loop.stop();
});

describe('signers', () => {
  const kubelet: CsrContent = {
    ...{ commonName: 'system:node:n', organizations: ['system:nodes'], dnsNames: [], ipAddresses: [], emails: [], uris: [], pem: '' },
  };
  const clientUsages = ['digital signature', 'client auth'];
  const servingUsages = ['digital signature', 'server auth'];
  const client = 'kube-apiserver-client';
  const kubeletClient = 'kube-apiserver-client-kubelet';
  const serving = 'kubelet-serving';
  it.each<[signer: string, content: Partial<CsrContent>, usages: readonly string[], expected: string | undefined]>([
    [client, {}, clientUsages, undefined],
    [client, {}, ['client auth', 'server auth'], 'invalid usage for client certificate: server auth'],
    [client, {}, ['digital signature'], 'missing required usage for client certificate: client auth'],
    [kubeletClient, {}, clientUsages, undefined],
    [kubeletClient, { organizations: [] }, clientUsages, 'subject organization is not system:nodes'],
    [kubeletClient, { dnsNames: ['a'], commonName: 'a' }, clientUsages, 'DNS subjectAltNames are not allowed'],
    [kubeletClient, { emails: ['a@b'] }, clientUsages, 'Email subjectAltNames are not allowed'],
    [kubeletClient, { ipAddresses: ['10.0.0.1'] }, clientUsages, 'IP subjectAltNames are not allowed'],
    [kubeletClient, { uris: ['http://a'] }, clientUsages, 'URI subjectAltNames are not allowed'],
    [kubeletClient, { commonName: 'a' }, [], 'subject common name does not begin with system:node:'],
    [kubeletClient, {}, servingUsages, 'usages did not match [client auth digital signature key encipherment]'],
    [serving, { dnsNames: ['a'] }, servingUsages, undefined],
    [serving, { commonName: 'a' }, servingUsages, 'DNS or IP subjectAltName is required'],
    [serving, { dnsNames: ['a'], emails: ['a@b'] }, servingUsages, 'Email subjectAltNames are not allowed'],
    [serving, { dnsNames: ['a'], uris: ['http://a'] }, servingUsages, 'URI subjectAltNames are not allowed'],
    [serving, { dnsNames: ['a'], commonName: 'a' }, [], 'usages did not match [digital signature key encipherment server auth]'],
    [serving, { dnsNames: ['a'], commonName: 'a' }, servingUsages, 'subject common name does not begin with system:node:'],
  ])("%s answers a request with %j and usages %j with upstream's message", (signer, content, usages, expected) => {
    expect(signers.get(`kubernetes.io/${signer}`)?.({ ...kubelet, ...content }, usages)).toBe(expected);
  });
});
