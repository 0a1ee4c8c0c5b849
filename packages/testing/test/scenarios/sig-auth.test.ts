import type { KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import {
  certificateSigningRequests,
  configMaps,
  limitRanges,
  localSubjectAccessReviews,
  namespaces,
  pods,
  replicaSets,
  replicationControllers,
  resourceQuotas,
  selfSubjectAccessReviews,
  serviceAccounts,
  subjectAccessReviews,
  tokenReviews,
} from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { TokenRequest } from '@oarlock/api/types/authentication-v1';
import type { ResourceAttributes } from '@oarlock/api/types/authorization-v1';
import type { CertificateSigningRequest } from '@oarlock/api/types/certificates-v1';
import type { Pod, ResourceQuota } from '@oarlock/api/types/core-v1';
import type { Client } from '@oarlock/spi/client';
import { startCluster, type TestCluster } from '@oarlock/testing/start-cluster';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';

let cluster: TestCluster;
let client: Client;
beforeAll(async () => {
  cluster = await startCluster({ spec: { storage: { use: 'storage-memory' } } });
  ({ client } = cluster);
});
afterAll(() => cluster.stop());

/** Retries until controllers have done their work. */
const soon = (check: () => Promise<void>) => vi.waitFor(check, { timeout: 120_000, interval: 20 });
const missing = (error: unknown) => isStatus(error, 'NotFound');

async function space(name: string): Promise<string> {
  await client.create(namespaces, { metadata: { name } });
  await soon(async () => void (await client.get(serviceAccounts, { namespace: name, name: 'default' })));
  return name;
}
const pod = (
  namespace: string,
  name: string,
  requests: Record<string, string> = {},
  more: Partial<NonNullable<Pod['spec']>> = {},
): Pod => ({
  metadata: { namespace, name },
  spec: {
    schedulingGates: [{ name: 'test/never' }],
    containers: [{ name: 'c', image: 'x', resources: { requests, limits: requests } }],
    ...more,
  },
});

describe('[sig-auth] ServiceAccounts', () => {
  it('should guarantee kube-root-ca.crt exist in any namespace', async () => {
    const namespace = await space('root-ca');
    const get = () => client.get(configMaps, { namespace, name: 'kube-root-ca.crt' });
    await soon(async () => expect((await get()).data?.['ca.crt']).toContain('BEGIN CERTIFICATE'));
    await client.delete(configMaps, { namespace, name: 'kube-root-ca.crt' });
    await soon(async () => void (await get()));
    await client.update(configMaps, { ...(await get()), data: { 'ca.crt': 'wrong' } });
    await soon(async () => expect((await get()).data?.['ca.crt']).toContain('BEGIN CERTIFICATE'));
  });

  it('should allow opting out of API token automount', async () => {
    const namespace = await space('automount');
    await client.create(serviceAccounts, { metadata: { namespace, name: 'mount' }, automountServiceAccountToken: true });
    await client.create(serviceAccounts, { metadata: { namespace, name: 'nomount' }, automountServiceAccountToken: false });
    for (const account of ['default', 'mount', 'nomount'])
      for (const own of [undefined, true, false]) {
        const name = `${account}-${String(own)}`;
        const created = await client.create(
          pods,
          pod(namespace, name, {}, { serviceAccountName: account, ...(own !== undefined && { automountServiceAccountToken: own }) }),
        );
        const mounts =
          created.spec?.containers[0]?.volumeMounts?.some(
            ({ mountPath }) => mountPath === '/var/run/secrets/kubernetes.io/serviceaccount',
          ) === true;
        expect(mounts, name).toBe(own ?? account !== 'nomount');
      }
  });

  it('should create a serviceAccountToken and ensure a successful TokenReview', async () => {
    const namespace = await space('token');
    const account = await client.create(serviceAccounts, { metadata: { namespace, name: 'e2e' } });
    const asked: TokenRequest = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: { audiences: [] } };
    const { status } = await client.create(serviceAccounts as unknown as Resource<TokenRequest>, asked, {
      subresource: 'token',
      name: { namespace, name: 'e2e' },
    });
    const review = await client.create(tokenReviews, {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenReview',
      spec: { token: status?.token ?? '' },
    });
    expect(review.status).toMatchObject({
      authenticated: true,
      user: {
        username: `system:serviceaccount:${namespace}:e2e`,
        uid: account.metadata?.uid,
        groups: ['system:serviceaccounts', `system:serviceaccounts:${namespace}`, 'system:authenticated'],
      },
    });
  });

  it('ServiceAccountIssuerDiscovery should support OIDC discovery of service account issuer', async () => {
    const document = (await client.raw('GET', '/.well-known/openid-configuration')) as { issuer: string; jwks_uri: string };
    expect(document.issuer).toBe('https://kubernetes.default.svc.cluster.local');
    expect(document.jwks_uri).toMatch(/^https:\/\/.*\/openid\/v1\/jwks$/);
    expect((await client.raw('GET', '/openid/v1/jwks')) as { keys: object[] }).toMatchObject({ keys: [{ use: 'sig', kty: 'EC' }] });
  });

  it('should run through the lifecycle of a ServiceAccount', async () => {
    const namespace = await space('lifecycle');
    await client.create(serviceAccounts, { metadata: { namespace, name: 'test', labels: { 'test-serviceaccount-static': 'true' } } });
    const patched = await client.patch(serviceAccounts, { namespace, name: 'test' }, 'strategic', { automountServiceAccountToken: false });
    expect(patched.automountServiceAccountToken).toBe(false);
    expect((await client.list(serviceAccounts, { labelSelector: 'test-serviceaccount-static=true' })).items).toHaveLength(1);
    await client.deleteCollection(serviceAccounts, { namespace, labelSelector: 'test-serviceaccount-static=true' });
    await expect(client.get(serviceAccounts, { namespace, name: 'test' })).rejects.toSatisfy(missing);
  });

  it('should update a ServiceAccount', async () => {
    const namespace = await space('update');
    const created = await client.create(serviceAccounts, { metadata: { namespace, name: 'test' }, automountServiceAccountToken: false });
    const updated = await client.update(serviceAccounts, { ...created, automountServiceAccountToken: true });
    expect(updated.automountServiceAccountToken).toBe(true);
  });
});

const certificateRequest = `-----BEGIN CERTIFICATE REQUEST-----
MIGOMEICAQAwDzENMAsGA1UEAwwEamFuZTAqMAUGAytlcAMhAPvNgmuHqS1nw92x
Dvy4gj468M4XmV/Si1AF7rI1YV6loAAwBQYDK2VwA0EA+06FdnftatT2VOgc+Jhn
A/otM/UKby0jLIygjhg2ZlrJalx2aBb3bWIC8M1g6ed/cL9LuZXVDQctkf3ByxMS
BQ==
-----END CERTIFICATE REQUEST-----
`;

describe('[sig-auth] SubjectReview', () => {
  it('should support SubjectReview API operations', async () => {
    const namespace = await space('review');
    await client.create(serviceAccounts, { metadata: { namespace, name: 'e2e' } });
    const user = `system:serviceaccount:${namespace}:e2e`;
    const resourceAttributes: ResourceAttributes = { verb: 'list', resource: 'configmaps', namespace };
    const versioned = { apiVersion: 'authorization.k8s.io/v1' };
    const spec = { user, resourceAttributes };
    expect((await client.create(subjectAccessReviews, { ...versioned, spec })).status?.allowed).toBe(false);
    expect((await client.create(localSubjectAccessReviews, { ...versioned, metadata: { namespace }, spec })).status?.allowed).toBe(false);
    expect((await client.create(selfSubjectAccessReviews, { ...versioned, spec: { resourceAttributes } })).status?.allowed).toBe(true);
  });
});

describe('[sig-auth] Certificates API [Privileged:ClusterAdmin]', () => {
  it('should support CSR API operations', async () => {
    const signerName = 'example.com/e2e';
    // a request that no signer handles: the test covers only its life cycle
    const request = Buffer.from(certificateRequest).toString('base64');
    const created = await client.create(certificateSigningRequests, {
      metadata: { generateName: 'e2e-example-csr-', labels: { e2e: 'csr' } },
      spec: { request, signerName, expirationSeconds: 3600, usages: ['digital signature', 'key encipherment', 'server auth'] },
    } satisfies CertificateSigningRequest);
    const name = created.metadata?.name ?? '';
    expect((await client.list(certificateSigningRequests, { fieldSelector: `spec.signerName=${signerName}` })).items).toHaveLength(1);
    const patched = await client.patch(certificateSigningRequests, { name }, 'merge', { metadata: { annotations: { patched: 'true' } } });
    expect(patched.metadata?.annotations).toEqual({ patched: 'true' });
    const approved = await client.update(
      certificateSigningRequests,
      { ...patched, status: { conditions: [{ type: 'Approved', status: 'True', reason: 'E2E', message: 'Set from an e2e test' }] } },
      { subresource: 'approval' },
    );
    expect(approved.status?.conditions).toMatchObject([{ type: 'Approved', reason: 'E2E' }]);
    const status = await client.patch(
      certificateSigningRequests,
      { name },
      'merge',
      { metadata: { annotations: { patchedstatus: 'true' } }, status: { certificate: null } },
      { subresource: 'status' },
    );
    expect(status.metadata?.annotations?.['patchedstatus']).toBe('true');
    await client.delete(certificateSigningRequests, { name });
    await expect(client.get(certificateSigningRequests, { name })).rejects.toSatisfy(missing);
    await client.deleteCollection(certificateSigningRequests, { labelSelector: 'e2e=csr' });
  });
});

describe('[sig-scheduling] LimitRange', () => {
  const range = (namespace: string, name: string): KubeObject => ({
    metadata: { namespace, name, labels: { e2e: 'limits' } },
    ...{
      spec: {
        limits: [
          { type: 'Container', min: { cpu: '50m' }, max: { cpu: '500m' }, default: { cpu: '500m' }, defaultRequest: { cpu: '100m' } },
        ],
      },
    },
  });

  it('should create a LimitRange with defaults and ensure pod has those defaults applied.', async () => {
    const namespace = await space('limits');
    await client.create(limitRanges, range(namespace, 'limits'));
    const bare = {
      metadata: { namespace, name: 'no-resources' },
      spec: { schedulingGates: [{ name: 'test/never' }], containers: [{ name: 'c', image: 'x' }] },
    };
    await soon(async () => {
      const created = await client.create(pods, { ...bare, metadata: { namespace, generateName: 'no-resources-' } });
      expect(created.spec?.containers[0]?.resources).toEqual({ requests: { cpu: '100m' }, limits: { cpu: '500m' } });
    });
    await expect(client.create(pods, pod(namespace, 'min', { cpu: '10m' }))).rejects.toThrow(
      'minimum cpu usage per Container is 50m, but request is 10m',
    );
    await expect(client.create(pods, pod(namespace, 'max', { cpu: '600m' }))).rejects.toThrow(
      'maximum cpu usage per Container is 500m, but limit is 600m',
    );
  });

  it('should list, patch and delete a LimitRange by collection', async () => {
    const namespace = await space('limits-collection');
    await client.create(limitRanges, range(namespace, 'e2e'));
    expect((await client.list(limitRanges, { labelSelector: 'e2e=limits', namespace })).items).toHaveLength(1);
    const patched = await client.patch(limitRanges, { namespace, name: 'e2e' }, 'strategic', { metadata: { labels: { patched: 'true' } } });
    expect(patched.metadata?.labels).toEqual({ e2e: 'limits', patched: 'true' });
    await client.deleteCollection(limitRanges, { namespace, labelSelector: 'patched=true' });
    expect((await client.list(limitRanges, { namespace })).items).toEqual([]);
  });
});

describe('[sig-api-machinery] ResourceQuota', () => {
  const create = async (namespace: string, hard: Record<string, string>, more: ResourceQuota['spec'] = {}) => {
    await client.create(resourceQuotas, { metadata: { namespace, name: 'q' }, spec: { hard, ...more } });
    await soon(async () => expect(Object.keys((await get(namespace)).status?.used ?? {})).toHaveLength(Object.keys(hard).length));
  };
  const get = (namespace: string) => client.get(resourceQuotas, { namespace, name: 'q' });
  const uses = (namespace: string, used: Record<string, string>) =>
    soon(async () => expect((await get(namespace)).status?.used).toEqual(used));

  it('should create a ResourceQuota and capture the life of a pod.', async () => {
    const namespace = await space('quota-pod');
    await create(namespace, { cpu: '1', memory: '500Mi', pods: '5' });
    await client.create(pods, pod(namespace, 'a', { cpu: '500m', memory: '252Mi' }));
    await uses(namespace, { cpu: '500m', memory: '252Mi', pods: '1' });
    await expect(client.create(pods, pod(namespace, 'b', { cpu: '600m', memory: '100Mi' }))).rejects.toThrow(
      'exceeded quota: q, requested: cpu=600m, used: cpu=500m, limited: cpu=1',
    );
    await expect(client.create(pods, pod(namespace, 'c'))).rejects.toThrow('failed quota: q: must specify cpu for: c; memory for: c');
    await client.delete(pods, { namespace, name: 'a' }, { gracePeriodSeconds: 0 });
    await uses(namespace, { cpu: '0', memory: '0', pods: '0' });
  });

  it('should create a ResourceQuota and capture the life of a replica set and of a replication controller.', async () => {
    const namespace = await space('quota-sets');
    await create(namespace, { 'count/replicasets.apps': '1', replicationcontrollers: '1' });
    const template = { metadata: { labels: { a: 'b' } }, spec: { containers: [{ name: 'c', image: 'x' }] } };
    const spec = { replicas: 0, template };
    await client.create(replicaSets, { metadata: { namespace, name: 'r' }, spec: { ...spec, selector: { matchLabels: { a: 'b' } } } });
    await client.create(replicationControllers, { metadata: { namespace, name: 'r' }, spec: { ...spec, selector: { a: 'b' } } });
    await uses(namespace, { 'count/replicasets.apps': '1', replicationcontrollers: '1' });
    await expect(
      client.create(replicationControllers, { metadata: { namespace, name: 's' }, spec: { ...spec, selector: { a: 'b' } } }),
    ).rejects.toThrow(/exceeded quota/);
    await client.delete(replicaSets, { namespace, name: 'r' });
    await client.delete(replicationControllers, { namespace, name: 'r' });
    await uses(namespace, { 'count/replicasets.apps': '0', replicationcontrollers: '0' });
  });

  it('should apply changes to a resourcequota status', async () => {
    const namespace = await space('quota-status');
    await create(namespace, { cpu: '500m', memory: '500Mi' });
    const patched = await client.patch(
      resourceQuotas,
      { namespace, name: 'q' },
      'merge',
      { status: { hard: { cpu: '750m', memory: '750Mi' } } },
      { subresource: 'status' },
    );
    expect(patched.status?.hard).toEqual({ cpu: '750m', memory: '750Mi' });
    expect(patched.spec?.hard).toEqual({ cpu: '500m', memory: '500Mi' });
  });

  it('should manage the lifecycle of a ResourceQuota', async () => {
    const namespace = await space('quota-life');
    await create(namespace, { cpu: '1', memory: '500Mi' });
    await client.patch(resourceQuotas, { namespace, name: 'q' }, 'strategic', {
      metadata: { labels: { q: 'patched' } },
      spec: { hard: { memory: '750Mi' } },
    });
    await soon(async () => expect((await get(namespace)).status?.hard).toEqual({ cpu: '1', memory: '750Mi' }));
    await client.deleteCollection(resourceQuotas, { namespace, labelSelector: 'q=patched' });
    await expect(get(namespace)).rejects.toSatisfy(missing);
  });

  it('should verify ResourceQuota with best effort scope.', async () => {
    const namespace = await space('quota-effort');
    await create(namespace, { pods: '1' }, { scopes: ['BestEffort'] });
    await client.create(pods, pod(namespace, 'burst', { cpu: '1' }));
    await client.create(pods, pod(namespace, 'best'));
    await uses(namespace, { pods: '1' });
    await expect(client.create(pods, pod(namespace, 'second'))).rejects.toThrow(/exceeded quota/);
  });
});
