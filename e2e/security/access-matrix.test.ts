import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { Machine } from '../harness/machine.ts';
import { Caller, clientCertificate, serviceAccountToken } from './support/callers.ts';
import { extraOfNode, ofAuthenticated, ofNamespaceAdmin, ofNode, rightsOf } from './support/expected-rights.ts';
import { requestFor, servedResources, type ServedResource } from './support/served-resources.ts';
import { untilValue } from '../harness/until.ts';

interface Subject {
  readonly name: string;
  readonly caller: () => Promise<Caller>;
  /** The rights in the namespace `team`, which is the only one that a binding of the test names. */
  readonly inNamespace: ReadonlySet<string>;
  /** The rights elsewhere, and on resources without a namespace. */
  readonly elsewhere: ReadonlySet<string>;
  readonly unauthenticated?: boolean;
}
const machine = Machine.use();
let cluster: Cluster;
let resources: readonly ServedResource[];
const callers: Caller[] = [];

beforeAll(async () => {
  cluster = await machine.cluster({ spec: composition({ storage: 'embedded', runtime: 'process', network: 'host' }) });
  await cluster.kubectl.run(['create', 'namespace', 'team']);
  await cluster.kubectl.run(['create', 'serviceaccount', 'robot', '-n', 'team']);
  await cluster.kubectl.run(['create', 'rolebinding', 'admins', '-n', 'team', '--clusterrole=admin', '--user=ada']);
  resources = await servedResources(cluster.api);
});
afterAll(() => {
  for (const caller of callers) caller.close();
});

const as = (commonName: string, organizations?: readonly string[]) => async () =>
  new Caller(cluster, await clientCertificate(cluster, commonName, organizations));
const authenticated = rightsOf(ofAuthenticated);
const node = rightsOf([...ofAuthenticated, ...ofNode, ...extraOfNode.map(([row]) => row)]);
const none: ReadonlySet<string> = new Set();
const subjects: readonly Subject[] = [
  { name: 'an anonymous caller', caller: async () => new Caller(cluster, {}), inNamespace: none, elsewhere: none, unauthenticated: true },
  { name: 'an authenticated user without rights', caller: as('norma'), inNamespace: authenticated, elsewhere: authenticated },
  {
    name: 'a namespace administrator',
    caller: as('ada'),
    inNamespace: rightsOf([...ofAuthenticated, ...ofNamespaceAdmin]),
    elsewhere: authenticated,
  },
  { name: 'a node that runs nothing', caller: as('system:node:node-b', ['system:nodes']), inNamespace: node, elsewhere: node },
  {
    name: 'a service account',
    caller: async () => new Caller(cluster, { token: await serviceAccountToken(cluster, 'team', 'robot') }),
    inNamespace: authenticated,
    elsewhere: authenticated,
  },
];

/** Returns true if the authorizers denied the request; admission plugins use the same status with other messages. */
const isDenied = (status: number, body: string): boolean => status === 403 && / cannot \w+ (?:resource|path) /.test(body);

async function rightsFound(
  caller: Caller,
  namespace: string,
): Promise<{ readonly allowed: string[]; readonly odd: string[]; readonly asked: string[] }> {
  const [allowed, odd, asked]: [string[], string[], string[]] = [[], [], []];
  await Promise.all(
    resources.flatMap((resource) =>
      resource.verbs.map(async (verb) => {
        const right = `${verb} ${resource.group}/${resource.name}`;
        asked.push(right);
        const { method, path, ...rest } = requestFor(resource, verb, namespace);
        // a request that priority and fairness rejects on a busy machine does not show whether the right exists
        const { status, body } = await untilValue(
          right,
          () => caller.call(method, path, rest),
          (reply) => reply.status !== 429,
        );
        if (status === 401 || isDenied(status, body)) return;
        allowed.push(right);
        if (status >= 500 && !(status === 503 && body.includes('NotAcceptable')))
          odd.push(`${method} ${path}: ${status} ${body.slice(0, 200)}`);
      }),
    ),
  );
  return { allowed: [...new Set(allowed)].sort(), odd, asked };
}

describe('every verb on every resource', () => {
  it.each(subjects)(
    'is allowed to $name as far as the default policy allows it',
    async ({ caller: open, inNamespace, elsewhere, unauthenticated }) => {
      const caller = await open();
      callers.push(caller);
      for (const [namespace, expected] of [
        ['team', inNamespace],
        ['default', elsewhere],
      ] as const) {
        const { allowed, odd, asked } = await rightsFound(caller, namespace);
        expect(asked.length).toBeGreaterThan(500);
        expect(odd).toEqual([]);
        expect(allowed, namespace).toEqual([...new Set(asked.filter((right) => expected.has(right)))].sort());
      }
      const { status } = await caller.call('GET', '/api/v1/secrets');
      expect(status).toBe(unauthenticated === true ? 401 : 403);
    },
  );

  it('is listed for the whole of the resources that the default configuration serves', () => {
    const names = new Set(resources.map(({ group, name }) => `${group}/${name}`));
    for (const name of [
      '/pods',
      '/secrets',
      'apps/deployments',
      'rbac.authorization.k8s.io/roles',
      '/serviceaccounts/token',
      '/nodes/proxy',
    ])
      expect(names).toContain(name);
    expect(names.size).toBeGreaterThan(100);
  });
});

describe('a path without a resource', () => {
  const open = ['/healthz', '/livez', '/readyz', '/version', '/oarlock/v1/ca'];
  const authenticatedOnly = ['/api', '/apis', '/api/v1', '/apis/apps/v1', '/openapi/v2', '/openapi/v3'];
  const privileged = [
    '/metrics',
    '/logs',
    '/debug/pprof',
    '/debug/pprof/profile',
    '/debug/api_priority_and_fairness/dump_requests',
    '/debug/flags/v',
    '/configz',
    '/statusz',
    '/flagz',
    '/livez/etcd',
    '/oarlock/v1/backup',
    '/oarlock/v1/traces',
    '/oarlock/v1/authorization',
    '/oarlock/v1/scheduling',
    '/oarlock/v1/join',
    '/oarlock/v1/spans',
  ];
  const issuer = ['/.well-known/openid-configuration', '/openid/v1/jwks'];
  const statusOf = async (caller: Caller, paths: readonly string[], method = 'GET') =>
    Object.fromEntries(await Promise.all(paths.map(async (path) => [path, (await caller.call(method, path)).status] as const)));
  const allOf = (paths: readonly string[], status: number) => Object.fromEntries(paths.map((path) => [path, status]));

  it('is open to anonymous callers if it is needed before they have credentials', async () => {
    const anonymous = new Caller(cluster, {});
    callers.push(anonymous);
    expect(await statusOf(anonymous, open)).toEqual(allOf(open, 200));
    const closed = [...authenticatedOnly, ...privileged, ...issuer, '/', '/healthz/', '/version/', '/healthz/ping', '/swagger.json'];
    expect(await statusOf(anonymous, closed)).toEqual(allOf(closed, 401));
    expect(await statusOf(anonymous, open, 'POST')).toEqual(allOf(open, 403));
    expect(await statusOf(anonymous, open, 'DELETE')).toEqual(allOf(open, 403));
  });

  it('is for administrators unless a default role names it', async () => {
    const withoutRights = await as('norma')();
    callers.push(withoutRights);
    expect(await statusOf(withoutRights, [...open, ...authenticatedOnly])).toEqual(allOf([...open, ...authenticatedOnly], 200));
    expect(await statusOf(withoutRights, [...privileged, ...issuer])).toEqual(allOf([...privileged, ...issuer], 403));
    const robot = new Caller(cluster, { token: await serviceAccountToken(cluster, 'team', 'robot') });
    callers.push(robot);
    expect(await statusOf(robot, issuer)).toEqual(allOf(issuer, 200));
    expect(await statusOf(robot, privileged)).toEqual(allOf(privileged, 403));
  });

  it('has no profiling, even for an administrator', async () => {
    for (const path of ['/debug/pprof', '/debug/pprof/', '/debug/pprof/heap', '/debug/pprof/profile'])
      expect([path, (await cluster.api.call('GET', path)).status]).toEqual([path, 404]);
  });
});
