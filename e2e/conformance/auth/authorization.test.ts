import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Cluster } from '../../harness/cluster.ts';
import { composition } from '../../harness/composition.ts';
import { Machine } from '../../harness/machine.ts';
import { until, untilValue } from '../../harness/until.ts';
import { jsonService, type JsonService } from './sender.ts';

const spec = { ...composition({ storage: 'memory', runtime: 'simulated', network: 'host' }), roles: ['apiserver'] };
/** Headers with which the administrator impersonates another user. */
const as = (user: string, ...groups: string[]) => ({
  headers: { 'impersonate-user': user, ...(groups.length > 0 && { 'impersonate-group': groups.join(',') }) },
});

/** All authorizers, tested by requests over HTTPS. */
describe('authorization', () => {
  const machine = Machine.use();
  let cluster: Cluster;
  let service: JsonService;
  let auditLog: string;
  const asked: string[] = [];
  const status = async (path: string, user: string, ...groups: string[]) =>
    (await cluster.api.call('GET', path, as(user, ...groups))).status;
  const maps = '/api/v1/namespaces/default/configmaps';

  beforeAll(async () => {
    service = await jsonService((review) => {
      const { user } = (review as { spec: { user: string } }).spec;
      asked.push(user);
      return { status: { allowed: user === 'wendy', denied: user === 'eve', reason: `the service allows ${user}` } };
    });
    const dir = machine.path('files');
    await mkdir(dir, { recursive: true });
    auditLog = join(dir, 'audit.log');
    await writeFile(
      join(dir, 'abac.jsonl'),
      `${JSON.stringify({
        apiVersion: 'abac.authorization.kubernetes.io/v1beta1',
        kind: 'Policy',
        spec: { user: 'abby', namespace: '*', resource: 'configmaps', readonly: true },
      })}\n`,
    );
    cluster = await machine.cluster({
      spec: {
        ...spec,
        ...{
          authz: [
            'authz-masters',
            'authz-node',
            'authz-rbac',
            { use: 'authz-abac', config: { file: join(dir, 'abac.jsonl') } },
            {
              use: 'authz-webhook',
              config: { url: `${service.url}/`, matchConditions: [{ expression: "request.user != 'nobody'" }] },
            },
          ],
          audit: [{ use: 'audit-log', config: { path: auditLog } }],
        },
      },
    });
  });
  afterAll(() => service.close());

  it('RBAC allows what roles grant, and reports the role', async () => {
    expect(await status(maps, 'ruth')).toBe(403);
    await cluster.kubectl.apply([
      {
        apiVersion: 'rbac.authorization.k8s.io/v1',
        kind: 'Role',
        metadata: { name: 'reader', namespace: 'default' },
        rules: [{ apiGroups: [''], resources: ['configmaps'], verbs: ['list'] }],
      },
      {
        apiVersion: 'rbac.authorization.k8s.io/v1',
        kind: 'RoleBinding',
        metadata: { name: 'ruth', namespace: 'default' },
        roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'reader' },
        subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: 'ruth' }],
      },
    ]);
    await untilValue(
      'ruth reads',
      () => status(maps, 'ruth'),
      (code) => code === 200,
    );
    expect(await status('/api/v1/namespaces/default/secrets', 'ruth')).toBe(403);
    const why = await cluster.oarlock('auth', 'why', 'ruth', 'list', 'configmaps', '-n', 'default');
    expect(why.stdout).toContain('allowed by RoleBinding "ruth/default" of Role "reader" to User "ruth"');
    expect(why.stdout).toContain('authz-rbac');
    // the response states that rules of some authorizers cannot be listed
    const can = await cluster.kubectl.try(['auth', 'can-i', '--list', '--as', 'ruth']);
    expect(can.stderr).toContain('webhook authorizer does not support user rule resolution');
    expect(can.stdout).toMatch(/configmaps +\[\] +\[\] +\[list\]/);
  });

  it('ABAC allows what its file grants, and the webhook what its service grants', async () => {
    expect(await status(maps, 'abby')).toBe(200);
    expect(await status('/api/v1/namespaces/default/secrets', 'abby')).toBe(403);
    expect(await status(maps, 'wendy')).toBe(200);
    const forbidden = await cluster.api.call('GET', maps, as('eve'));
    expect([forbidden.status, forbidden.body]).toEqual([403, expect.stringContaining('the service allows eve')]);
    // decisions are cached, and requests that do not match the conditions are not sent
    asked.length = 0;
    expect(await status(maps, 'wendy')).toBe(200);
    expect(await status(maps, 'nobody')).toBe(403);
    expect(asked).toEqual([]);
  });

  it('Node allows a node to access its own objects', async () => {
    const node = (path: string) => status(path, 'system:node:n1', 'system:nodes');
    await cluster.api.renew('/api/v1/nodes', { metadata: { name: 'n1' } });
    expect(await node('/api/v1/nodes/n1')).toBe(200);
    expect(await node('/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n2')).toBe(403);
    expect(await node('/api/v1/namespaces/default/secrets')).toBe(403);
  });

  it('responds to the four kinds of access review, and lists rules', async () => {
    const review = async (kind: string, body: object, path = '', user = 'ruth') =>
      (
        await cluster.api.json<{ status: { allowed?: boolean; resourceRules?: object[] } }>(
          'POST',
          `/apis/authorization.k8s.io/v1${path}/${kind.toLowerCase()}s`,
          { body: { apiVersion: 'authorization.k8s.io/v1', kind, spec: body }, ...(user !== '' && as(user)) },
        )
      ).status;
    const resourceAttributes = { namespace: 'default', verb: 'get', resource: 'configmaps' };
    expect(await review('SubjectAccessReview', { user: 'abby', resourceAttributes }, '', '')).toMatchObject({ allowed: true });
    expect(await review('LocalSubjectAccessReview', { user: 'abby', resourceAttributes }, '/namespaces/default', '')).toMatchObject({
      allowed: true,
    });
    expect(await review('SelfSubjectAccessReview', { resourceAttributes: { ...resourceAttributes, resource: 'secrets' } })).toMatchObject({
      allowed: false,
    });
    const rules = await review('SelfSubjectRulesReview', { namespace: 'default' }, '', 'abby');
    expect(rules.resourceRules).toContainEqual(expect.objectContaining({ resources: ['configmaps'] }));
  });

  it('records the authorizer and reason of every request in the audit log', async () => {
    await cluster.api.call('GET', `${maps}/audited`, as('abby'));
    await cluster.api.call('DELETE', `${maps}/audited`, as('abby'));
    interface Event {
      readonly verb: string;
      readonly stage: string;
      readonly impersonatedUser?: { readonly username: string };
      readonly objectRef?: { readonly name?: string };
      readonly annotations?: Readonly<Record<string, string>>;
    }
    const events = await until('the log', async () => {
      const all = (await readFile(auditLog, 'utf8')).trim().split('\n');
      const mine = all
        .map((line) => JSON.parse(line) as Event)
        .filter(({ objectRef, stage }) => objectRef?.name === 'audited' && stage === 'ResponseComplete');
      return mine.length >= 2 ? mine : undefined;
    });
    expect(events.slice(0, 2)).toMatchObject([
      { verb: 'get', impersonatedUser: { username: 'abby' }, annotations: { 'authorization.k8s.io/decision': 'allow' } },
      { verb: 'delete', annotations: { 'authorization.k8s.io/decision': 'forbid' } },
    ]);
  });

  it.each([
    [['authz-masters', 'authz-always-allow'], 200],
    [['authz-masters', 'authz-always-deny', 'authz-always-allow'], 403],
  ] as const)('%j: other users get %i', async (authz, wanted) => {
    const other = await machine.cluster({ spec: { ...spec, ...{ authz } } });
    expect((await other.api.call('GET', '/api/v1/secrets', as('ada'))).status).toBe(wanted);
    await machine.dispose(other);
  });
});
