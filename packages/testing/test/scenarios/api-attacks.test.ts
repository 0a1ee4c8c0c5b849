import 'reflect-metadata';
import { createHmac, generateKeyPairSync, sign, webcrypto } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { request } from 'node:https';
import type { KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import {
  certificateSigningRequests,
  clusterRoleBindings,
  clusterRoles,
  endpoints,
  nodes,
  pods,
  roleBindings,
  secrets,
  serviceAccounts,
} from '@oarlock/api/resources';
import type { TokenRequest } from '@oarlock/api/types/authentication-v1';
import type { CertificateSigningRequest } from '@oarlock/api/types/certificates-v1';
import type { PolicyRule } from '@oarlock/api/types/rbac-v1';
import { startCluster, type TestCluster } from '@oarlock/testing/start-cluster';
import * as x509 from '@peculiar/x509';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { parse } from 'yaml';

const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const;
const group = 'rbac.authorization.k8s.io';
const pem = async (key: webcrypto.CryptoKey) => x509.PemConverter.encode(await webcrypto.subtle.exportKey('pkcs8', key), 'PRIVATE KEY');

interface Sender {
  readonly token?: string;
  readonly cert?: string;
  readonly key?: string;
  readonly headers?: Record<string, string>;
}
interface Answer {
  readonly code: number;
  readonly text: string;
}

let cluster: TestCluster;
let port: number;
let ca: string;
/** Token of a service account with almost no permissions. */
let robot: string;

function ask(
  method: string,
  path: string,
  { token, headers = {}, cert, key }: Sender = {},
  body?: string | object,
  type = 'application/json',
): Promise<Answer> {
  const text = typeof body === 'object' ? JSON.stringify(body) : body;
  return new Promise((resolve, reject) => {
    const sent = request({
      host: '127.0.0.1',
      port,
      method,
      path,
      ca,
      agent: false,
      ...(cert !== undefined && { cert }),
      ...(key !== undefined && { key }),
      headers: {
        ...headers,
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(text !== undefined && { 'content-type': type, 'content-length': Buffer.byteLength(text) }),
      },
    });
    sent.on('error', reject);
    sent.on('response', (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () => resolve({ code: response.statusCode ?? 0, text: Buffer.concat(chunks).toString('utf8') }));
    });
    sent.end(text);
  });
}
/** Retries until the value is as expected: authorizers see a write with a delay. */
const eventually = (look: () => Promise<unknown>) => {
  const until = (check: (value: unknown) => void) => vi.waitFor(async () => check(await look()), { timeout: 120_000, interval: 20 });
  return {
    toBe: (wanted: unknown) => until((value) => expect(value).toBe(wanted)),
    toBeTypeOf: (type: 'string') => until((value) => expect(value).toBeTypeOf(type)),
  };
};
const code = async (...asked: Parameters<typeof ask>) => (await ask(...asked)).code;
const podsPath = '/api/v1/namespaces/default/pods';
const secretsPath = '/api/v1/namespaces/kube-system/secrets';
const as = (token: string): Sender => ({ token });

async function account(name: string, rules: readonly PolicyRule[] = []): Promise<string> {
  await cluster.client.create(serviceAccounts, { metadata: { namespace: 'default', name } });
  await cluster.client.create(clusterRoles, { metadata: { name }, rules });
  await cluster.client.create(clusterRoleBindings, {
    metadata: { name },
    roleRef: { apiGroup: group, kind: 'ClusterRole', name },
    subjects: [{ kind: 'ServiceAccount', namespace: 'default', name }],
  });
  return tokenFor(name);
}
async function tokenFor(name: string, audiences: readonly string[] = []): Promise<string> {
  const asked: TokenRequest = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: { audiences } };
  const { status } = await cluster.client.create(serviceAccounts as unknown as Resource<TokenRequest>, asked, {
    subresource: 'token',
    name: { namespace: 'default', name },
  });
  return status?.token ?? '';
}

beforeAll(async () => {
  x509.cryptoProvider.set(webcrypto);
  cluster = await startCluster();
  const config = parse(await readFile(cluster.kubeconfig, 'utf8')) as { clusters: { cluster: { 'certificate-authority-data': string } }[] };
  ca = Buffer.from(config.clusters[0]?.cluster['certificate-authority-data'] ?? '', 'base64').toString('utf8');
  const { subsets } = await cluster.client.get(endpoints, { namespace: 'default', name: 'kubernetes' });
  port = subsets?.[0]?.ports?.[0]?.port ?? 0;
  robot = await account('robot', [{ apiGroups: [''], resources: ['pods'], verbs: ['list'] }]);
  await eventually(() => code('GET', podsPath, as(robot))).toBe(200);
});
afterAll(() => cluster.stop());
describe('tokens', () => {
  const parts = () => robot.split('.') as [string, string, string];
  const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const claims = () => JSON.parse(Buffer.from(parts()[1], 'base64url').toString('utf8')) as Record<string, unknown>;

  it('forged tokens are rejected', async () => {
    const [header, payload, signature] = parts();
    const promoted = encoded({ ...claims(), sub: 'system:serviceaccount:kube-system:clusterrole-aggregation-controller' });
    const foreign = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const signed = (input: string) =>
      `${input}.${sign('sha256', Buffer.from(input), { key: foreign.privateKey, dsaEncoding: 'ieee-p1363' }).toString('base64url')}`;
    const jwks = (await cluster.client.raw('GET', '/openid/v1/jwks')) as { keys: object[] };
    const confused = `${encoded({ alg: 'HS256' })}.${promoted}`;
    const forged: Record<string, string> = {
      'other claims': `${header}.${promoted}.${signature}`,
      'no signature': `${header}.${promoted}.`,
      'the algorithm none': `${encoded({ alg: 'none' })}.${promoted}.`,
      'the algorithm None with a signature': `${encoded({ alg: 'None' })}.${promoted}.${signature}`,
      'a foreign key': signed(`${header}.${payload}`),
      'a key in the header': signed(`${encoded({ alg: 'ES256', jwk: foreign.publicKey.export({ format: 'jwk' }) })}.${payload}`),
      'the public key as a secret': `${confused}.${createHmac('sha256', JSON.stringify(jwks.keys[0])).update(confused).digest('base64url')}`,
      'a cut signature': `${header}.${payload}.${signature.slice(0, -4)}`,
      'a long one': `${header}.${'A'.repeat(20_000)}.${signature}`,
      'something else': 'abcdef.0123456789abcdef',
    };
    for (const [how, token] of Object.entries(forged)) expect(await code('GET', podsPath, as(token)), how).toBe(401);
    expect(await code('GET', podsPath, as(robot))).toBe(200);
  });

  it('tokens for another audience and of deleted accounts are rejected', async () => {
    expect(await code('GET', podsPath, as(await tokenFor('robot', ['vault'])))).toBe(401);
    const gone = await account('gone', [{ apiGroups: [''], resources: ['pods'], verbs: ['list'] }]);
    await cluster.client.delete(serviceAccounts, { namespace: 'default', name: 'gone' });
    expect(await code('GET', podsPath, as(gone))).toBe(401);
  });
});

describe('certificates', () => {
  it('certificates of another CA are rejected, whatever their subject', async () => {
    const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
    const own = await x509.X509CertificateGenerator.createSelfSigned({
      name: 'O=system:masters,CN=kubernetes-admin',
      keys,
      signingAlgorithm: algorithm,
      extensions: [new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.clientAuth])],
    });
    const sender = { cert: own.toString('pem'), key: await pem(keys.privateKey) };
    expect(await code('GET', podsPath, sender)).toBe(401);
    expect(await code('GET', podsPath, { ...sender, token: robot })).toBe(200);
    expect(await code('GET', secretsPath, { ...sender, token: robot })).toBe(403);
  });
});

describe('headers', () => {
  it('identity headers of a client do not change its identity', async () => {
    const boasts: Record<string, string> = {
      'x-remote-user': 'admin',
      'x-remote-group': 'system:masters',
      'x-forwarded-for': '127.0.0.1',
      'x-forwarded-user': 'admin',
    };
    expect(await code('GET', secretsPath, { headers: boasts })).toBe(401);
    expect(await code('GET', secretsPath, { token: robot, headers: boasts })).toBe(403);
    expect(await code('GET', secretsPath, { headers: { authorization: 'Basic YWRtaW46YWRtaW4=' } })).toBe(401);
  });

  it.each([
    { 'impersonate-user': 'kubernetes-admin' },
    { 'impersonate-user': 'kubernetes-admin', 'impersonate-group': 'system:masters' },
    { 'impersonate-user': 'system:serviceaccount:kube-system:clusterrole-aggregation-controller' },
    { 'impersonate-user': 'x', 'impersonate-uid': '1', 'impersonate-extra-a': 'b' },
    { 'impersonate-user': 'system:node:n1', 'impersonate-group': 'system:nodes' },
  ])('impersonation without permission is rejected: %o', async (headers) => {
    expect(await code('GET', podsPath, { token: robot, headers })).toBe(403);
  });

  it('impersonation needs a user, and permission for each impersonated attribute', async () => {
    expect(await code('GET', podsPath, { token: robot, headers: { 'impersonate-group': 'system:masters' } })).toBeGreaterThanOrEqual(400);
    const actor = await account('actor', [{ apiGroups: [''], resources: ['users'], resourceNames: ['ada'], verbs: ['impersonate'] }]);
    await eventually(() => code('GET', secretsPath, { token: actor, headers: { 'impersonate-user': 'ada' } })).toBe(403);
    const { text } = await ask(
      'POST',
      '/apis/authentication.k8s.io/v1/selfsubjectreviews',
      { token: actor, headers: { 'impersonate-user': 'ada' } },
      {},
    );
    expect((JSON.parse(text) as { status: { userInfo: object } }).status.userInfo).toMatchObject({
      username: 'ada',
      groups: ['system:authenticated'],
    });
    for (const more of [{ 'impersonate-group': 'system:masters' }, { 'impersonate-uid': '1' }, { 'impersonate-extra-scopes': 'all' }])
      expect(
        await code('GET', secretsPath, { token: actor, headers: { 'impersonate-user': 'ada', ...(more as Record<string, string>) } }),
      ).toBe(403);
  });
});

describe('authors of roles and bindings', () => {
  it('cannot grant permissions that they do not have', async () => {
    const writer = await account('writer', [
      {
        apiGroups: [group],
        resources: ['roles', 'rolebindings', 'clusterroles', 'clusterrolebindings'],
        verbs: ['create', 'update', 'patch', 'get'],
      },
      { apiGroups: [''], resources: ['serviceaccounts'], verbs: ['create'] },
    ]);
    const base = `/apis/${group}/v1`;
    const me = [{ kind: 'ServiceAccount', namespace: 'default', name: 'writer' }];
    const bind = (name: string) => ({ metadata: { name: 'grab' }, roleRef: { apiGroup: group, kind: 'ClusterRole', name }, subjects: me });
    const rules = [{ apiGroups: [''], resources: ['secrets'], verbs: ['get'] }];
    await eventually(() => code('GET', `${base}/clusterroles/view`, as(writer))).toBe(200);
    const attempts: (readonly [string, string, object, string?])[] = [
      ['POST', `${base}/clusterrolebindings`, bind('cluster-admin')],
      ['POST', `${base}/namespaces/kube-system/rolebindings`, bind('admin')],
      ['POST', `${base}/clusterroles`, { metadata: { name: 'grab' }, rules }],
      ['POST', `${base}/clusterroles`, { metadata: { name: 'grab', labels: { [`${group}/aggregate-to-view`]: 'true' } }, rules }],
      [
        'POST',
        `${base}/clusterroles`,
        {
          metadata: { name: 'grab' },
          aggregationRule: { clusterRoleSelectors: [{ matchLabels: { [`${group}/aggregate-to-admin`]: 'true' } }] },
        },
      ],
      [
        'POST',
        `${base}/namespaces/default/roles`,
        { metadata: { name: 'grab' }, rules: [{ apiGroups: ['*'], resources: ['*'], verbs: ['*'] }] },
      ],
      ['PATCH', `${base}/clusterroles/writer`, { rules }, 'application/merge-patch+json'],
      ['PATCH', `${base}/clusterrolebindings/cluster-admin`, { subjects: me }, 'application/merge-patch+json'],
      ['POST', '/api/v1/namespaces/default/serviceaccounts/writer/token', { spec: {} }],
    ];
    for (const [method, path, body, type] of attempts)
      expect(await code(method, path, as(writer), body, type), `${method} ${path} ${JSON.stringify(body)}`).toBe(403);
    expect(await code('GET', secretsPath, as(writer))).toBe(403);
    await cluster.client.create(roleBindings, { ...bind('edit'), metadata: { namespace: 'default', name: 'given' }, subjects: me });
    await eventually(() => code('POST', `${base}/namespaces/default/roles`, as(writer), { metadata: { name: 'fine' }, rules })).toBe(201);
  });
});

describe('node identity', () => {
  it('reads only objects that its own pods reference', async () => {
    const { client } = cluster;
    const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
    const created = await x509.Pkcs10CertificateRequestGenerator.create({
      name: 'O=system:nodes,CN=system:node:n1',
      keys,
      signingAlgorithm: algorithm,
    });
    const wanted: CertificateSigningRequest = {
      metadata: { name: 'n1' },
      spec: {
        signerName: 'kubernetes.io/kube-apiserver-client',
        usages: ['digital signature', 'client auth'],
        request: Buffer.from(created.toString('pem')).toString('base64'),
      },
    };
    const asked = await client.create(certificateSigningRequests, wanted);
    const condition = { type: 'Approved', status: 'True', reason: 'Test', message: 'test' };
    await client.update(certificateSigningRequests, { ...asked, status: { conditions: [condition] } }, { subresource: 'approval' });
    const issued = async () => (await client.get(certificateSigningRequests, { name: 'n1' })).status?.certificate;
    await eventually(issued).toBeTypeOf('string');
    const n1: Sender = { cert: Buffer.from((await issued()) ?? '', 'base64').toString('utf8'), key: await pem(keys.privateKey) };

    const tolerations = [{ operator: 'Exists' }];
    const runs = (name: string, nodeName: string, secret: string) => ({
      metadata: { namespace: 'default', name },
      spec: {
        nodeName,
        tolerations,
        containers: [{ name: 'c', image: 'x', env: [{ name: 'A', valueFrom: { secretKeyRef: { name: secret, key: 'k' } } }] }],
      },
    });
    for (const name of ['n1', 'n2']) await client.create(nodes, { metadata: { name } });
    for (const name of ['mine', 'theirs']) await client.create(secrets, { metadata: { namespace: 'default', name } });
    await eventually(() =>
      client.get(serviceAccounts, { namespace: 'default', name: 'default' }).then(
        () => true,
        () => false,
      ),
    ).toBe(true);
    await client.create(pods, runs('here', 'n1', 'mine'));
    const there = await client.create(pods, runs('there', 'n2', 'theirs'));
    const secret = (name: string) => `/api/v1/namespaces/default/secrets/${name}`;
    expect(await code('GET', secret('mine'), n1)).toBe(200);
    expect(await code('GET', '/api/v1/nodes/n1', n1)).toBe(200);
    const merge = 'application/merge-patch+json';
    const attempts: (readonly [string, string, object?, string?])[] = [
      ['GET', secret('theirs')],
      ['GET', '/api/v1/namespaces/default/secrets'],
      ['GET', '/api/v1/secrets'],
      ['GET', `${podsPath}/there`],
      ['GET', podsPath],
      ['PATCH', '/api/v1/nodes/n2', { metadata: { labels: { a: 'b' } } }, merge],
      ['PATCH', '/api/v1/nodes/n1', { spec: { taints: [] }, metadata: { labels: { 'node-role.kubernetes.io/x': '' } } }, merge],
      ['PATCH', '/api/v1/nodes/n1', { metadata: { labels: { 'node-restriction.kubernetes.io/x': '' } } }, merge],
      ['DELETE', '/api/v1/nodes/n2'],
      ['PATCH', `${podsPath}/there/status`, { status: { phase: 'Failed' } }, merge],
      ['DELETE', `${podsPath}/there`],
      ['POST', podsPath, { metadata: { name: 'grab' }, spec: { nodeName: 'n1', containers: [{ name: 'c', image: 'x' }] } }],
      ['POST', '/api/v1/namespaces/default/serviceaccounts/default/token', { spec: {} }],
      [
        'POST',
        '/api/v1/namespaces/default/serviceaccounts/default/token',
        { spec: { boundObjectRef: { apiVersion: 'v1', kind: 'Pod', name: 'there', uid: there.metadata?.uid } } },
      ],
      ['POST', `${podsPath}/there/eviction`, { apiVersion: 'policy/v1', kind: 'Eviction', metadata: { name: 'there' } }],
      [
        'POST',
        `/apis/${group}/v1/clusterrolebindings`,
        { metadata: { name: 'x' }, roleRef: { apiGroup: group, kind: 'ClusterRole', name: 'cluster-admin' } },
      ],
      ['GET', '/api/v1/nodes/n2/proxy/pods'],
      ['POST', '/oarlock/v1/join', { nodeName: 'n2', addresses: ['10.0.0.1'], clientCsr: 'x', servingCsr: 'x' }],
    ];
    for (const [method, path, body, type] of attempts) expect(await code(method, path, n1, body, type), `${method} ${path}`).toBe(403);
  });
});

describe('paths and bodies', () => {
  const rejected = [400, 401, 403, 404, 405, 413, 414, 415, 422, 431];

  it.each([
    '/api/v1/namespaces/default/../kube-system/secrets',
    '/api/v1/namespaces/default/%2e%2e/kube-system/secrets',
    '/api/v1/namespaces/default/%252e%252e/kube-system/secrets',
    '/api/v1/namespaces/default/pods/..%2f..%2fkube-system%2fsecrets',
    '//api/v1/namespaces/kube-system/secrets',
    '/api//v1/namespaces/kube-system/secrets',
    '/api/v1/namespaces/kube-system%00/secrets',
    '/api/v1/namespaces/kube-system/secrets%00',
    '/api/v1/namespaces/kube-system/secrets/',
    '/API/v1/namespaces/kube-system/secrets',
    '/api/v1/namespaces/kube-system/secrets;x=y',
    '/api/v1/namespaces/default/pods/x/exec?command=id',
    '/livez/../api/v1/namespaces/kube-system/secrets',
    '/version/%2e%2e/api/v1/secrets',
    `/api/v1/namespaces/${'a'.repeat(30_000)}/secrets`,
    `/${'a/'.repeat(500)}`,
    `/api/v1/namespaces/kube-system/secrets?${'a=b&'.repeat(2_000)}`,
  ])('unusual path %# grants no access', async (path) => {
    expect(rejected).toContain(await code('GET', path, as(robot)));
    expect(rejected).toContain(await code('GET', path));
  });

  it('bodies of every size and shape do not change the server', async () => {
    const maker = await account('maker', [{ apiGroups: [''], resources: ['configmaps'], verbs: ['create', 'get', 'patch'] }]);
    const path = '/api/v1/namespaces/default/configmaps';
    await eventually(() => code('POST', path, as(maker), { metadata: { name: 'first' } })).toBe(201);
    const deep = (open: string, close: string, depth: number) =>
      `{"metadata":{"name":"deep"},"data":${open.repeat(depth)}${close.repeat(depth)}}`;
    const laughs = [
      'a: &a [x,x,x,x,x,x,x,x,x]',
      ...'bcdefghi'
        .split('')
        .map((name, at) => `${name}: &${name} [${Array.from({ length: 9 }, () => `*${'abcdefgh'[at] ?? 'a'}`).join(',')}]`),
    ].join('\n');
    const bombs: (readonly [string, string])[] = [
      [deep('[', ']', 100_000), 'application/json'],
      [deep('{"a":', '}', 50_000).replace(/:\}/, ':1}'), 'application/json'],
      [laughs, 'application/yaml'],
      [`{"metadata":{"name":"big"},"data":{"a":"${'x'.repeat(4 * 1024 * 1024)}"}}`, 'application/json'],
      ['{"metadata":{"name":"x"}', 'application/json'],
      ['\u0000', 'application/json'],
      ['{}', 'text/html'],
    ];
    for (const [body, type] of bombs)
      expect(rejected, body.slice(0, 40)).toContain(await code('POST', path, as(maker), body, type).catch(() => 413));
    for (const body of [
      '{"metadata":{"name":"proto"},"__proto__":{"polluted":true},"data":{"__proto__":"x","constructor":"y"}}',
      '{"metadata":{"name":"proto2","labels":{"__proto__":"a"}},"constructor":{"prototype":{"polluted":true}}}',
    ])
      await code('POST', path, as(maker), body);
    await code(
      'PATCH',
      `${path}/first`,
      as(maker),
      '{"__proto__":{"polluted":true},"metadata":{"__proto__":{"polluted":true}}}',
      'application/merge-patch+json',
    );
    await code(
      'PATCH',
      `${path}/first`,
      as(maker),
      '[{"op":"add","path":"/__proto__/polluted","value":true}]',
      'application/json-patch+json',
    );
    await code(
      'PATCH',
      `${path}/first`,
      as(maker),
      '[{"op":"add","path":"/constructor/prototype/polluted","value":true}]',
      'application/json-patch+json',
    );
    expect(({} as KubeObject & { polluted?: boolean }).polluted).toBeUndefined();
    const { code: after, text } = await ask('GET', `${path}/first`, as(maker));
    expect([after, text.includes('polluted')]).toEqual([200, false]);
  });
});
