import { credentialsOf } from '@oarlock/apiserver/authentication/authentication';
import type { Exchange } from '@oarlock/apiserver/http/exchange';
import { failure } from '@oarlock/api/status';
import { anonymous, authenticated, type Authenticator } from '@oarlock/spi/authn';
import type { Attributes, Authorizer } from '@oarlock/spi/authz';
import { afterEach, describe, expect, it } from 'vitest';
import { configMap } from '../support/fake-pipeline.ts';
import { byCertificate, startServer, type ServerSettings, type TestServer } from '../support/start-server.ts';

const map = '/api/v1/namespaces/default/configmaps/a';
let server: TestServer;
const start = async (settings: ServerSettings = {}) => {
  server = await startServer(settings);
  server.pipeline.object(configMap('a'));
};
afterEach(() => server.stop());
const bearer = (token: string) => ({ headers: { authorization: `Bearer ${token}` } });
const abstaining: Authenticator = { authenticate: () => ({ outcome: 'abstained' }) };

describe('authentication', () => {
  it('authenticates tokens, and rejects invalid tokens with 401', async () => {
    await start({ authn: [byCertificate, { authenticate: () => authenticated(anonymous) }] });
    await server.http2('GET', map, bearer('good'));
    expect(server.pipeline.requests.at(-1)?.identity).toEqual({ name: 'token-user', groups: ['testers', 'system:authenticated'] });
    const answer = await server.http2('GET', map, bearer('bad'));
    expect(answer.code).toBe(401);
    expect(answer.json()).toEqual({
      kind: 'Status',
      apiVersion: 'v1',
      metadata: {},
      status: 'Failure',
      message: 'Unauthorized',
      reason: 'Unauthorized',
      code: 401,
    });
  });

  it('rejects the request if all authenticators abstain', async () => {
    await start({ authn: [abstaining, abstaining] });
    expect((await server.http1('GET', map)).code).toBe(401);
    expect((await server.http1('GET', '/healthz')).code).toBe(401);
    expect(server.pipeline.requests).toHaveLength(0);
  });

  it('calls the next authenticator after an error, but does not accept anonymous', async () => {
    const broken = {
      authenticate: () => {
        throw new Error('the database is unavailable');
      },
    };
    const anonymousAuthenticator = { authenticate: () => authenticated(anonymous) };
    await start({ authn: [broken, abstaining, anonymousAuthenticator] });
    expect((await server.http1('GET', map)).code).toBe(401);
    expect(server.pipeline.requests).toHaveLength(0);
    await server.stop();
    await start({ authn: [broken, { authenticate: () => authenticated({ name: 'ada', groups: [] }) }, anonymousAuthenticator] });
    await server.http1('GET', map);
    expect(server.pipeline.requests.map(({ identity }) => identity.name)).toEqual(['ada']);
  });

  it('passes the credentials of the request to authenticators', async () => {
    const seen: unknown[] = [];
    await start({
      authn: [
        {
          authenticate: (credentials) => {
            seen.push(credentials);
            return authenticated({ name: 'x', groups: [] });
          },
        },
      ],
    });
    await server.http1('GET', `${map}?x=y`, { headers: { authorization: 'bearer  abc', 'x-remote-user': 'root' } });
    expect(seen[0]).toMatchObject({ bearerToken: 'abc', path: map, remoteAddress: '127.0.0.1', headers: { 'x-remote-user': 'root' } });
    expect(seen[0]).not.toHaveProperty('certificate');
  });
});

describe('a bearer token in a subprotocol', () => {
  const token = `base64url.bearer.authorization.k8s.io.${Buffer.from('secret').toString('base64url')}`;
  const tokenOf = (headers: Readonly<Record<string, string>>) => {
    const connection = { certificate: () => undefined, frontProxyCertificate: () => undefined } as unknown as Exchange['connection'];
    return credentialsOf({ headers, rawHeaders: [], connection }, map).bearerToken;
  };

  it.each([
    ['v5.channel.k8s.io, TOKEN', 'secret'],
    ['TOKEN,v5.channel.k8s.io', 'secret'],
    ['TOKEN', undefined],
    ['TOKEN, TOKEN, v5.channel.k8s.io', undefined],
    ['base64url.bearer.authorization.k8s.io., v5.channel.k8s.io', undefined],
    ['v5.channel.k8s.io', undefined],
  ])('%s of a WebSocket is %s', (protocols, expected) => {
    expect(tokenOf({ upgrade: 'WebSocket', 'sec-websocket-protocol': protocols.replaceAll('TOKEN', token) })).toBe(expected);
  });

  it('of another request is not a credential', () => {
    expect(tokenOf({ 'sec-websocket-protocol': `v5.channel.k8s.io, ${token}` })).toBeUndefined();
  });
});

/** Allows the listed actions: `verb resource[/subresource] [namespace/]name`. */
const allowing = (...allowed: string[]): Authorizer & { readonly requested: string[] } => {
  const requested: string[] = [];
  return {
    requested,
    authorize: (attributes: Attributes) => {
      const text =
        attributes.kind === 'path'
          ? `${attributes.verb} ${attributes.path}`
          : `${attributes.verb} ${attributes.resource}${attributes.subresource === '' ? '' : `/${attributes.subresource}`}${attributes.group === '' ? '' : `.${attributes.group}`} ${attributes.namespace === '' ? '' : `${attributes.namespace}/`}${attributes.name}`;
      requested.push(text);
      return allowed.includes(text) ? { decision: 'allow', reason: 'test' } : { decision: 'no-opinion', reason: 'not listed' };
    },
  };
};

describe('impersonation', () => {
  const as = (headers: Record<string, string | readonly string[]>) =>
    server.http1('GET', map, { headers: { authorization: 'Bearer good', ...headers } });

  it('is authorized for each part', async () => {
    await start({
      authz: [
        allowing(
          'impersonate users jane',
          'impersonate groups devs',
          'impersonate groups ops',
          'impersonate userextras/scopes.authentication.k8s.io a',
          'impersonate uids.authentication.k8s.io 7',
        ),
      ],
    });
    expect(
      (
        await as({
          'Impersonate-User': 'jane',
          'Impersonate-Group': ['devs', 'ops'],
          'Impersonate-Extra-Scopes': 'a',
          'Impersonate-Uid': '7',
        })
      ).code,
    ).toBe(200);
    expect(server.pipeline.requests.at(-1)?.identity).toEqual({
      name: 'jane',
      uid: '7',
      groups: ['devs', 'ops', 'system:authenticated'],
      extra: { scopes: ['a'] },
    });
    const rejected = await as({ 'Impersonate-User': 'jane', 'Impersonate-Group': ['devs', 'system:masters'] });
    expect(rejected.json()).toMatchObject({
      code: 403,
      reason: 'Forbidden',
      details: { kind: 'groups', name: 'system:masters' },
      message:
        'groups "system:masters" is forbidden: User "token-user" cannot impersonate resource "groups" in API group "" at the cluster scope: not listed',
    });
    expect((await as({ 'Impersonate-User': 'root' })).code).toBe(403);
    expect((await as({ 'Impersonate-User': 'jane', 'Impersonate-Extra-Scopes': 'b' })).code).toBe(403);
    expect((await as({ 'Impersonate-Group': 'devs' })).code).toBe(500);
  });

  it('of a service account requires permission for it and adds its groups', async () => {
    await start({ authz: [allowing('impersonate serviceaccounts kube-system/bot')] });
    await as({ 'Impersonate-User': 'system:serviceaccount:kube-system:bot' });
    expect(server.pipeline.requests.at(-1)?.identity).toEqual({
      name: 'system:serviceaccount:kube-system:bot',
      groups: ['system:serviceaccounts', 'system:serviceaccounts:kube-system', 'system:authenticated'],
    });
  });

  it('of anonymous does not add the group of authenticated users', async () => {
    await start({ authz: [allowing('impersonate users system:anonymous')] });
    await as({ 'Impersonate-User': 'system:anonymous' });
    expect(server.pipeline.requests.at(-1)?.identity).toEqual({ name: 'system:anonymous', groups: ['system:unauthenticated'] });
  });
});

describe('impersonated values', () => {
  it.each(['http1', 'http2'] as const)('may contain commas: each header line is one value (%s)', async (protocol) => {
    const extra = 'impersonate userextras/scopes.authentication.k8s.io';
    await start({
      authz: [
        allowing(
          'impersonate users o=a,cn=jane',
          'impersonate groups cn=devs,o=a',
          'impersonate groups ops',
          `${extra} x, y`,
          `${extra} z`,
        ),
      ],
    });
    const send = (headers: Record<string, string | readonly string[]>) =>
      server[protocol]('GET', map, { headers: { authorization: 'Bearer good', 'impersonate-user': 'o=a,cn=jane', ...headers } });
    expect((await send({ 'impersonate-group': ['cn=devs,o=a', 'ops'], 'impersonate-extra-scopes': ['x, y', 'z'] })).code).toBe(200);
    expect(server.pipeline.requests.at(-1)?.identity).toEqual({
      name: 'o=a,cn=jane',
      groups: ['cn=devs,o=a', 'ops', 'system:authenticated'],
      extra: { scopes: ['x, y', 'z'] },
    });
    expect((await send({ 'impersonate-group': 'cn=devs' })).code).toBe(403);
    expect((await send({ 'impersonate-group': 'ops,cn=devs,o=a' })).code).toBe(403);
    expect((await send({ 'impersonate-group': 'ops, cn=devs,o=a' })).code).toBe(403);
  });

  it.each(['http1', 'http2'] as const)(
    'of the page of the console are groups of one line, as browsers send them (%s)',
    async (protocol) => {
      await start({ authz: [allowing('impersonate users jane', 'impersonate groups ops', 'impersonate groups cn=devs,o=a')] });
      const send = (groups: string) => {
        const headers = {
          authorization: 'Bearer good',
          'impersonate-user': 'jane',
          'impersonate-group': groups,
          'x-oarlock-console': 'k'.repeat(43),
        };
        return server[protocol]('GET', map, { headers });
      };
      expect((await send('ops, cn=devs,o=a')).code).toBe(200);
      expect(server.pipeline.requests.at(-1)?.identity.groups).toEqual(['ops', 'cn=devs,o=a', 'system:authenticated']);
      expect((await send('ops, system:masters')).code).toBe(403);
    },
  );
});

describe('impersonated extra keys', () => {
  const as = (headers: Record<string, string | readonly string[]>, protocol: 'http1' | 'http2') =>
    server[protocol]('GET', map, { headers: { authorization: 'Bearer good', 'impersonate-user': 'jane', ...headers } });

  it.each(['__proto__', '%5f_proto__', 'constructor', 'tostring'])('%s is authorized like any other key', async (header) => {
    const key = decodeURIComponent(header);
    const allow = ['impersonate users jane', `impersonate userextras/${key}.authentication.k8s.io a`];
    for (const protocol of ['http1', 'http2'] as const) {
      await start({ authz: [allowing(allow[0] ?? '')] });
      expect((await as({ [`impersonate-extra-${header}`]: 'a' }, protocol)).code, protocol).toBe(403);
      await server.stop();
      await start({ authz: [allowing(...allow)] });
      expect((await as({ [`impersonate-extra-${header}`]: 'a' }, protocol)).code, protocol).toBe(200);
      expect(Object.entries(server.pipeline.requests.at(-1)?.identity.extra ?? {})).toEqual([[key, ['a']]]);
      if (protocol === 'http1') await server.stop();
    }
  });

  it('count towards the limit of values, whatever their names are', async () => {
    await start({});
    expect((await as({ 'impersonate-extra-__proto__': Array<string>(257).fill('a') }, 'http1')).code).toBe(431);
  });
});

describe('constrained impersonation', () => {
  const as = (headers: Record<string, string | readonly string[]>, path = map, method = 'GET') =>
    server.http1(method, path, { headers: { authorization: 'Bearer good', ...headers } });

  it('of a user is authorized per action', async () => {
    await start({
      authz: [
        allowing(
          'impersonate:user-info users.authentication.k8s.io jane',
          'impersonate:user-info groups.authentication.k8s.io devs',
          'impersonate-on:user-info:get configmaps default/a',
        ),
      ],
    });
    expect((await as({ 'Impersonate-User': 'jane', 'Impersonate-Group': 'devs' })).code).toBe(200);
    expect(server.pipeline.requests.at(-1)?.identity).toEqual({ name: 'jane', groups: ['devs', 'system:authenticated'] });
    expect((await as({ 'Impersonate-User': 'jane' }, map, 'DELETE')).code).toBe(403);
    expect((await as({ 'Impersonate-User': 'jane' }, '/api/v1/namespaces/default/configmaps/b')).code).toBe(403);
    expect((await as({ 'Impersonate-User': 'jane', 'Impersonate-Group': 'ops' })).code).toBe(403);
    expect((await as({ 'Impersonate-User': 'joe' })).code).toBe(403);
  });

  it('of users does not include service accounts and nodes, which are impersonated without further parts', async () => {
    await start({
      authz: [
        allowing(
          'impersonate:user-info users.authentication.k8s.io system:serviceaccount:default:bot',
          'impersonate:user-info users.authentication.k8s.io system:node:n1',
          'impersonate-on:user-info:get configmaps default/a',
          'impersonate:serviceaccount serviceaccounts.authentication.k8s.io default/robot',
          'impersonate-on:serviceaccount:get configmaps default/a',
          'impersonate:arbitrary-node nodes.authentication.k8s.io n2',
          'impersonate-on:arbitrary-node:get configmaps default/a',
          'impersonate:associated-node nodes.authentication.k8s.io n3',
          'impersonate-on:associated-node:get configmaps default/a',
        ),
      ],
    });
    expect((await as({ 'Impersonate-User': 'system:serviceaccount:default:bot' })).code).toBe(403);
    expect((await as({ 'Impersonate-User': 'system:node:n1' })).code).toBe(403);
    expect((await as({ 'Impersonate-User': 'system:serviceaccount:default:robot' })).code).toBe(200);
    expect(server.pipeline.requests.at(-1)?.identity.groups).toEqual([
      'system:serviceaccounts',
      'system:serviceaccounts:default',
      'system:authenticated',
    ]);
    expect((await as({ 'Impersonate-User': 'system:serviceaccount:default:robot', 'Impersonate-Group': 'system:masters' })).code).toBe(403);
    expect((await as({ 'Impersonate-User': 'system:node:n2' })).code).toBe(200);
    expect(server.pipeline.requests.at(-1)?.identity).toEqual({ name: 'system:node:n2', groups: ['system:nodes', 'system:authenticated'] });
    // the sender is not a pod on that node
    expect((await as({ 'Impersonate-User': 'system:node:n3' })).code).toBe(403);
  });

  it('of the associated node is allowed for pods on that node', async () => {
    const pod = (node: string): Authenticator => ({
      authenticate: () =>
        authenticated({
          name: 'system:serviceaccount:kube-system:agent',
          groups: [],
          extra: { 'authentication.kubernetes.io/pod-name': ['p'], 'authentication.kubernetes.io/node-name': [node] },
        }),
    });
    const authz = [
      allowing('impersonate:associated-node nodes.authentication.k8s.io *', 'impersonate-on:associated-node:get configmaps default/a'),
    ];
    await start({ authn: [pod('n3')], authz });
    expect((await as({ 'Impersonate-User': 'system:node:n3' })).code).toBe(200);
    await server.stop();
    await start({ authn: [pod('n4')], authz });
    expect((await as({ 'Impersonate-User': 'system:node:n3' })).code).toBe(403);
    await server.stop();
    // a permission for one node is not one for the node on which the pod happens to run
    const forOneNode = [
      'impersonate:associated-node nodes.authentication.k8s.io n3',
      'impersonate-on:associated-node:get configmaps default/a',
    ];
    await start({ authn: [pod('n3')], authz: [allowing(...forOneNode)] });
    expect((await as({ 'Impersonate-User': 'system:node:n3' })).code).toBe(403);
  });

  it.each([
    ['the group system:masters', { 'Impersonate-Group': 'system:masters' }],
    ['an extra key without a domain', { 'Impersonate-Extra-scopes': 'all' }],
    ['an empty value of an extra key', { 'Impersonate-Extra-example.com%2Fscopes': '' }],
  ])('for one action is never possible with %s', async (_, headers) => {
    const constrained: Authorizer = {
      authorize: ({ verb }) => (verb === 'impersonate' ? { decision: 'no-opinion' } : { decision: 'allow', reason: 'test' }),
    };
    await start({ authz: [constrained] });
    expect((await as({ 'Impersonate-User': 'jane' })).code).toBe(200);
    expect((await as({ 'Impersonate-User': 'jane', ...headers })).code).toBe(403);
  });

  it('of a name that is no node name is that of a user', async () => {
    await start({
      authz: [
        allowing('impersonate:arbitrary-node nodes.authentication.k8s.io A_B', 'impersonate-on:arbitrary-node:get configmaps default/a'),
      ],
    });
    expect((await as({ 'Impersonate-User': 'system:node:A_B' })).code).toBe(403);
  });
});

describe('paths', () => {
  it('are authorized in decoded form', async () => {
    const authorizer = allowing('get /version', 'get /api/v1');
    await start({ authz: [authorizer] });
    expect((await server.http1('GET', '/version')).code).toBe(200);
    expect((await server.http1('GET', '/%76ersion')).code).toBe(200);
    expect((await server.http1('GET', '/api/v1')).code).toBe(200);
    expect((await server.http1('GET', '/metrics')).json()).toMatchObject({
      code: 403,
      message: 'forbidden: User "system:anonymous" cannot get path "/metrics": not listed',
      details: {},
    });
    expect((await server.http1('GET', '/version/..%2fmetrics')).code).toBe(400);
  });

  it('that do not exist are authorized before they are rejected', async () => {
    await start({ authz: [allowing('get nothings default/x')] });
    expect((await server.http1('GET', '/api/v1/namespaces/default/nothings/x')).code).toBe(404);
    expect((await server.http1('GET', '/api/v1/namespaces/default/nothings/y')).code).toBe(403);
    expect((await server.http1('POST', map)).code).toBe(403);
  });
});

it('sends warnings with a rejection', async () => {
  await start({});
  server.pipeline.answer = (request) => {
    request.warn?.('take care');
    throw failure('Forbidden', 'no');
  };
  const { code, headers } = await server.http1('GET', map, bearer('good'));
  expect([code, headers['warning']]).toEqual([403, '299 - "take care"']);
});
