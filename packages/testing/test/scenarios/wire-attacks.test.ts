import { createPrivateKey, createPublicKey } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { connect as connect2, type ClientHttp2Session } from 'node:http2';
import { dirname, join } from 'node:path';
import { connect } from 'node:tls';
import type { Resource } from '@oarlock/api/resource';
import { clusterRoleBindings, clusterRoles, namespaces, nodes, pods, secrets, serviceAccounts } from '@oarlock/api/resources';
import type { TokenRequest } from '@oarlock/api/types/authentication-v1';
import type { PolicyRule } from '@oarlock/api/types/rbac-v1';
import { startCluster, type TestCluster } from '@oarlock/testing/start-cluster';
import { SignJWT } from 'jose';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { parse } from 'yaml';

// attacks that an HTTP client library does not allow, and attacks on other users' permissions; the others are in api-attacks.test.ts
let cluster: TestCluster;
let port: number;
let ca: string;
let admin: { readonly cert: string; readonly key: string };
let robot: string;
let session: ClientHttp2Session;

const group = 'rbac.authorization.k8s.io';
const soon = <T>(check: () => Promise<T>) => vi.waitFor(check, { timeout: 120_000, interval: 20 });

async function account(name: string, rules: readonly PolicyRule[]): Promise<string> {
  const { client } = cluster;
  const subjects = [{ kind: 'ServiceAccount', namespace: 'default', name }];
  await client.create(serviceAccounts, { metadata: { namespace: 'default', name } });
  await client.create(clusterRoles, { metadata: { name }, rules });
  await client.create(clusterRoleBindings, { metadata: { name }, roleRef: { apiGroup: group, kind: 'ClusterRole', name }, subjects });
  const request: TokenRequest = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: { audiences: [] } };
  const options = { subresource: 'token', name: { namespace: 'default', name } };
  return (await client.create(serviceAccounts as unknown as Resource<TokenRequest>, request, options)).status?.token ?? '';
}

beforeAll(async () => {
  cluster = await startCluster();
  port = Number(new URL(cluster.server).port);
  const config = parse(await readFile(cluster.kubeconfig, 'utf8')) as {
    clusters: [{ cluster: Record<string, string> }];
    users: [{ user: Record<string, string> }];
  };
  const text = (data: string | undefined) => Buffer.from(data ?? '', 'base64').toString('utf8');
  ca = text(config.clusters[0].cluster['certificate-authority-data']);
  admin = { cert: text(config.users[0].user['client-certificate-data']), key: text(config.users[0].user['client-key-data']) };
  robot = await account('robot', [{ apiGroups: [''], resources: ['pods'], verbs: ['list', 'create'] }]);
  session = connect2(`https://127.0.0.1:${port}`, { ca });
  session.on('error', () => undefined);
  await soon(async () => expect((await http2({ ':path': podsPath })).code).toBe(200));
});
afterAll(async () => {
  session.destroy();
  await cluster.stop();
});

const podsPath = '/api/v1/namespaces/default/pods';
const secretsPath = '/api/v1/namespaces/kube-system/secrets';
const whoami = '/apis/authentication.k8s.io/v1/selfsubjectreviews';

interface Answer {
  readonly code: number;
  readonly text: string;
}
/** Sends a request over HTTP/2, authenticated as the robot account unless the headers contain other credentials. */
function http2(headers: Record<string, string | string[]>, body?: object): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const stream = session.request({
      authorization: `Bearer ${robot}`,
      ...(body && { ':method': 'POST', 'content-type': 'application/json' }),
      ...headers,
    });
    let code = 0;
    let text = '';
    stream.on('response', (head) => (code = Number(head[':status'])));
    stream.on('data', (chunk: Buffer) => (text += chunk.toString()));
    stream.on('end', () => resolve({ code, text }));
    stream.on('error', reject);
    stream.end(body && JSON.stringify(body));
  });
}
/** Sends the lines of a request head unchanged; returns the response code, or 0 without a response. */
function raw(lines: readonly string[], identity: object = {}): Promise<number> {
  return new Promise((resolve) => {
    const socket = connect({ host: '127.0.0.1', port, ca, servername: 'localhost', ALPNProtocols: ['http/1.1'], ...identity });
    let text = '';
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString('latin1');
      if (text.includes('\r\n')) socket.end();
    });
    socket.on('error', () => undefined);
    socket.on('close', () => resolve(Number(/^HTTP\/1\.1 (\d{3})/.exec(text)?.[1] ?? 0)));
    socket.write(`${[...lines, 'Host: localhost', 'Connection: close'].join('\r\n')}\r\n\r\n`);
  });
}
const code = async (path: string, method = 'GET', body?: object) => (await http2({ ':path': path, ':method': method }, body)).code;

describe('tokens with a valid signature', () => {
  it.each<[string, { readonly claims?: object; readonly exp?: number; readonly nbf?: number; readonly issuer?: string }, number]>([
    ['as the server issues them', {}, 200],
    ['expired', { exp: -60 }, 401],
    ['of tomorrow', { nbf: 86_400 }, 401],
    ['of another issuer', { issuer: 'https://elsewhere.example' }, 401],
    ['of an account with another uid', { claims: { serviceaccount: { name: 'robot', uid: 'another' } } }, 401],
    ['of a missing pod', { claims: { pod: { name: 'gone', uid: 'x' } } }, 401],
    ['of a missing secret', { claims: { secret: { name: 'gone', uid: 'x' } } }, 401],
    ['of a missing node', { claims: { node: { name: 'gone', uid: 'x' } } }, 401],
  ])('%s', async (_, { claims = {}, exp = 600, nbf = 0, issuer }, wanted) => {
    const pem = await readFile(join(dirname(cluster.kubeconfig), 'pki', 'service-account.key'), 'utf8');
    const key = createPrivateKey(pem);
    expect(createPublicKey(key).asymmetricKeyType).toBe('ec');
    const held = await cluster.client.get(serviceAccounts, { namespace: 'default', name: 'robot' });
    const now = Math.floor(Date.now() / 1000);
    const iss = issuer ?? 'https://kubernetes.default.svc.cluster.local';
    const token = await new SignJWT({
      'kubernetes.io': { namespace: 'default', serviceaccount: { name: 'robot', uid: held.metadata?.uid }, ...claims },
      sub: 'system:serviceaccount:default:robot',
      aud: ['https://kubernetes.default.svc.cluster.local'],
      iss,
      iat: now,
      nbf: now + nbf,
      exp: now + exp,
    })
      .setProtectedHeader({ alg: 'ES256' })
      .sign(key);
    expect((await http2({ ':path': podsPath, authorization: `Bearer ${token}` })).code).toBe(wanted);
  });
});

describe('repeated headers', () => {
  const bearer = (token: string) => `Authorization: Bearer ${token}`;

  it('do not authenticate a user that no single header authenticates', async () => {
    expect(await raw([`GET ${podsPath} HTTP/1.1`, bearer(robot)])).toBe(200);
    for (const others of [[bearer('wrong')], ['authorization: Basic YWRtaW46YWRtaW4='], ['X-Remote-User: admin', 'X-Remote-User: root']])
      for (const lines of [
        [bearer(robot), ...others],
        [...others, bearer(robot)],
      ])
        expect([401, 403, 400], lines.join()).toContain(await raw([`GET ${secretsPath} HTTP/1.1`, ...lines]));
  });

  it('do not impersonate a second user beside a permitted one', async () => {
    const actor = await account('actor', [{ apiGroups: [''], resources: ['users'], resourceNames: ['ada'], verbs: ['impersonate'] }]);
    const as = (...names: string[]) =>
      raw([`GET ${podsPath} HTTP/1.1`, bearer(actor), ...names.map((name) => `Impersonate-User: ${name}`)]);
    await soon(async () => expect(await as('ada')).toBe(403)); // ada herself may not list pods
    const { text } = await http2({ ':path': whoami, authorization: `Bearer ${actor}`, 'impersonate-user': 'ada' }, {});
    expect(text).toContain('"username":"ada"');
    for (const names of [
      ['ada', 'kubernetes-admin'],
      ['kubernetes-admin', 'ada'],
    ]) {
      expect(await as(...names)).toBe(403);
      const twice = await http2({ ':path': whoami, authorization: `Bearer ${actor}`, 'impersonate-user': names }, {}).catch(
        () => undefined,
      );
      expect([undefined, 400, 403]).toContain(twice?.code);
    }
  });

  it('malformed headers are rejected', async () => {
    for (const head of [
      [`GET ${podsPath} HTTP/1.1`, 'Content-Length: 5', 'Content-Length: 6', bearer(robot)],
      [`POST ${podsPath} HTTP/1.1`, 'Content-Length: 5', 'Transfer-Encoding: chunked', bearer(robot)],
      [`GET ${podsPath} HTTP/1.1`, 'Impersonate-User : kubernetes-admin', bearer(robot)],
      [`GET ${podsPath} HTTP/1.1`, `${bearer(robot)}\0`],
      [`GET ${podsPath} HTTP/9.9`, bearer(robot)],
      [`GET ${podsPath}\0 HTTP/1.1`, bearer(robot)],
    ])
      expect([0, 400, 405, 505], head.join()).toContain(await raw(head));
  });
});

describe('HTTP/2', () => {
  it('pseudo headers change neither the identity nor the target', async () => {
    // the server, or the client library itself, rejects such a request
    for (const more of [{ ':authority': 'kubernetes-admin@evil' }, { ':scheme': 'http' }, { host: 'evil' }])
      expect([403, undefined], JSON.stringify(more)).toContain(
        (await http2({ ':path': secretsPath, ...more }).catch(() => undefined))?.code,
      );
    for (const path of [
      '/api/v1/namespaces/default/../kube-system/secrets',
      '/api/v1/namespaces/default/%2e%2e/kube-system/secrets',
      '/api/v1/namespaces/kube-system%00/secrets',
      `https://127.0.0.1:${port}${secretsPath}`,
    ])
      expect([400, 403, 404], path).toContain(await code(path).catch(() => 400)); // a request without a valid target is reset
  });

  it('repeated and unknown pseudo headers are rejected', async () => {
    for (const more of [{ ':path': [podsPath, secretsPath] }, { ':user': 'admin' }])
      expect(() => session.request(more as unknown as Record<string, string>)).toThrow();
    expect(await code(podsPath)).toBe(200);
  });
});

describe('permissions of other users', () => {
  it('the kubelet is not reachable through the API server without nodes/proxy permission', async () => {
    await cluster.client.create(nodes, { metadata: { name: 'n1' } });
    for (const path of [
      'n1/proxy',
      'n1/proxy/',
      'n1:10250/proxy/pods',
      'n1%3A10250/proxy/run/default/p/c?cmd=id',
      'n1/proxy/exec/default/p/c',
    ])
      for (const method of ['GET', 'POST', 'PUT', 'DELETE'])
        expect(
          await code(`/api/v1/nodes/${path}`, method, method === 'GET' || method === 'DELETE' ? undefined : {}),
          `${method} ${path}`,
        ).toBe(403);
    for (const path of [`${podsPath}/p/proxy`, `${podsPath}/p/exec?command=id`, '/api/v1/namespaces/default/services/s:80/proxy'])
      expect(await code(path), path).toBe(403);
  });

  it('a pod cannot use a service account of another namespace or a missing one', async () => {
    const { client } = cluster;
    await client.create(namespaces, { metadata: { name: 'theirs' } });
    await soon(() => client.get(serviceAccounts, { namespace: 'default', name: 'default' }));
    const pod = (spec: object) => ({ metadata: { generateName: 'p-' }, spec: { containers: [{ name: 'c', image: 'x' }], ...spec } });
    expect(await code(podsPath, 'POST', pod({}))).toBe(201);
    expect(await code(podsPath, 'POST', pod({ serviceAccountName: 'nobody' }))).toBe(403);
    expect(await code(podsPath, 'POST', pod({ serviceAccountName: 'kube-system/clusterrole-aggregation-controller' }))).toBe(403);
    expect(await code('/api/v1/namespaces/theirs/pods', 'POST', { ...pod({}), metadata: { name: 'p', namespace: 'default' } })).toBe(400);
    // a fake mirror pod gets no service account and no secrets
    const mirror = { metadata: { name: 'm', annotations: { 'kubernetes.io/config.mirror': 'x' } } };
    expect(await code(podsPath, 'POST', { ...pod({ serviceAccountName: 'default' }), ...mirror })).toBe(403);
    expect(await code(podsPath, 'POST', { ...pod({ volumes: [{ name: 's', secret: { secretName: 'x' } }] }), ...mirror })).toBe(403);
  });

  it('a token secret requires permission to create secrets, even for the owner of the account', async () => {
    const asked = {
      metadata: { name: 'grab', annotations: { 'kubernetes.io/service-account.name': 'default' } },
      type: 'kubernetes.io/service-account-token',
    };
    expect(await code('/api/v1/namespaces/kube-system/secrets', 'POST', asked)).toBe(403);
    expect(await code('/api/v1/namespaces/kube-system/serviceaccounts/generic-garbage-collector/token', 'POST', { spec: {} })).toBe(403);
  });

  it('an aggregated role does not gain rules from authors that do not have them', async () => {
    const { client } = cluster;
    const own: PolicyRule = { apiGroups: [''], resources: ['configmaps'], verbs: ['get'] };
    const labeller = await account('labeller', [
      own,
      { apiGroups: [group], resources: ['clusterroles'], verbs: ['create', 'update', 'patch', 'get'] },
    ]);
    const send = (method: string, path: string, body: object, type = 'application/json') =>
      new Promise<number>((resolve, reject) => {
        const stream = session.request({ ':method': method, ':path': path, authorization: `Bearer ${labeller}`, 'content-type': type });
        stream.on('response', (head) => resolve(Number(head[':status'])));
        stream.on('error', reject);
        stream.resume();
        stream.end(JSON.stringify(body));
      });
    const at = `/apis/${group}/v1/clusterroles`;
    const into = { [`${group}/aggregate-to-view`]: 'true' };
    await soon(async () => expect(await send('POST', `${at}?dryRun=All`, { metadata: { name: 'mine' }, rules: [own] })).toBe(201));
    // permissions that the author has may be granted; others may not, regardless of their notation
    expect(await send('POST', at, { metadata: { name: 'passed', labels: into }, rules: [own] })).toBe(201);
    const rules = [{ apiGroups: [''], resources: ['secrets'], verbs: ['get'] }];
    for (const [method, path, body, type] of [
      ['PATCH', `${at}/passed`, { rules }, 'application/merge-patch+json'],
      ['PATCH', `${at}/passed`, [{ op: 'add', path: '/rules/-', value: rules[0] }], 'application/json-patch+json'],
      ['PATCH', `${at}/passed`, { rules }, 'application/strategic-merge-patch+json'],
      [
        'PATCH',
        `${at}/passed?fieldManager=x&force=true`,
        { apiVersion: `${group}/v1`, kind: 'ClusterRole', metadata: { name: 'passed' }, rules },
        'application/apply-patch+yaml',
      ],
      [
        'PATCH',
        `${at}/passed`,
        { aggregationRule: { clusterRoleSelectors: [{ matchLabels: { a: 'b' } }] } },
        'application/merge-patch+json',
      ],
      ['PUT', `${at}/passed`, { metadata: { name: 'passed', labels: into }, rules }, undefined],
      ['PUT', `${at}/view`, { metadata: { name: 'view' }, rules }, undefined],
    ] as const)
      expect(await send(method, path, body, type), `${method} ${JSON.stringify(body)}`).toBe(403);
    expect((await client.get(clusterRoles, { name: 'passed' })).rules).toEqual([own]);
  });
});

it('expensive requests of one user do not block the requests of others', async () => {
  const maker = await account('maker', [{ apiGroups: [''], resources: ['configmaps', 'pods'], verbs: ['create', 'get', 'patch', 'list'] }]);
  const path = '/api/v1/namespaces/default/configmaps';
  const post = (body: string, type: string, method = 'POST', to = path) =>
    new Promise<number>((resolve) => {
      const stream = session.request({ ':method': method, ':path': to, authorization: `Bearer ${maker}`, 'content-type': type });
      stream.on('response', (head) => resolve(Number(head[':status'])));
      stream.on('error', () => resolve(0));
      stream.resume();
      stream.end(body);
    });
  await soon(async () => expect(await post('{"metadata":{"name":"first"}}', 'application/json')).toBeGreaterThanOrEqual(201));
  const nested = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`;
  const anchors = Array.from(
    { length: 24 },
    (_, at) => `k${at}: &a${at} [${Array.from({ length: 9 }, () => (at === 0 ? 'x' : `*a${at - 1}`)).join(',')}]`,
  );
  const bombs: (() => Promise<number>)[] = [
    () => post(`{"metadata":{"name":"a"},"data":${nested(500_000)}}`, 'application/json'),
    () => post(anchors.join('\n'), 'application/yaml'),
    () => post(`a: ${nested(20_000)}`, 'application/yaml'),
    () =>
      post(
        `{"metadata":{"name":"b","labels":{${Array.from({ length: 60_000 }, (_, at) => `"k${at}":"v"`).join(',')}}}}`,
        'application/json',
      ),
    () => post(nested(100_000), 'application/json-patch+json', 'PATCH', `${path}/first`),
    () =>
      post(
        `[${Array.from({ length: 20_000 }, () => '{"op":"copy","from":"/data","path":"/data/x"}').join(',')}]`,
        'application/json-patch+json',
        'PATCH',
        `${path}/first`,
      ),
    () => post(`{"data":${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}}`, 'application/merge-patch+json', 'PATCH', `${path}/first`),
    () =>
      http2({ ':path': `${podsPath}?labelSelector=${'a%20in%20(b),'.repeat(1_500)}c` }).then(
        (answer) => answer.code,
        () => 0,
      ),
  ];
  const answered: number[] = [];
  for (const bomb of bombs) {
    let done = false;
    let others = 0;
    const exploded = bomb().finally(() => (done = true));
    // requests run one after another until the expensive request ends, and once more afterwards
    do {
      expect(await code(podsPath)).toBe(200);
      others += 1;
    } while (!done);
    expect([0, 200, 400, 413, 415, 422]).toContain(await exploded);
    answered.push(others);
  }
  expect(answered).toHaveLength(bombs.length);
  for (const others of answered) expect(others).toBeGreaterThan(0);
});

it('only the holder of the CA key can sign: a client certificate cannot sign another certificate', async () => {
  expect(await raw([`GET ${secretsPath} HTTP/1.1`], admin)).toBe(200);
  expect(await raw([`GET ${secretsPath} HTTP/1.1`])).toBe(401);
  await cluster.client.create(secrets, { metadata: { namespace: 'default', name: 'held' } });
  expect(await code('/api/v1/namespaces/default/secrets/held')).toBe(403);
  expect((await cluster.client.list(pods)).items.every(({ metadata }) => metadata?.name !== 'm')).toBe(true);
});
