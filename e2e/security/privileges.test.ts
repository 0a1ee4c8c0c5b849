import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Item } from '../harness/api.ts';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { Machine } from '../harness/machine.ts';
import { until } from '../harness/until.ts';
import { Caller, clientCertificate, serviceAccountToken, type Reply } from './support/callers.ts';

const machine = Machine.use();
let cluster: Cluster;
let other: Cluster;
const callers: Caller[] = [];
const open = async (commonName: string, organizations?: readonly string[]) => {
  const caller = new Caller(cluster, await clientCertificate(cluster, commonName, organizations));
  callers.push(caller);
  return caller;
};
const withToken = (token: string, at = cluster) => {
  const caller = new Caller(at, { token });
  callers.push(caller);
  return caller;
};
let ada: Caller;
let nodeA: Caller;
let nodeB: Caller;
const rbac = '/apis/rbac.authorization.k8s.io/v1';
const role = (name: string, rules: readonly object[], kind = 'Role') => ({
  apiVersion: 'rbac.authorization.k8s.io/v1',
  kind,
  metadata: { name },
  rules,
});
const binding = (name: string, clusterRole: string, user = 'ada', kind = 'RoleBinding') => ({
  apiVersion: 'rbac.authorization.k8s.io/v1',
  kind,
  metadata: { name },
  roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: clusterRole },
  subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: user }],
});
const pod = (name: string, spec: object = {}) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name },
  spec: { containers: [{ name: 'c', image: 'host', command: ['sleep', '1000'] }], terminationGracePeriodSeconds: 0, ...spec },
});
const message = ({ body }: Reply) => (JSON.parse(body) as { readonly message?: string }).message ?? '';

beforeAll(async () => {
  const spec = composition({ storage: 'embedded', runtime: 'process', network: 'host' });
  const small = { ...composition({ storage: 'memory', runtime: 'simulated', network: 'host' }), roles: ['apiserver'] };
  [cluster, other] = await Promise.all([machine.cluster({ spec }), machine.cluster({ spec: small })]);
  const { kubectl, api } = cluster;
  await kubectl.run(['create', 'namespace', 'team']);
  await kubectl.run(['label', 'namespace', 'team', 'pod-security.kubernetes.io/enforce=baseline']);
  await kubectl.run(['create', 'serviceaccount', 'robot', '-n', 'team']);
  await kubectl.run(['create', 'rolebinding', 'admins', '-n', 'team', '--clusterrole=admin', '--user=ada']);
  await kubectl.run(['create', 'secret', 'generic', 'mounted', '-n', 'team', '--from-literal=a=b']);
  await kubectl.run(['create', 'secret', 'generic', 'private', '-n', 'team', '--from-literal=a=b']);
  const volumes = [{ name: 's', secret: { secretName: 'mounted' } }];
  await api.json('POST', '/api/v1/namespaces/team/pods', {
    body: pod('worker', { serviceAccountName: 'robot', nodeName: 'node-a', volumes }),
  });
  await api.until('the pod runs', api.pods('team'), (pods: readonly (Item & { readonly status?: { readonly phase?: string } })[]) =>
    pods.some(({ status }) => status?.phase === 'Running'),
  );
  [ada, nodeA, nodeB] = await Promise.all([
    open('ada'),
    open('system:node:node-a', ['system:nodes']),
    open('system:node:node-b', ['system:nodes']),
  ]);
});
afterAll(() => {
  for (const caller of callers) caller.close();
});

describe('privilege escalation', () => {
  const roles = `${rbac}/namespaces/team/roles`;
  const bindings = `${rbac}/namespaces/team/rolebindings`;
  const podsOnly = [{ apiGroups: [''], resources: ['pods'], verbs: ['get'] }];
  const everything = [{ apiGroups: ['*'], resources: ['*'], verbs: ['*'] }];

  it('is rejected for roles that grant more than their author holds', async () => {
    expect((await ada.call('POST', roles, { body: role('fits', podsOnly) })).status).toBe(201);
    const created = await ada.call('POST', roles, { body: role('more', everything) });
    expect([created.status, message(created)]).toEqual([
      403,
      expect.stringContaining('is attempting to grant RBAC permissions not currently held'),
    ]);
    const nodes = [{ apiGroups: [''], resources: ['nodes'], verbs: ['get'] }];
    for (const [type, body] of [
      ['application/merge-patch+json', { rules: nodes }],
      ['application/strategic-merge-patch+json', { rules: nodes }],
      ['application/json-patch+json', [{ op: 'replace', path: '/rules/0/resources/0', value: 'nodes' }]],
      ['application/apply-patch+yaml', role('fits', nodes)],
    ] as const) {
      const patched = await ada.call('PATCH', `${roles}/fits?fieldManager=x${type.includes('apply') ? '&force=true' : ''}`, { body, type });
      expect([type, patched.status]).toEqual([type, 403]);
    }
    expect((await ada.call('PUT', `${roles}/fits`, { body: role('fits', everything) })).status).toBe(403);
    for (const verb of ['escalate', 'bind', 'impersonate']) {
      const own = [{ apiGroups: ['rbac.authorization.k8s.io'], resources: ['roles'], verbs: [verb] }];
      expect([verb, (await ada.call('POST', roles, { body: role(verb, own) })).status]).toEqual([verb, 403]);
    }
  });

  it('is rejected for bindings to roles with more rights, by every way to write them', async () => {
    expect((await ada.call('POST', bindings, { body: binding('view', 'view', 'bob') })).status).toBe(201);
    expect((await ada.call('POST', bindings, { body: binding('masters', 'cluster-admin') })).status).toBe(403);
    const apply = { body: binding('masters', 'cluster-admin'), type: 'application/apply-patch+yaml' };
    expect((await ada.call('PATCH', `${bindings}/masters?fieldManager=x&force=true`, apply)).status).toBe(403);
    expect(
      (await ada.call('POST', `${rbac}/clusterrolebindings`, { body: binding('masters', 'view', 'ada', 'ClusterRoleBinding') })).status,
    ).toBe(403);
    // a roleRef is immutable
    expect((await ada.call('PUT', `${bindings}/view`, { body: binding('view', 'cluster-admin', 'bob') })).status).toBeGreaterThanOrEqual(
      400,
    );
  });

  it('is possible with the verbs escalate and bind alone', async () => {
    const { kubectl } = cluster;
    await kubectl.run(['create', 'role', 'escalator', '-n', 'team', '--verb=escalate,create', '--resource=roles']);
    await kubectl.run(['create', 'rolebinding', 'escalator', '-n', 'team', '--role=escalator', '--user=eve']);
    await kubectl.run(['create', 'clusterrole', 'binder', '--verb=bind', '--resource=clusterroles', '--resource-name=cluster-admin']);
    await kubectl.run(['create', 'role', 'writer', '-n', 'team', '--verb=create', '--resource=rolebindings']);
    await kubectl.run(['create', 'rolebinding', 'binder', '-n', 'team', '--clusterrole=binder', '--user=ben']);
    await kubectl.run(['create', 'rolebinding', 'writer', '-n', 'team', '--role=writer', '--user=ben']);
    const [eve, ben] = await Promise.all([open('eve'), open('ben')]);
    await until('eve may escalate', async () => (await eve.call('POST', roles, { body: role('all', everything) })).status === 201);
    expect((await eve.call('POST', bindings, { body: binding('eve', 'cluster-admin', 'eve') })).status).toBe(403);
    await until(
      'ben may bind',
      async () => (await ben.call('POST', `${bindings}?dryRun=All`, { body: binding('b', 'cluster-admin', 'ben') })).status === 201,
    );
    expect((await ben.call('POST', bindings, { body: binding('b', 'system:node', 'ben') })).status).toBe(403);
    expect((await ben.call('POST', `${rbac}/namespaces/default/rolebindings`, { body: binding('b', 'cluster-admin', 'ben') })).status).toBe(
      403,
    );
  });

  it('is rejected for aggregated ClusterRoles', async () => {
    const aggregated = { ...role('mine', [], 'ClusterRole'), aggregationRule: { clusterRoleSelectors: [{ matchLabels: { a: 'b' } }] } };
    await cluster.kubectl.run(['create', 'clusterrole', 'role-writer', '--verb=create,update,patch', '--resource=clusterroles']);
    await cluster.kubectl.run(['create', 'clusterrolebinding', 'role-writer', '--clusterrole=role-writer', '--user=rose']);
    const rose = await open('rose');
    await until(
      'rose may create ClusterRoles',
      async () => (await rose.call('POST', `${rbac}/clusterroles?dryRun=All`, { body: role('x', [], 'ClusterRole') })).status === 201,
    );
    expect((await rose.call('POST', `${rbac}/clusterroles`, { body: aggregated })).status).toBe(403);
    expect((await rose.call('POST', `${rbac}/clusterroles`, { body: role('y', everything, 'ClusterRole') })).status).toBe(403);
  });
});

describe('impersonation', () => {
  const whoami = '/apis/authentication.k8s.io/v1/selfsubjectreviews';
  const body = { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' };
  const impersonate = (caller: Caller, headers: Readonly<Record<string, string>>) => caller.call('POST', whoami, { body, headers });

  it('requires the verb impersonate for each part', async () => {
    const { kubectl } = cluster;
    await kubectl.run(['create', 'clusterrole', 'as-bob', '--verb=impersonate', '--resource=users', '--resource-name=bob']);
    await kubectl.run(['create', 'clusterrolebinding', 'as-bob', '--clusterrole=as-bob', '--user=mia']);
    const mia = await open('mia');
    await until('mia may be bob', async () => (await impersonate(mia, { 'impersonate-user': 'bob' })).status === 201);
    for (const headers of [
      { 'impersonate-user': 'admin' },
      { 'impersonate-user': 'bob', 'impersonate-group': 'system:masters' },
      { 'impersonate-user': 'bob', 'impersonate-uid': '7' },
      { 'impersonate-user': 'bob', 'impersonate-extra-scopes': 'all' },
      { 'impersonate-user': 'system:serviceaccount:team:robot' },
      { 'impersonate-user': 'system:node:node-a' },
    ])
      expect([headers, (await impersonate(mia, headers)).status]).toEqual([headers, 403]);
    for (const headers of [{ 'impersonate-group': 'system:masters' }, { 'impersonate-uid': '7' }, { 'impersonate-extra-scopes': 'all' }])
      expect((await impersonate(mia, headers as never)).status).toBeGreaterThanOrEqual(400);
    for (const caller of [ada, nodeA]) expect((await impersonate(caller, { 'impersonate-user': 'bob' })).status).toBe(403);
    // the ClusterRole admin impersonates service accounts of its namespace
    expect((await impersonate(ada, { 'impersonate-user': 'system:serviceaccount:team:robot' })).status).toBe(201);
    expect((await impersonate(ada, { 'impersonate-user': 'system:serviceaccount:kube-system:deployment-controller' })).status).toBe(403);
  });

  it('is not possible through the headers of a front proxy without its certificate', async () => {
    const headers = { 'x-remote-user': 'kubernetes-admin', 'x-remote-group': 'system:masters' };
    expect((await new Caller(cluster, {}).call('GET', '/api/v1/secrets', { headers })).status).toBe(401);
    expect((await ada.call('GET', '/api/v1/secrets', { headers })).status).toBe(403);
  });
});

describe('a node', () => {
  it('reads what its own pods refer to, and nothing of other nodes', async () => {
    const path = '/api/v1/namespaces/team';
    const token = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: {} };
    const { uid } = (await cluster.api.get<Item>(`${path}/pods/worker`)).metadata;
    const bound = { ...token, spec: { boundObjectRef: { apiVersion: 'v1', kind: 'Pod', name: 'worker', uid } } };
    const statuses = async (node: Caller) => ({
      mounted: (await node.call('GET', `${path}/secrets/mounted`)).status,
      private: (await node.call('GET', `${path}/secrets/private`)).status,
      list: (await node.call('GET', `${path}/secrets`)).status,
      everySecret: (await node.call('GET', '/api/v1/secrets?fieldSelector=metadata.name%3Dmounted')).status,
      pod: (await node.call('GET', `${path}/pods/worker`)).status,
      bound: (await node.call('POST', `${path}/serviceaccounts/robot/token`, { body: bound })).status,
      unbound: (await node.call('POST', `${path}/serviceaccounts/robot/token`, { body: token })).status,
    });
    await until('the graph has the pod', async () => (await statuses(nodeA)).mounted === 200);
    expect(await statuses(nodeA)).toEqual({ mounted: 200, private: 403, list: 403, everySecret: 403, pod: 200, bound: 201, unbound: 403 });
    expect(await statuses(nodeB)).toEqual({ mounted: 403, private: 403, list: 403, everySecret: 403, pod: 403, bound: 403, unbound: 403 });
  });

  it('changes neither other nodes nor their pods and leases', async () => {
    const merge = { body: { metadata: { labels: { a: 'b' } } }, type: 'application/merge-patch+json' };
    const lease = '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-a';
    for (const [method, path, options] of [
      ['PATCH', '/api/v1/nodes/node-a', merge],
      ['PATCH', '/api/v1/nodes/node-a/status', merge],
      ['DELETE', '/api/v1/nodes/node-a', {}],
      ['PATCH', lease, merge],
      ['DELETE', lease, {}],
      ['PATCH', '/api/v1/namespaces/team/pods/worker/status', merge],
      ['DELETE', '/api/v1/namespaces/team/pods/worker', {}],
      ['GET', '/api/v1/namespaces/team/pods?fieldSelector=spec.nodeName%3Dnode-a', {}],
      ['GET', '/api/v1/nodes/node-a/proxy/pods', {}],
      ['POST', '/api/v1/namespaces/team/pods', { body: pod('fresh') }],
      ['POST', '/api/v1/namespaces/team/pods', { body: pod('fresh', { nodeName: 'node-a' }) }],
    ] as const)
      expect([method, path, (await nodeB.call(method, path, options)).status]).toEqual([method, path, 403]);
    // not even its own labels of isolation, taints by restriction or pods that are not mirrors
    const isolation = { body: { metadata: { labels: { 'node-restriction.kubernetes.io/a': 'b' } } }, type: 'application/merge-patch+json' };
    expect((await nodeA.call('PATCH', '/api/v1/nodes/node-a', isolation)).status).toBe(403);
    expect((await nodeA.call('POST', '/api/v1/namespaces/team/pods', { body: pod('fresh', { nodeName: 'node-a' }) })).status).toBe(403);
  });

  it('posts spans within bounds, and users without rights post none', async () => {
    const post = (caller: Caller, body: unknown) => caller.call('POST', '/oarlock/v1/spans', { body });
    expect((await post(ada, { spans: [] })).status).toBe(403);
    for (const body of [
      null,
      [],
      {},
      { spans: 'x' },
      { spans: [null] },
      { spans: [{ __proto__: null, name: {} }] },
      '{"spans":[{"__proto__":{"polluted":1}}]}',
    ])
      expect([body, (await post(nodeB, body)).status]).toEqual([body, 400]);
    const span = {
      traceId: 'a'.repeat(32),
      spanId: 'b'.repeat(16),
      links: [],
      name: 'x',
      scope: 'x',
      process: 'node-a:1',
      start: 1,
      end: 2,
      attributes: {},
    };
    expect((await post(nodeB, { spans: Array.from({ length: 2001 }, () => span) })).status).toBe(400);
    expect(
      (
        await post(nodeB, {
          spans: [{ ...span, attributes: { 'oarlock.object': 'pods/team/worker', 'oarlock.sender': 'system:node:node-a' } }],
        })
      ).status,
    ).toBe(200);
    const traced = await cluster.api.get<{ readonly spans: readonly { readonly attributes: object }[] }>(
      '/oarlock/v1/traces?object=pods/team/worker&all=1',
    );
    expect(traced.spans.flatMap(({ attributes }) => Object.entries(attributes)).filter(([key]) => key === 'oarlock.sender')).toEqual([
      ['oarlock.sender', 'system:node:node-b'],
    ]);
  });
});

describe('a service account token', () => {
  const secrets = '/api/v1/namespaces/team/pods';
  beforeAll(async () => {
    await cluster.kubectl.run(['create', 'rolebinding', 'robot', '-n', 'team', '--clusterrole=view', '--serviceaccount=team:robot']);
  });
  const claims = (token: string) => JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as Record<string, unknown>;

  it('is not accepted by another cluster', async () => {
    const token = await serviceAccountToken(cluster, 'team', 'robot');
    await until('the token is accepted here', async () => (await withToken(token).call('GET', secrets)).status === 200);
    expect((await withToken(token, other).call('GET', '/version')).status).toBe(401);
  });

  it('is not accepted for another audience', async () => {
    const token = await serviceAccountToken(cluster, 'team', 'robot', { audiences: ['vault'] });
    expect((await withToken(token).call('GET', secrets)).status).toBe(401);
    const review = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenReview', spec: { token, audiences: ['other'] } };
    const reviewed = await cluster.api.json<{ readonly status: { readonly authenticated?: boolean } }>(
      'POST',
      '/apis/authentication.k8s.io/v1/tokenreviews',
      { body: review },
    );
    expect(reviewed.status.authenticated ?? false).toBe(false);
  });

  it('is bound to its pod, lasts an hour, and ends with the pod', async () => {
    await cluster.api.json('POST', '/api/v1/namespaces/team/pods', { body: pod('short', { nodeName: 'node-a' }) });
    const { uid } = (await cluster.api.get<Item>('/api/v1/namespaces/team/pods/short')).metadata;
    const boundObjectRef = { apiVersion: 'v1', kind: 'Pod', name: 'short', uid };
    await expect(serviceAccountToken(cluster, 'team', 'robot', { boundObjectRef })).rejects.toThrow(/409|400|403|422/); // the pod has another account
    await cluster.api.json('DELETE', '/api/v1/namespaces/team/pods/short?gracePeriodSeconds=0');
    const own = {
      ...boundObjectRef,
      name: 'worker',
      uid: (await cluster.api.get<Item>('/api/v1/namespaces/team/pods/worker')).metadata.uid,
    };
    const token = await serviceAccountToken(cluster, 'team', 'robot', { boundObjectRef: own, expirationSeconds: 600 });
    const {
      exp,
      iat,
      'kubernetes.io': bound,
    } = claims(token) as {
      readonly exp: number;
      readonly iat: number;
      readonly 'kubernetes.io': { readonly pod?: { readonly uid?: string } };
    };
    expect([exp - iat, bound.pod?.uid]).toEqual([600, own.uid]);
    const caller = withToken(token);
    await until('the token is accepted', async () => (await caller.call('GET', secrets)).status === 200);
    await cluster.api.json('DELETE', '/api/v1/namespaces/team/pods/worker?gracePeriodSeconds=0');
    await until('the token ends with its pod', async () => (await caller.call('GET', secrets)).status === 401);
  });

  it('ends with its service account, and one that was altered was never valid', async () => {
    await cluster.kubectl.run(['create', 'serviceaccount', 'brief', '-n', 'team']);
    const token = await serviceAccountToken(cluster, 'team', 'brief');
    const caller = withToken(token);
    expect((await caller.call('GET', '/version')).status).toBe(200);
    const [head = '', payload = '', signature = ''] = token.split('.');
    const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
    const forged = { ...claims(token), sub: 'system:serviceaccount:kube-system:default' };
    for (const altered of [
      `${head}.${encode(forged)}.${signature}`,
      `${encode({ alg: 'none' })}.${payload}.`,
      `${encode({ alg: 'HS256' })}.${payload}.${signature}`,
      `${head}.${payload}.${signature.slice(0, -4)}AAAA`,
      `${head}.${payload}`,
      '..',
      'x'.repeat(7000),
    ])
      expect([altered.slice(0, 40), (await withToken(altered).call('GET', '/version')).status]).toEqual([altered.slice(0, 40), 401]);
    await cluster.kubectl.run(['delete', 'serviceaccount', 'brief', '-n', 'team']);
    await until('the token ends with its account', async () => (await caller.call('GET', '/version')).status === 401);
    await cluster.kubectl.run(['create', 'serviceaccount', 'brief', '-n', 'team']);
    expect((await caller.call('GET', '/version')).status).toBe(401); // another account of the same name
  });
});

describe('admission', () => {
  const path = '/api/v1/namespaces/team/pods';
  const privileged = [{ name: 'c', image: 'host', securityContext: { privileged: true } }];

  it('is not bypassed by apply, update, subresources, ephemeral containers or workloads', async () => {
    expect((await ada.call('POST', path, { body: pod('bad', { containers: privileged }) })).status).toBe(403);
    const apply = { body: pod('bad', { containers: privileged }), type: 'application/apply-patch+yaml' };
    expect((await ada.call('PATCH', `${path}/bad?fieldManager=x`, apply)).status).toBe(403);
    expect((await ada.call('POST', path, { body: pod('bad', { hostNetwork: true }) })).status).toBe(403);
    expect((await ada.call('POST', path, { body: pod('good') })).status).toBe(201);
    const ephemeral = { name: 'debug', image: 'host', securityContext: { privileged: true } };
    const added = { body: { spec: { ephemeralContainers: [ephemeral] } }, type: 'application/strategic-merge-patch+json' };
    // the role edit does not include ephemeral containers; for a caller with the right, admission decides
    expect((await ada.call('PATCH', `${path}/good/ephemeralcontainers`, added)).status).toBe(403);
    await cluster.kubectl.run(['create', 'role', 'debug', '-n', 'team', '--verb=get,patch,update', '--resource=pods/ephemeralcontainers']);
    await cluster.kubectl.run(['create', 'rolebinding', 'debug', '-n', 'team', '--role=debug', '--user=ada']);
    const denied = await until('admission decides', async () => {
      const reply = await ada.call('PATCH', `${path}/good/ephemeralcontainers`, added);
      return !message(reply).includes('cannot patch resource') && reply;
    });
    expect([denied.status, message(denied)]).toEqual([403, expect.stringContaining('violates PodSecurity "baseline:latest"')]);
    // a status update carries neither a spec nor labels into the object
    const status = { body: { ...pod('good'), spec: { hostNetwork: true } }, type: 'application/merge-patch+json' };
    await cluster.api.call('PATCH', `${path}/good/status`, { body: status.body, headers: { 'content-type': status.type } });
    expect(
      (await cluster.api.get<Item & { readonly spec: { readonly hostNetwork?: boolean } }>(`${path}/good`)).spec.hostNetwork,
    ).toBeUndefined();
  });

  it('is the same for every version and encoding of an object', async () => {
    const scale = {
      apiVersion: 'autoscaling/v1',
      kind: 'HorizontalPodAutoscaler',
      metadata: { name: 'h' },
      spec: { maxReplicas: 3, scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name: 'd' } },
    };
    await cluster.api.json('POST', '/api/v1/namespaces/team/resourcequotas', {
      body: {
        apiVersion: 'v1',
        kind: 'ResourceQuota',
        metadata: { name: 'q' },
        spec: { hard: { 'count/horizontalpodautoscalers.autoscaling': '0', 'count/deployments.apps': '0' } },
      },
    });
    await until('the quota is counted', async () => {
      const { status } = await cluster.api.get<Item & { readonly status?: { readonly hard?: object } }>(
        '/api/v1/namespaces/team/resourcequotas/q',
      );
      return status?.hard !== undefined;
    });
    for (const version of ['v1', 'v2']) {
      const body = version === 'v1' ? scale : { ...scale, apiVersion: 'autoscaling/v2' };
      const reply = await ada.call('POST', `/apis/autoscaling/${version}/namespaces/team/horizontalpodautoscalers`, { body });
      expect([version, reply.status, message(reply)]).toEqual([version, 403, expect.stringContaining('exceeded quota: q')]);
    }
    const yaml = 'apiVersion: v1\nkind: Pod\nmetadata: {name: bad}\nspec: {hostPID: true, containers: [{name: c, image: host}]}\n';
    expect((await ada.call('POST', path, { body: yaml, type: 'application/yaml' })).status).toBe(403);
  });

  it('protects the namespace labels that it reads from the namespace administrator', async () => {
    const label = {
      body: { metadata: { labels: { 'pod-security.kubernetes.io/enforce': 'privileged' } } },
      type: 'application/merge-patch+json',
    };
    for (const where of ['/api/v1/namespaces/team', '/api/v1/namespaces/team/status', '/api/v1/namespaces/team/finalize'])
      expect([where, (await ada.call('PATCH', where, label)).status]).toEqual([
        where,
        expect.toSatisfy((code: number) => code === 403 || code === 405),
      ]);
  });
});
