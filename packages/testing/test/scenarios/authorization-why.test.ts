import { readFile } from 'node:fs/promises';
import { nodes, pods, serviceAccounts } from '@oarlock/api/resources';
import { clusterRoleBindings, clusterRoles, configMaps, podDisruptionBudgets, secrets } from '@oarlock/api/resources';
import type { AuthorizationQuery, AuthorizationTrace } from '@oarlock/cluster/paths/authorization-path';
import { certificateRequest } from '@oarlock/testing/sample-certificates';
import { startCluster, type TestCluster } from '@oarlock/testing/start-cluster';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';

// `oarlock auth why` names the plugin, or the check of the API server, that rejects a request

let cluster: TestCluster;
const namespace = 'default';
const groupOf = (user: string) => ['system:authenticated', ...(user.startsWith('system:node:') ? ['system:nodes'] : [])];
const node = 'system:node:here';

async function explain(query: AuthorizationQuery): Promise<AuthorizationTrace> {
  return (await cluster.client.raw('POST', '/oarlock/v1/authorization', { groups: groupOf(query.user), ...query })) as AuthorizationTrace;
}
/** Returns the step that decides. */
const last = async (query: AuthorizationQuery) => (await explain(query)).steps.at(-1);

beforeAll(async () => {
  cluster = await startCluster({ spec: { storage: { use: 'storage-memory' } } });
  const { client } = cluster;
  await client.create(clusterRoles, {
    metadata: { name: 'writer' },
    rules: [
      {
        apiGroups: ['certificates.k8s.io'],
        resources: ['certificatesigningrequests', 'certificatesigningrequests/approval'],
        verbs: ['*'],
      },
      { apiGroups: ['rbac.authorization.k8s.io'], resources: ['roles', 'rolebindings'], verbs: ['create', 'update', 'patch'] },
      { apiGroups: ['resource.k8s.io'], resources: ['resourceclaims'], verbs: ['create'] },
      { apiGroups: [''], resources: ['pods/proxy', 'nodes/proxy', 'pods/eviction', 'pods/binding'], verbs: ['get', 'create'] },
      { apiGroups: [''], resources: ['configmaps', 'nodes'], verbs: ['create', 'patch', 'delete', 'deletecollection'] },
    ],
  });
  await client.create(clusterRoleBindings, {
    metadata: { name: 'writer' },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'writer' },
    subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: 'ada' }],
  });
  for (const name of ['here', 'there']) await client.create(nodes, { metadata: { name } });
  await client.create(secrets, { metadata: { namespace, name: 'hidden' }, stringData: { a: 'b' } });
  await client.create(configMaps, { metadata: { namespace, name: 'a' }, data: { a: 'b' } });
  await vi.waitFor(() => client.get(serviceAccounts, { namespace, name: 'default' }), { timeout: 120_000, interval: 20 });
  await client.create(pods, {
    metadata: { namespace, name: 'p' },
    spec: { nodeName: 'here', serviceAccountName: 'default', containers: [{ name: 'c', image: 'x' }] },
  });
  await vi.waitFor(
    async () => expect(await last({ user: 'ada', verb: 'create', resource: 'configmaps', namespace })).toMatchObject({ decision: 'allow' }),
    {
      timeout: 120_000,
      interval: 20,
    },
  );
});
afterAll(() => cluster.stop());

const signing = (signerName: string) => ({
  apiVersion: 'certificates.k8s.io/v1',
  kind: 'CertificateSigningRequest',
  metadata: { name: 'x' },
  spec: { request: certificateRequest, signerName, usages: ['client auth'] },
});
const csr = { group: 'certificates.k8s.io', resource: 'certificatesigningrequests' };
const rbac = { group: 'rbac.authorization.k8s.io', namespace };
const role = (name: string, ...verbs: string[]) => ({
  apiVersion: 'rbac.authorization.k8s.io/v1',
  kind: 'Role',
  metadata: { namespace, name },
  rules: [{ apiGroups: [''], resources: ['secrets'], verbs }],
});
const claim = {
  apiVersion: 'resource.k8s.io/v1',
  kind: 'ResourceClaim',
  metadata: { namespace, name: 'c' },
  spec: { devices: { requests: [{ name: 'r', exactly: { deviceClassName: 'gpu', adminAccess: true } }] } },
};

describe('the reason for a rejection', () => {
  it.each<[string, AuthorizationQuery, string, RegExp]>([
    [
      'the legacy signer',
      { user: 'ada', verb: 'create', ...csr, object: signing('kubernetes.io/legacy-unknown') },
      'apiserver',
      /legacy signerName is not allowed/,
    ],
    [
      'a role with rights that its author does not have',
      { user: 'ada', verb: 'create', ...rbac, resource: 'roles', object: role('r', 'get') },
      'apiserver',
      /attempting to grant RBAC permissions not currently held/,
    ],
    [
      'a name with NUL',
      { user: 'ada', verb: 'create', ...rbac, resource: 'roles', object: role('a\0b') },
      'apiserver',
      /may not contain NUL/,
    ],
    [
      'admin access to devices',
      { user: 'ada', verb: 'create', group: 'resource.k8s.io', resource: 'resourceclaims', namespace, object: claim },
      'apiserver',
      /admin access to devices requires/,
    ],
    [
      'a node that changes another node',
      {
        user: node,
        verb: 'patch',
        resource: 'nodes',
        name: 'there',
        object: { apiVersion: 'v1', kind: 'Node', metadata: { labels: { a: 'b' } } },
      },
      'admission-node-restriction',
      /not allowed to modify node "there"/,
    ],
  ])('names what rejects %s', async (_title, query, plugin, because) => {
    expect(await last(query)).toEqual({ plugin, decision: 'deny', because: expect.stringMatching(because) });
  });

  it('names what denies a node a token for an audience of no volume', async () => {
    const { metadata: { uid = '' } = {} } = await cluster.client.get(pods, { namespace, name: 'p' });
    const spec = { audiences: ['vault'], boundObjectRef: { apiVersion: 'v1', kind: 'Pod', name: 'p', uid } };
    const object = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec };
    const query = { user: node, verb: 'create', resource: 'serviceaccounts', subresource: 'token', namespace, name: 'default', object };
    expect(await last(query)).toEqual({
      plugin: 'admission-node-restriction',
      decision: 'deny',
      because: expect.stringContaining('audience "vault" not found'),
    });
  });

  it.each<[string, AuthorizationQuery, RegExp]>([
    [
      'a node that reads a Secret of no pod',
      { user: node, verb: 'get', resource: 'secrets', namespace, name: 'hidden' },
      /no relationship found/,
    ],
    ['a node that lists claims', { user: node, verb: 'list', resource: 'persistentvolumeclaims', namespace }, /authz-node/],
    ['a deletion of a collection', { user: 'bob', verb: 'deletecollection', resource: 'configmaps', namespace }, /authz-rbac/],
  ])('is that of the authorizers for %s', async (_title, query, text) => {
    const { allowed, steps } = await explain(query);
    expect(allowed).toBe(false);
    expect(steps.map(({ plugin, because = '' }) => `${plugin}: ${because}`).join('\n')).toMatch(text);
  });
});

describe('the reason for a rejection by a subresource', () => {
  const onPod = { user: 'ada', resource: 'pods', namespace, name: 'p' };

  it.each([
    ['169.254.169.254', 'p', 'address not allowed'],
    ['192.0.2.7', 'p', undefined],
  ])('is the address %s of a proxied pod', async (podIP, name, because) => {
    await cluster.client.patch(
      pods,
      { namespace, name },
      'merge',
      { status: { podIP, podIPs: [{ ip: podIP }] } },
      { subresource: 'status' },
    );
    const step = { plugin: 'apiserver', decision: 'deny', because };
    const expected = because === undefined ? { plugin: 'authz-rbac', decision: 'allow' } : step;
    await vi.waitFor(async () => expect(await last({ ...onPod, verb: 'get', subresource: 'proxy' })).toMatchObject(expected), {
      timeout: 60_000,
      interval: 20,
    });
  });

  it('is the API server as the destination', async () => {
    const [, hostname = '', port = ''] = /server: https:\/\/([\d.]+):(\d+)/.exec(await readFile(cluster.kubeconfig, 'utf8')) ?? [];
    const addresses = [{ type: 'InternalIP', address: hostname }];
    const daemonEndpoints = { kubeletEndpoint: { Port: 10_250 } };
    await cluster.client.patch(nodes, { name: 'here' }, 'merge', { status: { addresses, daemonEndpoints } }, { subresource: 'status' });
    const proxied = (name: string) => last({ user: 'ada', verb: 'get', resource: 'nodes', subresource: 'proxy', name });
    expect(await proxied(`https:here:${port}`)).toEqual({ plugin: 'apiserver', decision: 'deny', because: 'address not allowed' });
    expect(await proxied('here')).toMatchObject({ plugin: 'authz-rbac', decision: 'allow' });
  });

  it('is the node that a pod already has', async () => {
    const object = { apiVersion: 'v1', kind: 'Binding', metadata: { namespace, name: 'p' }, target: { kind: 'Node', name: 'there' } };
    expect(await last({ ...onPod, verb: 'create', subresource: 'binding', object })).toEqual({
      plugin: 'apiserver',
      decision: 'deny',
      because: expect.stringContaining('pod p is already assigned to node "here"'),
    });
  });

  it('is the disruption budget, which keeps its disruptions', async () => {
    const { client } = cluster;
    await client.patch(pods, { namespace, name: 'p' }, 'merge', { metadata: { labels: { app: 'p' } } });
    await client.patch(pods, { namespace, name: 'p' }, 'merge', { status: { phase: 'Running' } }, { subresource: 'status' });
    const object = { apiVersion: 'policy/v1', kind: 'Eviction', metadata: { namespace, name: 'p' } };
    const query: AuthorizationQuery = { ...onPod, verb: 'create', subresource: 'eviction', object };
    expect(await last(query)).toMatchObject({ decision: 'allow' });
    await client.create(podDisruptionBudgets, {
      metadata: { namespace, name: 'all' },
      spec: { minAvailable: 1, selector: { matchLabels: { app: 'p' } } },
    });
    await vi.waitFor(
      async () =>
        expect(await last(query)).toEqual({
          plugin: 'apiserver',
          decision: 'deny',
          because: expect.stringMatching(/violate the pod's disruption budget. The disruption budget all /),
        }),
      { timeout: 60_000, interval: 20 },
    );
    expect(await client.get(pods, { namespace, name: 'p' })).toMatchObject({ status: { phase: 'Running' } });
  });
});

describe('an explained write', () => {
  it('is not done', async () => {
    const object = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { namespace, name: 'new' }, data: { a: 'c' } };
    const query = { user: 'ada', resource: 'configmaps', namespace };
    const admitted = { plugin: 'admission', decision: 'allow' };
    expect(await last({ ...query, verb: 'create', object })).toMatchObject(admitted);
    expect(await last({ ...query, verb: 'patch', name: 'a', object: { ...object, metadata: {} } })).toMatchObject(admitted);
    expect(await last({ ...query, verb: 'delete', name: 'a', object })).toMatchObject(admitted);
    const { items } = await cluster.client.list(configMaps, { namespace });
    expect(items.filter(({ metadata }) => metadata?.name === 'new')).toEqual([]);
    expect(items.find(({ metadata }) => metadata?.name === 'a')).toMatchObject({ data: { a: 'b' } });
  });
});
