import { once } from 'node:events';
import { readdir, readFile } from 'node:fs/promises';
import { request, type RequestOptions } from 'node:https';
import { join } from 'node:path';
import { connect } from 'node:tls';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Answer } from '../harness/api.ts';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { Machine } from '../harness/machine.ts';
import { until, untilValue } from '../harness/until.ts';

const machine = Machine.use();
let cluster: Cluster;
let origin: string;
let session: string;

type Headers = Readonly<Record<string, string>>;
/** The key that the page keeps in the storage of its origin. */
const key = 'k'.repeat(43);
/** The headers that browsers send with a fetch of the page. */
const ownHeaders = (): Headers => ({ 'x-oarlock-console': key, origin, 'sec-fetch-site': 'same-origin', 'sec-fetch-mode': 'cors' });

/** Sends a request without a client certificate. */
function send(
  path: string,
  { method = 'GET', headers = {}, body }: { method?: string; headers?: Headers; body?: string } = {},
): Promise<Answer> {
  const options: RequestOptions = { host: '127.0.0.1', port: cluster.port, path, method, agent: false, rejectUnauthorized: false };
  return new Promise((resolve, reject) => {
    const call = request(
      { ...options, headers: { ...headers, ...(body !== undefined && { 'content-type': 'application/json' }) } },
      (response) => {
        let text = '';
        response
          .setEncoding('utf8')
          .on('data', (chunk: string) => {
            text += chunk;
          })
          .on('end', () => resolve({ status: response.statusCode ?? 0, headers: response.headers, body: text }))
          .on('error', reject);
      },
    );
    call.on('error', reject);
    call.end(body);
  });
}

/** Sends a request to upgrade to a WebSocket, and returns the head of the response. */
async function upgradeResponse(path: string, headers: Headers): Promise<string> {
  const socket = connect({ host: '127.0.0.1', port: cluster.port, rejectUnauthorized: false, ALPNProtocols: ['http/1.1'] });
  const lines = Object.entries({
    host: `127.0.0.1:${cluster.port}`,
    connection: 'Upgrade',
    upgrade: 'websocket',
    'sec-websocket-version': '13',
    'sec-websocket-key': 'AAAAAAAAAAAAAAAAAAAAAA==',
    'sec-websocket-protocol': `v5.channel.k8s.io, key.console.oarlock.dev.${key}`,
    ...headers,
  }).map(([name, value]) => `${name}: ${value}`);
  socket.write(`GET ${path} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`);
  const [chunk] = (await once(socket, 'data')) as [Buffer];
  socket.destroy();
  return chunk.toString('latin1').replaceAll('\r\n', '\n');
}
const upgrade = async (path: string, headers: Headers): Promise<string> => (await upgradeResponse(path, headers)).split('\n', 1)[0] ?? '';

async function newLink(): Promise<string> {
  const { stdout, stderr } = await cluster.oarlock('console');
  if (stderr !== '') throw new Error(stderr);
  return stdout.trim().split('/').at(-1) ?? '';
}
const signIn = (link: string, headers: Headers = ownHeaders()) =>
  send('/console/session', { method: 'POST', headers, body: JSON.stringify({ link }) });
const cookieOf = ({ headers }: Answer): string => headers['set-cookie']?.[0]?.split(';')[0] ?? '';
const pods = '/api/v1/namespaces/default/pods';

beforeAll(async () => {
  cluster = await machine.cluster({
    spec: {
      ...composition({ storage: 'memory', runtime: 'process', network: 'host', kubelet: { port: 0 } }),
      paths: ['console'],
      audit: ['audit-log'],
    },
  });
  origin = `https://127.0.0.1:${cluster.port}`;
  session = cookieOf(await signIn(await newLink()));
  expect(session).toMatch(/^__Host-oarlock-session-\d+=/);
});

describe('the session cookie', () => {
  it('authenticates a request of the own page', async () => {
    expect((await send(pods, { headers: { ...ownHeaders(), cookie: session } })).status).toBe(200);
  });

  it.each<[string, () => Headers]>([
    ['without the header of the console, as a link or an image', () => ({ origin })],
    ['from another port of the host', () => ({ ...ownHeaders(), origin: 'https://127.0.0.1:1', 'sec-fetch-site': 'same-site' })],
    ['from another site', () => ({ ...ownHeaders(), origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' })],
    ['from a sandboxed frame', () => ({ ...ownHeaders(), origin: 'null' })],
    ['with a second session cookie', () => ({ ...ownHeaders(), cookie: `${session}; ${session}` })],
  ])('does not count %s', async (_, headers) => {
    for (const method of ['GET', 'POST', 'DELETE'])
      expect((await send(pods, { method, headers: { cookie: session, ...headers() } })).status).toBe(401);
  });

  it('does not count for a WebSocket of another origin', async () => {
    const exec = `${pods}/none/exec?command=id&stdout=true`;
    expect(await upgrade(exec, { cookie: session, origin })).toContain(' 404 ');
    for (const other of ['https://127.0.0.1:1', 'https://evil.example', `${origin}.evil.example`, 'null'])
      expect(await upgrade(exec, { cookie: session, origin: other })).toContain(' 401 ');
    expect(await upgrade(exec, { cookie: session })).toContain(' 401 ');
    for (const protocol of ['v5.channel.k8s.io', `v5.channel.k8s.io, key.console.oarlock.dev.${'x'.repeat(43)}`])
      expect(await upgrade(exec, { cookie: session, origin, 'sec-websocket-protocol': protocol })).toContain(' 401 ');
  });

  it('is useless to a server on another port of the host, which receives it but not the key of the page', async () => {
    const stolen = { cookie: session };
    for (const value of ['1', '', 'x'.repeat(43), session.split('=')[1] ?? '']) {
      const headers = { ...ownHeaders(), ...stolen, 'x-oarlock-console': value };
      expect([value, (await send(pods, { headers })).status]).toEqual([value, 401]);
      const current = await send('/console/session', { headers });
      expect(current.body).not.toContain('"user"');
      expect((await send('/console/session', { method: 'DELETE', headers })).headers['clear-site-data'] ?? '').not.toContain('cookies');
    }
    expect((await send(pods, { headers: { ...ownHeaders(), ...stolen } })).status).toBe(200);
  });

  it('of an attacker, which a server on another port plants, does not sign in the page of the victim', async () => {
    const attacker = cookieOf(await signIn(await newLink(), { ...ownHeaders(), 'x-oarlock-console': 'a'.repeat(43) }));
    const victim = { ...ownHeaders(), cookie: attacker };
    expect((await send(pods, { headers: victim })).status).toBe(401);
    expect((await send('/console/session', { headers: victim })).body).not.toContain('"user"');
    expect(await upgrade(`${pods}/none/exec?command=id&stdout=true`, { cookie: attacker, origin })).toContain(' 401 ');
  });

  it('ends with the service account whose token began it', async () => {
    await cluster.kubectl.run(['create', 'serviceaccount', 'brief']);
    const token = (await cluster.kubectl.run(['create', 'token', 'brief'])).trim();
    const authorization = `Bearer ${token}`;
    const cookie = cookieOf(await send('/console/session', { method: 'POST', headers: { ...ownHeaders(), authorization } }));
    const linked = await send('/console/links', { method: 'POST', headers: { authorization } });
    const link = (JSON.parse(linked.body) as { readonly url: string }).url.split('/').at(-1) ?? '';
    const byLink = cookieOf(await signIn(link));
    const statuses = async () =>
      Promise.all([cookie, byLink].map(async (each) => (await send('/version', { headers: { ...ownHeaders(), cookie: each } })).status));
    expect(await statuses()).toEqual([200, 200]);
    await cluster.kubectl.run(['delete', 'serviceaccount', 'brief']);
    await until('the sessions end with the account', async () => (await statuses()).every((status) => status === 401));
    await cluster.kubectl.run(['create', 'serviceaccount', 'brief']);
    expect(await statuses()).toEqual([401, 401]);
  });

  it('is not answered with access for other origins', async () => {
    const { headers } = await send(pods, {
      method: 'OPTIONS',
      headers: {
        origin: 'https://evil.example',
        'access-control-request-method': 'GET',
        'access-control-request-headers': 'x-oarlock-console',
      },
    });
    expect(Object.keys(headers).filter((name) => name.startsWith('access-control-'))).toEqual([]);
  });

  it('does not reach pods behind the proxy, and pods cannot set it', async () => {
    const program = `require('node:http').createServer((request, response) => {
      response.setHeader('set-cookie', ['own=1', '__Host-oarlock-session-${cluster.port}=${'a'.repeat(43)}; Path=/; Secure']);
      response.end(JSON.stringify(request.headers));
    }).on('upgrade', (request, socket) => {
      socket.end('HTTP/1.1 403 Forbidden\\r\\nX-Protocols: ' + request.headers['sec-websocket-protocol'] + '\\r\\nContent-Length: 0\\r\\n\\r\\n');
    }).listen(8080, process.env.POD_IP)`;
    const container = {
      name: 'c',
      image: 'host',
      command: ['node', '-e', program],
      env: [{ name: 'POD_IP', valueFrom: { fieldRef: { fieldPath: 'status.podIP' } } }],
      readinessProbe: { httpGet: { path: '/', port: 8080 }, periodSeconds: 1 },
    };
    const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'echo' }, spec: { containers: [container] } };
    await cluster.kubectl.run(['create', '-f', '-'], { input: JSON.stringify(pod) });
    await cluster.kubectl.run(['wait', '--for=condition=Ready', 'pod/echo', '--timeout=180s']);
    const answer = await send(`${pods}/echo:8080/proxy/`, { headers: { ...ownHeaders(), cookie: `a=b; ${session}; c=d` } });
    expect(answer.status).toBe(200);
    const received = JSON.parse(answer.body) as Headers;
    expect([received['cookie'], received['x-oarlock-console']]).toEqual(['a=b; c=d', undefined]);
    expect(answer.headers['set-cookie']).toEqual(['own=1']);
    expect((await send(`${pods}/echo:8080/proxy/`, { headers: { cookie: session } })).status).toBe(401);
  });

  it('and tokens in subprotocols of WebSockets do not reach pods behind the proxy', async () => {
    await cluster.kubectl.run(['create', 'clusterrolebinding', 'socket', '--clusterrole=admin', '--serviceaccount=default:default']);
    const token = (await cluster.kubectl.run(['create', 'token', 'default'])).trim();
    const bearer = `base64url.bearer.authorization.k8s.io.${Buffer.from(token).toString('base64url')}`;
    const protocols = `chat, ${bearer}, key.console.oarlock.dev.${key}`;
    const path = `${pods}/echo:8080/proxy/`;
    const answer = await until('the role is effective', async () => {
      const text = await upgradeResponse(path, { 'sec-websocket-protocol': protocols });
      return text.includes('x-protocols') || text.includes('X-Protocols') ? text : undefined;
    });
    expect(/^x-protocols: (.*)$/im.exec(answer)?.[1]).toBe('chat');
  });

  it('grants the permissions of its user only', async () => {
    const headers = { ...ownHeaders(), cookie: session };
    expect((await send(pods, { headers: { ...headers, 'impersonate-user': 'nobody' } })).status).toBe(403);
  });
});

describe('sign-in', () => {
  it('succeeds once for simultaneous requests with the same link', async () => {
    const link = await newLink();
    const answers = await Promise.all(Array.from({ length: 8 }, () => signIn(link)));
    expect(answers.map(({ status }) => status).sort()).toEqual([201, ...Array.from({ length: 7 }, () => 401)]);
  });

  it('is rejected for requests of other sites, which then cannot use the link up', async () => {
    const link = await newLink();
    expect((await signIn(link, { ...ownHeaders(), origin: 'https://evil.example' })).status).toBe(403);
    expect((await signIn(link, {})).status).toBe(403);
    expect((await signIn(link)).status).toBe(201);
  });

  it('is rejected for other bodies', async () => {
    for (const body of ['{', '[]', '{"link":1}', `{"link":"${'x'.repeat(200)}"}`, '{"link":"x","__proto__":{}}', 'null'])
      expect((await send('/console/session', { method: 'POST', headers: ownHeaders(), body })).status).toBeGreaterThanOrEqual(400);
  });

  it('with an invalid token is rejected, although the path is public', async () => {
    const headers = { ...ownHeaders(), authorization: 'Bearer invalid' };
    expect((await send('/console/session', { method: 'POST', headers })).status).toBe(401);
  });

  it('is rejected for an impersonated user, also where single requests may be impersonated', async () => {
    await cluster.kubectl.run(['create', 'serviceaccount', 'delegate']);
    const users = { apiGroups: ['authentication.k8s.io'], resources: ['users', 'groups'], verbs: ['impersonate:user-info'] };
    const sessions = { nonResourceURLs: ['/console/session'], verbs: ['impersonate-on:user-info:create', 'create'] };
    const role = {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRole',
      metadata: { name: 'delegate' },
      rules: [users, sessions],
    };
    await cluster.kubectl.run(['create', '-f', '-'], { input: JSON.stringify(role) });
    await cluster.kubectl.run(['create', 'clusterrolebinding', 'delegate', '--clusterrole=delegate', '--serviceaccount=default:delegate']);
    const token = (await cluster.kubectl.run(['create', 'token', 'delegate'])).trim();
    const impersonated = { 'impersonate-user': 'root-user', 'impersonate-group': 'administrators' };
    const headers = { ...ownHeaders(), authorization: `Bearer ${token}`, ...impersonated };
    const answer = await untilValue(
      'the role is effective',
      () => send('/console/session', { method: 'POST', headers }),
      ({ body }) => !/ cannot \S+ /.test(body) || body.includes('an impersonated user cannot sign in to the console'),
    );
    expect([answer.status, cookieOf(answer)]).toEqual([403, '']);
    expect(answer.body).toContain('an impersonated user cannot sign in to the console');
    expect((await send(pods, { headers })).status).toBe(403);
  });

  it('ends the least recently used session of a user with too many', async () => {
    const first = cookieOf(await signIn(await newLink()));
    const use = async (cookie: string) => (await send(pods, { headers: { ...ownHeaders(), cookie } })).status;
    expect(await use(first)).toBe(200);
    for (let i = 0; i < 20; i += 1) {
      // what `oarlock console` sends
      const { url } = await cluster.api.json<{ readonly url: string }>('POST', '/console/links');
      await signIn(url.split('/').at(-1) ?? '');
      expect(await use(session)).toBe(200);
    }
    expect(await use(first)).toBe(401);
  });

  it('ends at sign-out', async () => {
    const cookie = cookieOf(await signIn(await newLink()));
    const headers = { ...ownHeaders(), cookie };
    expect((await send('/console/session', { method: 'DELETE', headers: { cookie } })).status).toBe(403);
    expect((await send('/console/session', { method: 'DELETE', headers })).status).toBe(200);
    expect((await send(pods, { headers })).status).toBe(401);
  });
});

describe('the files of the page', () => {
  it('cannot be framed, sniffed or extended by inline scripts', async () => {
    const { status, headers, body } = await send('/console/');
    expect(status).toBe(200);
    expect(body).not.toMatch(/<script>|<style|\son\w+=|style=/);
    expect(headers).toMatchObject({
      'x-frame-options': 'DENY',
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      'content-security-policy': expect.stringContaining("frame-ancestors 'none'"),
    });
    expect(headers['content-security-policy']).not.toMatch(/unsafe|\*|data: *;? *script/);
  });

  it.each([
    '/console/../api/v1/secrets',
    '/console/..%2f..%2fetc%2fpasswd',
    '/console/%2e%2e/%2e%2e/package.json',
    '/console/%252e%252e/package.json',
    '/console//etc/passwd',
    '/console/./index.html',
    '/console/index.html%00.js',
    '/console/..\\package.json',
    '/console/index.html.gz',
    '/console/__proto__',
  ])('do not include %s', async (path) => {
    const { status, body } = await send(path);
    expect([400, 401, 403, 404]).toContain(status);
    expect(body).not.toMatch(/root:|"version"|<!doctype/i);
  });
});

describe('logs', () => {
  it('name the session, and contain no secret of links or cookies', async () => {
    const link = await newLink();
    const cookie = cookieOf(await signIn(link));
    await send(pods, { headers: { ...ownHeaders(), cookie } });
    const secret = cookie.split('=')[1] ?? '';
    const files = (await readdir(cluster.dataDir, { recursive: true, withFileTypes: true })).filter(
      (entry) => entry.isFile() && /\.log/.test(entry.name),
    );
    await expect
      .poll(async () => (await Promise.all(files.map((file) => readFile(join(file.parentPath, file.name), 'utf8')))).join('\n'))
      .toMatch(/"console\.oarlock\.dev\/session":"[0-9a-f]{12}"/);
    const logs = (await Promise.all(files.map((file) => readFile(join(file.parentPath, file.name), 'utf8')))).join('\n');
    expect(logs).toContain('/console/session');
    for (const hidden of [link, secret, session.split('=')[1] ?? '']) expect(logs).not.toContain(hidden);
  });
});
