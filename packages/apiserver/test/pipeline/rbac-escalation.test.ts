import type { PolicyRule } from '@oarlock/api/types/rbac-v1';
import type { Identity } from '@oarlock/spi/authn';
import type { Authorizer } from '@oarlock/spi/authz';
import { afterEach, describe, expect, it } from 'vitest';
import { rejectionOf, TestServer } from '../support/pipeline-fixture.ts';

const group = 'rbac.authorization.k8s.io';
const apiVersion = `${group}/v1`;
const ada: Identity = { name: 'ada', groups: ['devs', 'system:authenticated'] };
const pods: PolicyRule = { apiGroups: [''], resources: ['pods', 'pods/log'], verbs: ['get', 'list'] };

/** Allows all writes except escalate and bind, and lists the rules of a user. */
const chain = (held: readonly PolicyRule[], special: readonly string[] = []): Authorizer[] => [
  {
    authorize: ({ verb }) =>
      (verb === 'escalate' || verb === 'bind') && !special.includes(verb)
        ? { decision: 'no-opinion' }
        : { decision: 'allow', reason: 'test' },
    rulesFor: () => ({
      resources: held.filter(({ resources }) => resources !== undefined),
      paths: held.filter(({ nonResourceURLs }) => nonResourceURLs !== undefined),
    }),
  },
];

let server: TestServer;
const start = async (held: readonly PolicyRule[], special: readonly string[] = []) => {
  server = await TestServer.start({ authz: chain(held, special) });
};
afterEach(() => server.stop());

const clusterRole = (rules: readonly PolicyRule[], more: object = {}) => ({
  apiVersion,
  kind: 'ClusterRole',
  metadata: { name: 'r' },
  rules,
  ...more,
});
const role = (rules: readonly PolicyRule[]) => ({ apiVersion, kind: 'Role', metadata: { name: 'r' }, rules });
const binding = (kind: string, name: string, of = 'RoleBinding') => ({
  apiVersion,
  kind: of,
  metadata: { name: 'b' },
  roleRef: { apiGroup: group, kind, name },
  subjects: [{ apiGroup: group, kind: 'User', name: 'eve' }],
});
const as = { identity: ada };

describe('privilege escalation through roles and bindings', () => {
  it('is rejected for rules that the writer does not hold, all of which the message lists', async () => {
    await start([pods]);
    const wanted: PolicyRule[] = [
      { apiGroups: ['', 'apps'], resources: ['pods', 'secrets'], verbs: ['get', 'delete'] },
      { nonResourceURLs: ['/metrics'], verbs: ['get'] },
    ];
    const { status } = await rejectionOf(server.create(`clusterroles.${group}`, clusterRole(wanted), as));
    expect(status).toMatchObject({ code: 403, reason: 'Forbidden' });
    expect(status.message).toBe(
      `clusterroles.rbac.authorization.k8s.io "r" is forbidden: user "ada" (groups=["devs" "system:authenticated"]) is attempting to grant RBAC permissions not currently held:\n` +
        [
          '{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}',
          '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "delete"]}',
          '{APIGroups:["apps"], Resources:["pods"], Verbs:["get" "delete"]}',
          '{APIGroups:["apps"], Resources:["secrets"], Verbs:["get" "delete"]}',
          '{NonResourceURLs:["/metrics"], Verbs:["get"]}',
        ].join('\n'),
    );
  });

  it('is allowed for rules that the writer holds, for system:masters, and with the escalate verb', async () => {
    await start([pods]);
    await server.create(`roles.${group}`, role([{ apiGroups: [''], resources: ['pods/log'], verbs: ['get'], resourceNames: ['x'] }]), as);
    await server.create(`clusterroles.${group}`, clusterRole([{ apiGroups: ['*'], resources: ['*'], verbs: ['*'] }]));
    await server.stop();
    await start([], ['escalate']);
    await server.create(`roles.${group}`, role([{ apiGroups: ['*'], resources: ['*'], verbs: ['*'] }]), as);
  });

  it('is rejected on update and patch, except for changes of the garbage collector', async () => {
    await start([pods]);
    await server.create(`roles.${group}`, role([{ apiGroups: [''], resources: ['secrets'], verbs: ['get'] }]));
    const held = await server.get(`roles.${group}`, 'r');
    await server.update(`roles.${group}`, { ...held, metadata: { ...held.metadata, finalizers: ['example.com/x'] } }, as);
    const stars = { rules: [{ apiGroups: ['*'], resources: ['*'], verbs: ['*'] }] };
    expect((await rejectionOf(server.patch(`roles.${group}`, 'r', stars, as))).message).toContain(
      '{APIGroups:["*"], Resources:["*"], Verbs:["*"]}',
    );
    expect(
      (await rejectionOf(server.update(`roles.${group}`, role([{ apiGroups: [''], resources: ['nodes'], verbs: ['get'] }]), as))).code,
    ).toBe(403);
    await server.update(`roles.${group}`, role([pods]), as);
  });

  it('is rejected through aggregation unless the writer holds all permissions', async () => {
    await start([pods]);
    const aggregationRule = { clusterRoleSelectors: [{ matchLabels: { mine: 'true' } }] };
    expect((await rejectionOf(server.create(`clusterroles.${group}`, clusterRole([], { aggregationRule }), as))).message).toContain(
      'must have cluster-admin privileges to use the aggregationRule',
    );
    await server.stop();
    await start([
      { apiGroups: ['*'], resources: ['*'], verbs: ['*'] },
      { nonResourceURLs: ['*'], verbs: ['*'] },
    ]);
    await server.create(`clusterroles.${group}`, clusterRole([], { aggregationRule }), as);
  });

  it('is rejected through bindings to roles with more rules, and allowed with the bind verb', async () => {
    await start([pods]);
    await server.create(`clusterroles.${group}`, clusterRole([{ apiGroups: [''], resources: ['secrets'], verbs: ['*'] }]));
    await server.create(`roles.${group}`, role([pods]));
    const rejection = await rejectionOf(
      server.create(`clusterrolebindings.${group}`, binding('ClusterRole', 'r', 'ClusterRoleBinding'), as),
    );
    expect(rejection.message).toMatch(
      /^clusterrolebindings.rbac.authorization.k8s.io "b" is forbidden: user "ada" .*\n\{APIGroups:\[""\], Resources:\["secrets"\], Verbs:\["\*"\]\}$/,
    );
    expect((await rejectionOf(server.create(`rolebindings.${group}`, binding('ClusterRole', 'r'), as))).code).toBe(403);
    await server.create(`rolebindings.${group}`, binding('Role', 'r'), as);
    const missing = await rejectionOf(
      server.create(`rolebindings.${group}`, { ...binding('Role', 'nowhere'), metadata: { name: 'c' } }, as),
    );
    expect(missing.status).toMatchObject({ code: 404, message: 'roles.rbac.authorization.k8s.io "nowhere" not found' });
    await server.stop();
    await start([], ['bind']);
    await server.create(`clusterrolebindings.${group}`, binding('ClusterRole', 'cluster-admin', 'ClusterRoleBinding'), as);
  });
});

describe('rules review', () => {
  it('lists the rules of all authorizers', async () => {
    await start([pods, { nonResourceURLs: ['/metrics'], verbs: ['get'] }]);
    const review = { apiVersion: 'authorization.k8s.io/v1', kind: 'SelfSubjectRulesReview', ...{ spec: { namespace: 'default' } } };
    expect(await server.create('selfsubjectrulesreviews.authorization.k8s.io', review, as)).toMatchObject({
      status: {
        resourceRules: [{ verbs: ['get', 'list'], apiGroups: [''], resources: ['pods', 'pods/log'] }],
        nonResourceRules: [{ verbs: ['get'], nonResourceURLs: ['/metrics'] }],
        incomplete: false,
      },
    });
  });
});
