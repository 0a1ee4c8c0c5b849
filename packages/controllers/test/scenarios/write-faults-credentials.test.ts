import 'reflect-metadata';
import { createPublicKey, generateKeyPairSync, verify, webcrypto } from 'node:crypto';
import {
  certificateSigningRequests,
  configMaps,
  persistentVolumeClaims,
  persistentVolumes,
  pods,
  secrets,
  serviceAccounts,
} from '@oarlock/api/resources';
import csrApproving from '@oarlock/controllers/auth/certificate-signing-request/csr-approving-controller';
import csrSigning from '@oarlock/controllers/auth/certificate-signing-request/csr-signing-controller';
import legacyTokenCleaner from '@oarlock/controllers/auth/service-account-token/legacy-token-cleaner-controller';
import serviceAccountToken from '@oarlock/controllers/auth/service-account-token/service-account-token-controller';
import volumeExpansion from '@oarlock/controllers/volume/expansion/volume-expansion-controller';
import type { ClusterKeys } from '@oarlock/spi/cluster';
import { controllerPluginContract, type RecordedEvent } from '@oarlock/testing/controller-contract';
import type { MemoryApi } from '@oarlock/testing/memory-api';
import { cryptoProvider, Pkcs10CertificateRequestGenerator, SubjectAlternativeNameExtension } from '@peculiar/x509';
import { beforeEach, describe, expect } from 'vitest';
import { at } from '../support/running-controllers.ts';
import { answerSubjectAccessReviews } from '../support/subject-access-reviews.ts';

// controllers that issue or request credentials, with a fault at every write

const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const;
cryptoProvider.set(webcrypto);
async function request(name: string, dns: readonly string[] = []): Promise<string> {
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
  const extensions = dns.length === 0 ? [] : [new SubjectAlternativeNameExtension(dns.map((value) => ({ type: 'dns' as const, value })))];
  const request = await Pkcs10CertificateRequestGenerator.create({ name, keys, signingAlgorithm: algorithm, extensions });
  return Buffer.from(request.toString('pem')).toString('base64');
}
const ofNode = await request('O=system:nodes,CN=system:node:n1');
const nameless = await request('O=system:nodes,CN=system:node:n2');
const csr = (name: string, spec: object, conditions: readonly string[] = []) => ({
  apiVersion: 'certificates.k8s.io/v1',
  kind: 'CertificateSigningRequest',
  metadata: { name },
  spec: {
    signerName: 'kubernetes.io/kube-apiserver-client-kubelet',
    usages: ['digital signature', 'client auth'],
    request: ofNode,
    username: 'system:bootstrap:abc',
    groups: ['system:bootstrappers'],
    ...spec,
  },
  status: { conditions: conditions.map((type) => ({ type, status: 'True' })) },
});
const conditions = (api: MemoryApi, name: string) =>
  api.object(certificateSigningRequests, { name })?.status?.conditions?.map(({ type }) => type) ?? [];

describe('CSR controllers', () => {
  // signatures are created on threads outside the fake clock, and are verified in another test
  const { subtle } = webcrypto;
  const answered = {
    ...webcrypto,
    subtle: new Proxy(subtle, {
      get(target, name) {
        if (name === 'verify') return () => Promise.resolve(true);
        if (name === 'importKey') return () => Promise.resolve({ algorithm, type: 'public', usages: ['verify'], extractable: true });
        const value: unknown = Reflect.get(target, name);
        return typeof value === 'function' ? (value as () => unknown).bind(target) : value;
      },
    }),
  } as typeof webcrypto;
  beforeEach(() => cryptoProvider.set(answered));

  controllerPluginContract(csrApproving, [
    {
      title: 'approve once for authorized requesters',
      steps: [
        (api) =>
          void answerSubjectAccessReviews(api, (subresource, user) =>
            subresource === 'nodeclient' ? user === 'system:bootstrap:abc' : user === 'system:node:n1',
          ),
        (api) => void api.seed(certificateSigningRequests, csr('bootstrap', {}), csr('stranger', { usages: ['server auth'] })),
        (api) => void api.seed(certificateSigningRequests, csr('own', { username: 'system:node:n1', groups: ['system:nodes'] })),
        (api) => void api.seed(certificateSigningRequests, csr('denied', {}, ['Denied'])),
      ],
      expectResult: (api) =>
        expect(['bootstrap', 'own', 'stranger', 'denied'].map((name) => conditions(api, name))).toEqual([
          ['Approved'],
          ['Approved'],
          [],
          ['Denied'],
        ]),
    },
  ]);

  const keys: ClusterKeys = {
    caBundle: 'CA',
    issue: () => Promise.reject(new Error('not asked for')),
    sign: () => Promise.resolve('CERTIFICATE'),
    serviceAccount: { issuer: 'i', signingKey: '', verifyingKeys: [] },
  };
  controllerPluginContract(
    csrSigning,
    [
      {
        title: 'sign after approval, or fail permanently',
        steps: [
          (api) =>
            void api.seed(
              certificateSigningRequests,
              csr('early', {}, ['Approved']),
              csr('late', {}),
              csr('nameless', { request: nameless, signerName: 'kubernetes.io/kubelet-serving', usages: ['server auth'] }, ['Approved']),
            ),
          async (api) =>
            void (await api
              .client()
              .patch(certificateSigningRequests, { name: 'late' }, 'merge', csr('late', {}, ['Approved']), { subresource: 'status' })),
        ],
        expectResult(api) {
          const certificate = (name: string) => api.object(certificateSigningRequests, { name })?.status?.certificate;
          expect([certificate('early'), certificate('late'), certificate('nameless')]).toEqual([
            Buffer.from('CERTIFICATE').toString('base64'),
            Buffer.from('CERTIFICATE').toString('base64'),
            undefined,
          ]);
          expect(conditions(api, 'nameless')).toEqual(['Approved', 'Failed']);
        },
      },
    ],
    { keys },
  );
});

describe('service account token controller', () => {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const keys: ClusterKeys = {
    caBundle: 'CA',
    issue: () => Promise.reject(new Error('not asked for')),
    sign: () => Promise.reject(new Error('not asked for')),
    serviceAccount: { issuer: 'i', signingKey: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string, verifyingKeys: [] },
  };
  const secret = (name: string, account: string, annotations: Record<string, string> = {}) => ({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { namespace: 'd', name, annotations: { 'kubernetes.io/service-account.name': account, ...annotations } },
    type: 'kubernetes.io/service-account-token',
  });
  controllerPluginContract(
    serviceAccountToken,
    [
      {
        title: 'populates Secrets with a signed token and deletes them with their service account',
        steps: [
          (api) => {
            const account = (name: string) => ({
              apiVersion: 'v1',
              kind: 'ServiceAccount',
              metadata: { namespace: 'd', name, uid: `${name}-1` },
            });
            api.seed(serviceAccounts, account('robot'), account('other'));
          },
          (api) => void api.seed(secrets, secret('mine', 'robot'), secret('others', 'other'), secret('nobodys', 'none')),
          (api) => void api.seed(secrets, secret('olds', 'robot', { 'kubernetes.io/service-account.uid': 'robot-0' })),
          (api) => api.remove(serviceAccounts, at('other')),
        ],
        expectResult(api) {
          expect(api.objects(secrets, 'd').map(({ metadata }) => metadata?.name)).toEqual(['mine']);
          const { data } = api.object(secrets, at('mine')) ?? {};
          const [header, claims, signature = ''] = Buffer.from(data?.['token'] ?? '', 'base64')
            .toString()
            .split('.');
          const key = { key: createPublicKey(publicKey.export({ type: 'spki', format: 'pem' })), dsaEncoding: 'ieee-p1363' } as const;
          expect(verify('sha256', Buffer.from(`${header}.${claims}`), key, Buffer.from(signature, 'base64url'))).toBe(true);
        },
      },
    ],
    { keys },
  );
});

describe('legacy token cleaner', () => {
  const [lastUsed, invalidSince] = ['kubernetes.io/legacy-token-last-used', 'kubernetes.io/legacy-token-invalid-since'];
  const secret = (name: string, labels: Record<string, string> = {}, creationTimestamp = '2020-01-01T00:00:00Z') => ({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: {
      ...{ namespace: 'd', name, creationTimestamp, labels },
      annotations: { 'kubernetes.io/service-account.name': 'robot', 'kubernetes.io/service-account.uid': 'robot-1' },
    },
    type: 'kubernetes.io/service-account-token',
  });
  const generated = ['unused', 'mounted', 'used', 'new', 'marked', 'long-marked', 'had-back'];
  const tracking = { namespace: 'kube-system', name: 'kube-apiserver-legacy-service-account-token-tracking' };
  const seed = (api: MemoryApi, since: string) => {
    const metadata = { namespace: 'd', name: 'robot', uid: 'robot-1' };
    api.seed(configMaps, { metadata: tracking, data: { since } });
    api.seed(serviceAccounts, { metadata, secrets: generated.map((name) => ({ name })) });
    api.seed(pods, {
      metadata: { namespace: 'd', name: 'p' },
      spec: { containers: [], volumes: [{ name: 't', secret: { secretName: 'mounted' } }] },
    });
    api.seed(
      secrets,
      ...[secret('unused'), secret('mounted'), secret('by-hand'), secret('new', {}, '2025-12-01T00:00:00Z')],
      ...[secret('used', { [lastUsed]: '2025-12-01' }), secret('marked', { [invalidSince]: '2025-12-01' })],
      ...[secret('long-marked', { [invalidSince]: '2024-12-01' })],
      secret('had-back', { [invalidSince]: '2024-12-01', [lastUsed]: '2025-12-31' }),
    );
  };
  const held = (api: MemoryApi) =>
    Object.fromEntries(api.objects(secrets, 'd').map(({ metadata }) => [metadata?.name, metadata?.labels?.[invalidSince]]));
  controllerPluginContract(legacyTokenCleaner, [
    {
      title: 'marks tokens without use for a year and deletes them after another',
      steps: [(api) => seed(api, '2024-12-30')],
      expectResult(api) {
        const rest = { 'by-hand': undefined, mounted: undefined, new: undefined, used: undefined };
        expect(held(api)).toEqual({ ...rest, unused: '2026-01-01', marked: '2025-12-01', 'had-back': '2024-12-01' });
      },
    },
    {
      title: 'keeps tokens while their use has been tracked for less than a year',
      steps: [(api) => seed(api, '2025-01-01')],
      expectResult: (api) => expect(held(api)).toMatchObject({ unused: undefined, 'long-marked': '2024-12-01' }),
    },
  ]);
});

describe('volume expansion controller', () => {
  const recordedEvents: RecordedEvent[] = [];
  beforeEach(() => {
    recordedEvents.length = 0;
  });
  const claim = (storage: string) => ({
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { namespace: 'd', name: 'c', uid: 'c-1' },
    spec: { volumeName: 'v', resources: { requests: { storage } } },
    status: { phase: 'Bound', capacity: { storage: '1Gi' } },
  });
  controllerPluginContract(
    volumeExpansion,
    [
      {
        title: 'reports that the driver must expand the volume',
        steps: [
          (api) =>
            void api.seed(persistentVolumes, { metadata: { name: 'v' }, spec: { claimRef: { namespace: 'd', name: 'c', uid: 'c-1' } } }),
          (api) => void api.seed(persistentVolumeClaims, claim('1Gi')),
          async (api) =>
            void (await api
              .client()
              .patch(persistentVolumeClaims, at('c'), 'merge', { spec: { resources: { requests: { storage: '2Gi' } } } })),
        ],
        expectResult: () => expect(recordedEvents.map(({ reason }) => reason)).toContain('ExternalExpanding'),
      },
    ],
    { recordedEvents: recordedEvents },
  );
});
