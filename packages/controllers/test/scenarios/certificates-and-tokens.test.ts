import 'reflect-metadata';
import { createHmac, generateKeyPairSync, webcrypto } from 'node:crypto';
import { certificateSigningRequests, configMaps, secrets, serviceAccounts } from '@oarlock/api/resources';
import type { CertificateSigningRequest } from '@oarlock/api/types/certificates-v1';
import bootstrapSigner from '@oarlock/controllers/auth/bootstrap-token/bootstrap-signer-controller';
import tokenCleaner from '@oarlock/controllers/auth/bootstrap-token/token-cleaner-controller';
import csrApproving from '@oarlock/controllers/auth/certificate-signing-request/csr-approving-controller';
import csrCleaner from '@oarlock/controllers/auth/certificate-signing-request/csr-cleaner-controller';
import csrSigning from '@oarlock/controllers/auth/certificate-signing-request/csr-signing-controller';
import serviceAccountToken from '@oarlock/controllers/auth/service-account-token/service-account-token-controller';
import type { CertificateRequest, ClusterKeys } from '@oarlock/spi/cluster';
import type { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { cryptoProvider, Pkcs10CertificateRequestGenerator, SubjectAlternativeNameExtension } from '@peculiar/x509';
import { decodeJwt } from 'jose';
import { describe, expect, it, vi } from 'vitest';
import { startControllers } from '../support/run-controller.ts';
import { answerSubjectAccessReviews } from '../support/subject-access-reviews.ts';

/** Waits in real time: keys and signatures are created on threads that the fake clock does not control. */
const soon = (look: () => unknown) => {
  const until = (check: () => void) => vi.waitFor(check, { timeout: 120_000, interval: 5 });
  return {
    toEqual: (wanted: unknown) => until(() => expect(look()).toEqual(wanted)),
    toBeTypeOf: (type: 'string') => until(() => expect(look()).toBeTypeOf(type)),
  };
};

const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const;
cryptoProvider.set(webcrypto);
async function request(name: string, dns: readonly string[] = []): Promise<string> {
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
  const extensions = dns.length === 0 ? [] : [new SubjectAlternativeNameExtension(dns.map((value) => ({ type: 'dns' as const, value })))];
  const request = await Pkcs10CertificateRequestGenerator.create({ name, keys, signingAlgorithm: algorithm, extensions });
  return Buffer.from(request.toString('pem')).toString('base64');
}
const clientUsages = ['digital signature', 'client auth'];
const csr = (
  name: string,
  spec: Partial<CertificateSigningRequest['spec']>,
  conditions: readonly string[] = [],
): CertificateSigningRequest => ({
  metadata: { name },
  spec: {
    signerName: 'kubernetes.io/kube-apiserver-client-kubelet',
    usages: clientUsages,
    request: '',
    username: 'system:bootstrap:abc',
    groups: ['system:bootstrappers'],
    ...spec,
  },
  status: { conditions: conditions.map((type) => ({ type, status: 'True' })) },
});

const signingKey = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ type: 'pkcs8', format: 'pem' }) as string;
function testKeys() {
  const signed: CertificateRequest[] = [];
  const keys: ClusterKeys = {
    caBundle: 'CA',
    issue: () => Promise.reject(new Error('none')),
    sign: async (_pem, asked) => {
      signed.push(asked);
      return 'CERTIFICATE';
    },
    serviceAccount: { issuer: 'i', signingKey, verifyingKeys: [] },
  };
  return { keys, signed };
}

const reviewing = (allows: (subresource: string, user: string) => boolean) => (clock: FakeClock) =>
  answerSubjectAccessReviews(memoryApi({ clock }), allows);
const types = (object: CertificateSigningRequest | undefined) =>
  object?.status?.conditions?.map(({ type, reason, message }) => `${type} ${reason ?? ''}: ${message ?? ''}`);

describe('CertificateSigningRequests', () => {
  it('of kubelet clients are approved if the requester is authorized', async () => {
    const node = await request('O=system:nodes,CN=system:node:n1');
    const running = await startControllers([{ plugin: csrApproving }], {
      api: reviewing((subresource, user) => (subresource === 'nodeclient' ? user === 'system:bootstrap:abc' : user === 'system:node:n1')),
      seed: (api) =>
        api.seed(
          certificateSigningRequests,
          csr('bootstrap', { request: node }),
          csr('own', { request: node, username: 'system:node:n1', groups: ['system:nodes'] }),
          csr('stranger', { request: node, username: 'eve', groups: [] }),
          csr('denied', { request: node }, ['Denied']),
          csr('usages', { request: node, usages: ['server auth'] }),
        ),
    });
    const other = await request('O=system:masters,CN=system:node:n1');
    await running.api.client().create(certificateSigningRequests, csr('masters', { request: other }));
    const get = (name: string) => types(running.api.object(certificateSigningRequests, { name }));
    await soon(() => [get('bootstrap')?.length, get('own')?.length]).toEqual([1, 1]);
    await running.clock.settle();
    expect(get('bootstrap')).toEqual(['Approved AutoApproved: Auto approving kubelet client certificate after SubjectAccessReview.']);
    expect(get('own')).toEqual(['Approved AutoApproved: Auto approving self kubelet client certificate after SubjectAccessReview.']);
    for (const name of ['stranger', 'usages', 'masters']) expect(get(name) ?? []).toEqual([]);
    expect(get('denied')).toEqual(['Denied : ']);
    await running.stop();
  });

  it("of kubelet servers are approved for the node's own names, but not for names of the API server", async () => {
    const usages = ['digital signature', 'server auth'];
    const asks = async (name: string, node: string, dns: readonly string[], more: Partial<CertificateSigningRequest['spec']> = {}) =>
      csr(name, {
        signerName: 'kubernetes.io/kubelet-serving',
        usages,
        request: await request(`O=system:nodes,CN=system:node:${node}`, dns),
        username: `system:node:${node}`,
        groups: ['system:nodes'],
        ...more,
      });
    const all = [
      await asks('own', 'n1', ['n1']),
      await asks('of-another', 'n1', ['n1'], { username: 'system:node:n2' }),
      await asks('other-name', 'n1', ['n1', 'n2']),
      await asks('nameless', 'n1', []),
      await asks('service', 'n1', ['kubernetes.default.svc']),
      await asks('kubernetes', 'kubernetes', ['kubernetes']),
      await asks('client-too', 'n1', ['n1'], { usages: [...usages, 'client auth'] }),
      await asks('not-allowed', 'n3', ['n3']),
    ];
    const running = await startControllers([{ plugin: csrApproving }], {
      api: reviewing((subresource, user) => subresource === 'selfnodeserver' && user !== 'system:node:n3'),
      seed: (api) => api.seed(certificateSigningRequests, ...all),
    });
    const get = (name: string) => types(running.api.object(certificateSigningRequests, { name }));
    await soon(() => get('own')?.length).toEqual(1);
    await running.api.client().create(certificateSigningRequests, await asks('last', 'n4', ['n4']));
    await soon(() => get('last')?.length).toEqual(1);
    expect(get('own')).toEqual(['Approved AutoApproved: Auto approving self kubelet server certificate after SubjectAccessReview.']);
    const rejected = ['of-another', 'other-name', 'nameless', 'service', 'kubernetes', 'client-too', 'not-allowed'];
    for (const name of rejected) expect(get(name) ?? [], name).toEqual([]);
    await running.stop();
  });

  it('are signed after approval within the limits of their signer', async () => {
    const { keys, signed } = testKeys();
    const serving = await request('O=system:nodes,CN=system:node:n1', ['n1']);
    const plain = await request('O=devs,CN=ada');
    const nameless = await request('O=system:nodes,CN=system:node:n1');
    const running = await startControllers([{ plugin: csrSigning, config: { longestSeconds: 86_400 } }], {
      keys,
      seed: (api) =>
        api.seed(
          certificateSigningRequests,
          csr('client', { signerName: 'kubernetes.io/kube-apiserver-client', request: plain, expirationSeconds: 3600 }, ['Approved']),
          csr(
            'serving',
            {
              signerName: 'kubernetes.io/kubelet-serving',
              request: serving,
              usages: ['digital signature', 'server auth'],
              expirationSeconds: 864_000,
            },
            ['Approved'],
          ),
          csr(
            'nameless',
            { signerName: 'kubernetes.io/kubelet-serving', request: nameless, usages: ['digital signature', 'server auth'] },
            ['Approved'],
          ),
          csr('pending', { signerName: 'kubernetes.io/kube-apiserver-client', request: plain }),
          csr('elsewhere', { signerName: 'acme.com/signer', request: plain }, ['Approved']),
        ),
    });
    const get = (name: string) => running.api.object(certificateSigningRequests, { name });
    await soon(() => [get('client')?.status?.certificate, get('serving')?.status?.certificate, types(get('nameless'))?.length]).toEqual([
      Buffer.from('CERTIFICATE').toString('base64'),
      Buffer.from('CERTIFICATE').toString('base64'),
      2,
    ]);
    expect(types(get('nameless'))?.[1]).toBe('Failed SignerValidationFailure: DNS or IP subjectAltName is required');
    expect(get('pending')?.status?.certificate).toBeUndefined();
    expect(get('elsewhere')?.status?.certificate).toBeUndefined();
    expect(signed.find(({ commonName }) => commonName === 'ada')).toEqual({
      commonName: 'ada',
      organizations: ['devs'],
      dnsNames: [],
      ipAddresses: [],
      usages: ['client'],
      days: 3600 / 86_400,
    });
    expect(signed.find(({ commonName }) => commonName === 'system:node:n1')).toMatchObject({
      dnsNames: ['n1'],
      usages: ['server'],
      days: 1,
    });
    await running.stop();
  });

  it('are deleted after their expiration', async () => {
    const running = await startControllers([{ plugin: csrCleaner }], {
      seed: (api) => api.seed(certificateSigningRequests, csr('pending', {}), csr('denied', {}, ['Denied'])),
    });
    const names = () => running.api.objects(certificateSigningRequests).map(({ metadata }) => metadata?.name);
    expect(names()).toEqual(['pending', 'denied']);
    await running.clock.advance(3_601_000);
    expect(names()).toEqual(['pending']);
    await running.clock.advance(24 * 3_600_000);
    expect(names()).toEqual([]);
    await running.stop();
  });
});

const encode = (data: Record<string, string>) =>
  Object.fromEntries(Object.entries(data).map(([key, text]) => [key, Buffer.from(text).toString('base64')]));
const token = (id: string, more: Record<string, string> = {}) => ({
  metadata: { namespace: 'kube-system', name: `bootstrap-token-${id}` },
  type: 'bootstrap.kubernetes.io/token',
  data: encode({ 'token-id': id, 'token-secret': 'secret0123456789', ...more }),
});

describe('bootstrap tokens', () => {
  it('sign cluster-info while they are valid and are deleted when they expire', async () => {
    const expiration = new Date(Date.UTC(2020, 0, 1)).toISOString();
    const running = await startControllers([{ plugin: bootstrapSigner }, { plugin: tokenCleaner }], {
      seed: (api) => {
        api.seed(configMaps, {
          metadata: { namespace: 'kube-public', name: 'cluster-info' },
          data: { kubeconfig: 'text', 'jws-kubeconfig-gone': 'x' },
        });
        api.seed(
          secrets,
          token('abcdef', { 'usage-bootstrap-signing': 'true' }),
          token('nosign'),
          token('old000', { 'usage-bootstrap-signing': 'true', expiration }),
        );
      },
    });
    const data = () => running.api.object(configMaps, { namespace: 'kube-public', name: 'cluster-info' })?.data ?? {};
    expect(Object.keys(data()).sort()).toEqual(['jws-kubeconfig-abcdef', 'kubeconfig']);
    const [header = '', content, signature] = (data()['jws-kubeconfig-abcdef'] ?? '').split('.');
    expect(JSON.parse(Buffer.from(header, 'base64url').toString())).toEqual({ alg: 'HS256', kid: 'abcdef' });
    expect(content).toBe('');
    expect(signature).toBe(
      createHmac('sha256', 'secret0123456789')
        .update(`${header}.${Buffer.from('text').toString('base64url')}`)
        .digest('base64url'),
    );
    expect(running.api.objects(secrets).map(({ metadata }) => metadata?.name)).toEqual([
      'bootstrap-token-abcdef',
      'bootstrap-token-nosign',
    ]);
    running.api.remove(secrets, { namespace: 'kube-system', name: 'bootstrap-token-abcdef' });
    await running.clock.settle();
    expect(Object.keys(data())).toEqual(['kubeconfig']);
    await running.stop();
  });
});

describe('service account token Secrets', () => {
  const secret = (name: string, account: string, annotations: Record<string, string> = {}) => ({
    metadata: { namespace: 'd', name, annotations: { 'kubernetes.io/service-account.name': account, ...annotations } },
    type: 'kubernetes.io/service-account-token',
  });
  it('are populated, and deleted with their service account', async () => {
    const running = await startControllers([{ plugin: serviceAccountToken }], {
      keys: testKeys().keys,
      seed: (api) => {
        api.seed(serviceAccounts, { metadata: { namespace: 'd', name: 'robot', uid: 'u1' } });
        api.seed(
          secrets,
          secret('mine', 'robot'),
          secret('nobodys', 'none'),
          secret('olds', 'robot', { 'kubernetes.io/service-account.uid': 'u0' }),
        );
      },
    });
    const get = (name: string) => running.api.object(secrets, { namespace: 'd', name });
    await soon(() => get('mine')?.data?.['token']).toBeTypeOf('string');
    const populated = get('mine');
    expect(populated?.metadata?.annotations?.['kubernetes.io/service-account.uid']).toBe('u1');
    expect(Buffer.from(populated?.data?.['namespace'] ?? '', 'base64').toString()).toBe('d');
    expect(decodeJwt(Buffer.from(populated?.data?.['token'] ?? '', 'base64').toString())).toEqual({
      iss: 'kubernetes/serviceaccount',
      sub: 'system:serviceaccount:d:robot',
      'kubernetes.io/serviceaccount/namespace': 'd',
      'kubernetes.io/serviceaccount/secret.name': 'mine',
      'kubernetes.io/serviceaccount/service-account.name': 'robot',
      'kubernetes.io/serviceaccount/service-account.uid': 'u1',
    });
    expect(get('nobodys')).toBeUndefined();
    expect(get('olds')).toBeUndefined();
    await running.api.client().delete(serviceAccounts, { namespace: 'd', name: 'robot' });
    await running.clock.settle();
    expect(get('mine')).toBeUndefined();
    await running.stop();
  });
});
