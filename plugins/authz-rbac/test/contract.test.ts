import { clusterRoleBindings, clusterRoles, roleBindings, roles } from '@oarlock/api/resources';
import type { PolicyRule, Subject } from '@oarlock/api/types/rbac-v1';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Authz, type Attributes, type Authorizer } from '@oarlock/spi/authz';
import { resourceAttributes, pathAttributes, authzContract, user } from '@oarlock/spi/authz/contract';
import { Client, Informers } from '@oarlock/spi/client';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { describe, expect, it } from 'vitest';
import plugin from '../src/plugin.ts';

const apiGroup = 'rbac.authorization.k8s.io';
const clusterRole = (name: string, ...rules: PolicyRule[]) => ({ metadata: { name }, rules });
const role = (namespace: string, name: string, ...rules: PolicyRule[]) => ({ metadata: { namespace, name }, rules });
const bind = (name: string, kind: string, role: string, ...subjects: Subject[]) => ({
  metadata: { name },
  roleRef: { apiGroup, kind, name: role },
  subjects,
});
const bindIn = (namespace: string, name: string, kind: string, role: string, ...subjects: Subject[]) => ({
  ...bind(name, kind, role, ...subjects),
  metadata: { namespace, name },
});
const group = (name: string): Subject => ({ apiGroup, kind: 'Group', name });
const person = (name: string): Subject => ({ apiGroup, kind: 'User', name });
const account = (namespace: string, name: string): Subject => ({ kind: 'ServiceAccount', namespace, name });

/** Does what the API server does after it serves requests. */
async function runPostStartHook(authorizer: Authorizer | undefined, clock: FakeClock): Promise<void> {
  expect(authorizer?.postStartHook?.name).toBe('rbac/bootstrap-roles');
  const running = authorizer?.postStartHook?.run(new AbortController().signal);
  await clock.settle();
  await running;
}

async function open(config: object = { defaults: false }) {
  const clock = new FakeClock();
  const api = memoryApi({ clock });
  api.seed(
    clusterRoles,
    clusterRole('reader', { apiGroups: [''], resources: ['pods', 'pods/log'], verbs: ['get', 'list'] }),
    clusterRole('scaler', { apiGroups: ['apps'], resources: ['*/scale'], verbs: ['*'] }),
    clusterRole('paths', { nonResourceURLs: ['/metrics', '/debug/*'], verbs: ['get'] }),
    clusterRole('everything', { apiGroups: ['*'], resources: ['*'], verbs: ['*'] }, { nonResourceURLs: ['*'], verbs: ['*'] }),
  );
  api.seed(
    roles,
    role('a', 'one-secret', { apiGroups: [''], resources: ['secrets'], resourceNames: ['s1', 's2'], verbs: ['get', 'watch'] }),
  );
  api.seed(
    clusterRoleBindings,
    bind('readers', 'ClusterRole', 'reader', group('readers')),
    bind('paths', 'ClusterRole', 'paths', person('probe'), account('mon', 'prom')),
    bind('everything', 'ClusterRole', 'everything', person('root')),
    bind('dangling', 'ClusterRole', 'nowhere', person('lost')),
  );
  api.seed(
    roleBindings,
    bindIn('a', 'secret', 'Role', 'one-secret', person('ada'), account('', 'robot')),
    bindIn('a', 'scale', 'ClusterRole', 'scaler', group('ops')),
    bindIn('b', 'all', 'ClusterRole', 'everything', account('b', 'robot')),
    bindIn('c', 'other', 'Role', 'one-secret', person('ada')),
  );
  const host = new PluginHost({ clock }).provide(Client, api.client()).provide(Informers, api.informers).add({ plugin, config });
  const [authorizer] = host.get(Authz);
  if (authorizer === undefined) throw new Error('not created');
  await host.start();
  await runPostStartHook(authorizer, clock);
  return {
    api,
    clock,
    authorizer,
    dispose: async () => {
      await host.stop();
      await api.stop();
    },
  };
}
const robot = (namespace: string, name = 'robot') =>
  user(
    `system:serviceaccount:${namespace}:${name}`,
    'system:serviceaccounts',
    `system:serviceaccounts:${namespace}`,
    'system:authenticated',
  );

authzContract('authz-rbac', async () => ({
  ...(await open()),
  allowed: [
    resourceAttributes(user('bob', 'readers'), 'get', 'pods', 'x', 'p'),
    resourceAttributes(user('bob', 'readers'), 'list', 'pods'),
    resourceAttributes(user('bob', 'readers'), 'get', 'pods/log', 'x', 'p'),
    resourceAttributes(user('ada'), 'get', 'secrets', 'a', 's1'),
    resourceAttributes(user('ada'), 'watch', 'secrets', 'a', 's2'),
    resourceAttributes(robot('a'), 'get', 'secrets', 'a', 's1'),
    resourceAttributes(user('eve', 'ops'), 'patch', 'deployments.apps/scale', 'a', 'web'),
    pathAttributes(user('probe'), 'get', '/metrics'),
    pathAttributes(robot('mon', 'prom'), 'get', '/debug/pprof/heap'),
    resourceAttributes(user('root'), 'impersonate', 'users', '', 'x'),
    pathAttributes(user('root'), 'delete', '/anything'),
    resourceAttributes(robot('b'), 'delete', 'deployments.apps', 'b', 'web'),
  ],
  noOpinion: [
    resourceAttributes(user('bob', 'readers'), 'create', 'pods', 'x'),
    resourceAttributes(user('bob', 'readers'), 'get', 'pods/exec', 'x', 'p'),
    resourceAttributes(user('bob', 'readers'), 'get', 'pods.apps', 'x', 'p'),
    resourceAttributes(user('readers'), 'get', 'pods', 'x', 'p'),
    resourceAttributes(user('ada'), 'get', 'secrets', 'a', 's3'),
    resourceAttributes(user('ada'), 'watch', 'secrets', 'a'),
    resourceAttributes(user('ada'), 'get', 'secrets', '', 's1'),
    resourceAttributes(user('ada'), 'get', 'secrets', 'c', 's1'),
    resourceAttributes(robot('b'), 'get', 'secrets', 'a', 's1'),
    resourceAttributes(robot('b'), 'get', 'pods'),
    resourceAttributes(robot('a'), 'get', 'pods', 'b', 'p'),
    pathAttributes(robot('b'), 'get', '/metrics'),
    resourceAttributes(user('eve', 'ops'), 'patch', 'deployments.apps', 'a', 'web'),
    resourceAttributes(user('eve', 'ops'), 'patch', 'deployments.apps/scale', 'b', 'web'),
    resourceAttributes(user('eve', 'ops'), 'get', 'replicationcontrollers/scale', 'a', 'web'),
    pathAttributes(user('probe'), 'get', '/metrics/'),
    pathAttributes(user('probe'), 'get', '/debug'),
    pathAttributes(user('probe'), 'post', '/metrics'),
    resourceAttributes(user('lost'), 'get', 'pods', 'a', 'p'),
  ],
}));

const decide = async (authorizer: Awaited<ReturnType<typeof open>>['authorizer'], attributes: Attributes) =>
  await authorizer.authorize(attributes);

describe('authz-rbac', () => {
  it('names the binding, role and subject in its reason', async () => {
    const { authorizer, dispose } = await open();
    const reasonOf = async (attributes: Attributes) => (await decide(authorizer, attributes)).reason;
    expect(await reasonOf(resourceAttributes(user('bob', 'readers'), 'get', 'pods', 'x', 'p'))).toBe(
      'RBAC: allowed by ClusterRoleBinding "readers" of ClusterRole "reader" to Group "readers"',
    );
    expect(await reasonOf(resourceAttributes(robot('a'), 'get', 'secrets', 'a', 's1'))).toBe(
      'RBAC: allowed by RoleBinding "secret/a" of Role "one-secret" to ServiceAccount "robot/a"',
    );
    expect(await reasonOf(resourceAttributes(user('lost'), 'get', 'pods', 'a', 'p'))).toBe(
      'RBAC: clusterrole.rbac.authorization.k8s.io "nowhere" not found',
    );
    await dispose();
  });

  it('updates its decisions when roles and bindings change', async () => {
    const { api, clock, authorizer, dispose } = await open();
    const may = async (attributes: Attributes) => (await decide(authorizer, attributes)).decision === 'allow';
    const question = resourceAttributes(user('new'), 'get', 'pods', 'x', 'p');
    expect(await may(question)).toBe(false);
    const client = api.client();
    await client.create(clusterRoleBindings, bind('late', 'ClusterRole', 'reader', person('new')));
    await clock.settle();
    expect(await may(question)).toBe(true);
    const held = await client.get(clusterRoles, { name: 'reader' });
    await client.update(clusterRoles, { ...held, rules: [] });
    await clock.settle();
    expect(await may(question)).toBe(false);
    await client.update(clusterRoles, { ...(await client.get(clusterRoles, { name: 'reader' })), rules: held.rules ?? [] });
    const late = await client.get(clusterRoleBindings, { name: 'late' });
    await client.update(clusterRoleBindings, { ...late, subjects: [person('other')] });
    await clock.settle();
    expect(await may(question)).toBe(false);
    expect(await may(resourceAttributes(user('other'), 'get', 'pods', 'x', 'p'))).toBe(true);
    await client.delete(clusterRoleBindings, { name: 'late' });
    await clock.settle();
    expect(await may(resourceAttributes(user('other'), 'get', 'pods', 'x', 'p'))).toBe(false);
    await dispose();
  });

  it('lists the rules of a user for a namespace', async () => {
    const { authorizer, dispose } = await open();
    expect(await authorizer.rulesFor?.(user('ada', 'readers'), 'a')).toEqual({
      resources: [
        { apiGroups: [''], resources: ['pods', 'pods/log'], verbs: ['get', 'list'] },
        { apiGroups: [''], resources: ['secrets'], resourceNames: ['s1', 's2'], verbs: ['get', 'watch'] },
      ],
      paths: [],
    });
    expect(await authorizer.rulesFor?.(robot('b'), 'b')).toMatchObject({ resources: [{ verbs: ['*'] }], paths: [] });
    await dispose();
  });
});

describe('default roles and bindings', () => {
  it('are created by the post-start hook and grant their permissions', async () => {
    const { api, authorizer, dispose } = await open({});
    const may = async (attributes: Attributes) => (await decide(authorizer, attributes)).decision === 'allow';
    expect(api.objects(clusterRoles).length).toBeGreaterThan(70);
    expect(api.object(clusterRoles, { name: 'admin' })).toMatchObject({
      metadata: {
        labels: { 'kubernetes.io/bootstrapping': 'rbac-defaults' },
        annotations: { 'rbac.authorization.kubernetes.io/autoupdate': 'true' },
      },
      aggregationRule: { clusterRoleSelectors: [{ matchLabels: { 'rbac.authorization.k8s.io/aggregate-to-admin': 'true' } }] },
    });
    expect(api.object(clusterRoleBindings, { name: 'system:controller:deployment-controller' })).toMatchObject({
      roleRef: { kind: 'ClusterRole', name: 'system:controller:deployment-controller' },
      subjects: [{ kind: 'ServiceAccount', namespace: 'kube-system', name: 'deployment-controller' }],
    });
    const authenticatedUser = user('alice', 'system:authenticated');
    const anonymous = user('system:anonymous', 'system:unauthenticated');
    expect(await may(resourceAttributes(user('admin', 'system:masters'), 'delete', 'nodes'))).toBe(true);
    expect(await may(pathAttributes(anonymous, 'get', '/livez'))).toBe(true);
    expect(await may(pathAttributes(anonymous, 'get', '/oarlock/v1/ca'))).toBe(true);
    expect(await may(pathAttributes(anonymous, 'get', '/apis'))).toBe(false);
    expect(await may(pathAttributes(authenticatedUser, 'get', '/apis/apps/v1'))).toBe(true);
    expect(await may(resourceAttributes(authenticatedUser, 'create', 'selfsubjectaccessreviews.authorization.k8s.io'))).toBe(true);
    expect(await may(resourceAttributes(authenticatedUser, 'list', 'pods', 'default'))).toBe(false);
    expect(await may(resourceAttributes(robot('kube-system', 'deployment-controller'), 'create', 'replicasets.apps', 'x'))).toBe(true);
    expect(await may(resourceAttributes(robot('kube-system', 'deployment-controller'), 'get', 'secrets', 'x', 'y'))).toBe(false);
    expect(await may(resourceAttributes(user('system:kube-scheduler'), 'create', 'pods/binding', 'x', 'p'))).toBe(true);
    await dispose();
  });

  it('are created at once for the first request that needs them', async () => {
    const clock = new FakeClock();
    const api = memoryApi({ clock });
    const host = new PluginHost({ clock }).provide(Client, api.client()).provide(Informers, api.informers).add({ plugin });
    const [authorizer] = host.get(Authz);
    await host.start();
    const answer = authorizer?.authorize(
      resourceAttributes(user('alice', 'system:authenticated'), 'create', 'selfsubjectaccessreviews.authorization.k8s.io'),
    );
    expect(authorizer?.authorize(resourceAttributes(user('admin', 'system:masters'), 'delete', 'nodes'))).toMatchObject({
      decision: 'allow',
    });
    await clock.settle();
    expect(await answer).toMatchObject({ decision: 'allow' });
    await host.stop();
    await api.stop();
  });

  it('apply to control plane components from the first request, before they are written', async () => {
    const clock = new FakeClock();
    const api = memoryApi({ clock });
    const host = new PluginHost({ clock }).provide(Client, api.client()).provide(Informers, api.informers).add({ plugin });
    const [authorizer] = host.get(Authz);
    await host.start();
    const authorize = (attributes: Attributes) => authorizer?.authorize(attributes);
    expect(authorize(resourceAttributes(user('system:kube-scheduler'), 'create', 'pods/binding', 'x', 'p'))).toMatchObject({
      decision: 'allow',
    });
    expect(authorize(resourceAttributes(robot('kube-system', 'pod-garbage-collector'), 'patch', 'pods/status', 'x', 'p'))).toMatchObject({
      decision: 'allow',
    });
    expect(
      authorize(resourceAttributes(user('system:oarlock:dns'), 'create', 'endpointslices.discovery.k8s.io', 'kube-system')),
    ).toMatchObject({
      decision: 'allow',
    });
    expect(api.objects(clusterRoles)).toEqual([]);
    // a request that the default roles do not allow waits for the stored roles
    const more = [
      authorize(resourceAttributes(user('system:kube-scheduler'), 'get', 'secrets', 'x', 'p')),
      authorize(resourceAttributes(user('system:oarlock:dns'), 'create', 'endpointslices.discovery.k8s.io', 'default')),
    ];
    await clock.settle();
    for (const answer of await Promise.all(more)) expect(answer).toMatchObject({ decision: 'no-opinion' });
    await host.stop();
    await api.stop();
  });

  it('get back removed parts, keep added parts, and are not changed with autoupdate false', async () => {
    const clock = new FakeClock();
    const api = memoryApi({ clock });
    const client = api.client();
    const extra: PolicyRule = { apiGroups: ['acme.io'], resources: ['rockets'], verbs: ['launch'] };
    api.seed(
      clusterRoles,
      { metadata: { name: 'system:kube-dns', labels: { mine: 'x' } }, rules: [extra] },
      {
        metadata: { name: 'system:basic-user', annotations: { 'rbac.authorization.kubernetes.io/autoupdate': 'false' } },
        rules: [extra],
      },
    );
    api.seed(
      clusterRoleBindings,
      bind('system:basic-user', 'ClusterRole', 'system:basic-user', person('ada')),
      bind('system:discovery', 'ClusterRole', 'other'),
    );
    const host = new PluginHost({ clock }).provide(Client, client).provide(Informers, api.informers).add({ plugin });
    const [authorizer] = host.get(Authz);
    await host.start();
    await runPostStartHook(authorizer, clock);
    const dns = api.object(clusterRoles, { name: 'system:kube-dns' });
    expect(dns?.rules?.[0]).toEqual(extra);
    expect(dns?.rules?.length).toBeGreaterThan(1);
    expect(dns?.metadata?.labels).toEqual({ mine: 'x', 'kubernetes.io/bootstrapping': 'rbac-defaults' });
    expect(api.object(clusterRoles, { name: 'system:basic-user' })?.rules).toEqual([extra]);
    expect(api.object(clusterRoleBindings, { name: 'system:basic-user' })?.subjects).toEqual([
      person('ada'),
      group('system:authenticated'),
    ]);
    expect(api.object(clusterRoleBindings, { name: 'system:discovery' })?.roleRef.name).toBe('system:discovery');
    const again = new PluginHost({ clock }).provide(Client, client).provide(Informers, api.informers).add({ plugin });
    api.requests.length = 0;
    const [restarted] = again.get(Authz);
    await again.start();
    await runPostStartHook(restarted, clock);
    expect(api.requests.filter(({ verb }) => !['list', 'watch', 'get'].includes(verb))).toEqual([]);
    await host.stop();
    await again.stop();
    await api.stop();
  });
});
