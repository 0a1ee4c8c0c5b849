import { failure } from '@oarlock/api/status';
import { anonymous, authenticated, type Authenticator } from '@oarlock/spi/authn';
import type { Attributes, Authorizer } from '@oarlock/spi/authz';
import type { AuditEvent } from '@oarlock/spi/audit';
import { afterEach, describe, expect, it } from 'vitest';
import { configMap } from './fake-pipeline.ts';
import { byCertificate, startServer, type ServerSettings, type TestServer } from './start-server.ts';

const map = '/api/v1/namespaces/default/configmaps/a';
let server: TestServer;
const start = async (settings: ServerSettings = {}) => {
  server = await startServer(settings);
  server.pipeline.object(configMap('a'));
};
afterEach(() => server.stop());
const bearer = (token: string) => ({ headers: { authorization: `Bearer ${token}` } });
const nobody: Authenticator = { authenticate: () => ({ outcome: 'abstained' }) };

describe('authentication', () => {
  it('knows tokens, and nobody by a wrong one', async () => {
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

  it('lets nobody in when all abstain', async () => {
    await start({ authn: [nobody, nobody] });
    expect((await server.http1('GET', map)).code).toBe(401);
    expect((await server.http1('GET', '/healthz')).code).toBe(401);
    expect(server.pipeline.requests).toHaveLength(0);
  });

  it('lets nobody in when an authenticator fails', async () => {
    await start({
      authn: [
        {
          authenticate: () => {
            throw new Error('no database');
          },
        },
        byCertificate,
      ],
    });
    expect((await server.http1('GET', map)).code).toBe(500);
    expect(server.pipeline.requests).toHaveLength(0);
  });

  it('shows authenticators what the request shows', async () => {
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
    await server.http1('GET', map, {
      headers: {
        'sec-websocket-protocol': `v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.${Buffer.from('secret').toString('base64url')}`,
      },
    });
    expect(seen[1]).toMatchObject({ bearerToken: 'secret' });
  });
});

/** Allows what a set names: `verb resource[/subresource] [namespace/]name`. */
const allowing = (...allowed: string[]): Authorizer & { readonly asked: string[] } => {
  const asked: string[] = [];
  return {
    asked,
    authorize: (attributes: Attributes) => {
      const text =
        attributes.kind === 'path'
          ? `${attributes.verb} ${attributes.path}`
          : `${attributes.verb} ${attributes.resource}${attributes.subresource === '' ? '' : `/${attributes.subresource}`}${attributes.group === '' ? '' : `.${attributes.group}`} ${attributes.namespace === '' ? '' : `${attributes.namespace}/`}${attributes.name}`;
      asked.push(text);
      return allowed.includes(text) ? { decision: 'allow', because: 'test' } : { decision: 'no-opinion', because: 'not listed' };
    },
  };
};

describe('impersonation', () => {
  const as = (headers: Record<string, string | readonly string[]>) =>
    server.http1('GET', map, { headers: { authorization: 'Bearer good', ...headers } });

  it('is allowed part by part', async () => {
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
    const refused = await as({ 'Impersonate-User': 'jane', 'Impersonate-Group': ['devs', 'system:masters'] });
    expect(refused.json()).toMatchObject({
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

  it('of service accounts asks for those, and brings their groups', async () => {
    await start({ authz: [allowing('impersonate serviceaccounts kube-system/bot')] });
    await as({ 'Impersonate-User': 'system:serviceaccount:kube-system:bot' });
    expect(server.pipeline.requests.at(-1)?.identity).toEqual({
      name: 'system:serviceaccount:kube-system:bot',
      groups: ['system:serviceaccounts', 'system:serviceaccounts:kube-system', 'system:authenticated'],
    });
  });

  it('of anonymous brings no authenticated group', async () => {
    await start({ authz: [allowing('impersonate users system:anonymous')] });
    await as({ 'Impersonate-User': 'system:anonymous' });
    expect(server.pipeline.requests.at(-1)?.identity).toEqual({ name: 'system:anonymous', groups: ['system:unauthenticated'] });
  });
});

describe('paths', () => {
  it('are authorized as they are decoded', async () => {
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

  it('that are not there are refused first', async () => {
    await start({ authz: [allowing('get nothings default/x')] });
    expect((await server.http1('GET', '/api/v1/namespaces/default/nothings/x')).code).toBe(404);
    expect((await server.http1('GET', '/api/v1/namespaces/default/nothings/y')).code).toBe(403);
    expect((await server.http1('POST', map)).code).toBe(403);
  });
});

it('leaves an audit trail of who was known', async () => {
  const events: AuditEvent[] = [];
  await start({
    audit: [
      {
        record: (event) => {
          events.push(event);
        },
      },
    ],
  });
  await server.http1('GET', map, bearer('good'));
  await server.http1('GET', map, bearer('bad'));
  await server.http1('GET', '/nothing', { headers: { 'audit-id': 'given' } });
  expect(events.map(({ stage, code, attributes }) => [stage, code, attributes.identity.name, attributes.verb])).toEqual([
    ['RequestReceived', undefined, 'token-user', 'get'],
    ['ResponseComplete', 200, 'token-user', 'get'],
    ['RequestReceived', undefined, 'system:anonymous', 'get'],
    ['ResponseComplete', 404, 'system:anonymous', 'get'],
  ]);
  expect(events[2]?.auditID).toBe('given');
  expect(events[0]?.auditID).toBe(events[1]?.auditID);
});

it('writes down what admission annotated, from then on', async () => {
  const events: AuditEvent[] = [];
  await start({ audit: [{ record: (event) => void events.push(event) }] });
  server.pipeline.answer = (request) => {
    request.annotate?.('policy/first', 'a');
    request.annotate?.('policy/first', 'b');
    throw new Error('away');
  };
  await server.http1('GET', map, bearer('good'));
  expect(events.map(({ stage, annotations }) => [stage, annotations])).toEqual([
    ['RequestReceived', {}],
    ['ResponseComplete', { 'policy/first': 'a' }],
  ]);
});

it('warns whoever is refused, too', async () => {
  await start({});
  server.pipeline.answer = (request) => {
    request.warn?.('take care');
    throw failure('Forbidden', 'no');
  };
  const { code, headers } = await server.http1('GET', map, bearer('good'));
  expect([code, headers['warning']]).toEqual([403, '299 - "take care"']);
});
