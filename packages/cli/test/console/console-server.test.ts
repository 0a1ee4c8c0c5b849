import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import { request } from 'node:https';
import type { AddressInfo } from 'node:net';
import { connect } from 'node:tls';
import { systemClock } from '@oarlock/primitives/clock';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { ApiServerTarget } from '../../src/console/api-server-target.ts';
import { ConsoleServer } from '../../src/console/console-server.ts';

type Headers = Readonly<Record<string, string | readonly string[]>>;
interface Answer {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

const key = 'k'.repeat(43);
/** Requests that the API server of the kubeconfig received. */
let received: { readonly url: string; readonly headers: IncomingMessage['headers']; readonly rawHeaders: readonly string[] }[] = [];
let apiServer: Server;
let server: ConsoleServer;
let origin: string;
let port: number;
let session: string;

const own = (): Headers => ({ 'x-oarlock-console': key, origin, 'sec-fetch-site': 'same-origin' });

function send(
  path: string,
  { method = 'GET', headers = {}, body = '' }: { method?: string; headers?: Headers; body?: string } = {},
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const call = request(
      { host: '127.0.0.1', port, path, method, agent: false, rejectUnauthorized: false, headers: { ...headers } as Record<string, string> },
      (response) => {
        let text = '';
        response
          .setEncoding('utf8')
          .on('data', (chunk: string) => {
            text += chunk;
          })
          .on('end', () => resolve({ status: response.statusCode ?? 0, headers: response.headers, body: text }));
      },
    );
    call.on('error', reject);
    call.end(body);
  });
}

async function upgrade(path: string, headers: Headers): Promise<string> {
  const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false, ALPNProtocols: ['http/1.1'] });
  const all = {
    ...{ host: `127.0.0.1:${port}`, connection: 'Upgrade', upgrade: 'websocket', 'sec-websocket-version': '13' },
    ...{ 'sec-websocket-key': 'AAAAAAAAAAAAAAAAAAAAAA==', 'sec-websocket-protocol': `v5.channel.k8s.io, key.console.oarlock.dev.${key}` },
    ...headers,
  };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${String(value)}`);
  socket.write(`GET ${path} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`);
  const [chunk] = (await once(socket, 'data')) as [Buffer];
  socket.destroy();
  return chunk.toString('latin1');
}

beforeAll(async () => {
  apiServer = createServer((incoming, outgoing) => {
    received.push({ url: incoming.url ?? '', headers: incoming.headers, rawHeaders: incoming.rawHeaders });
    outgoing.writeHead(incoming.url?.includes('missing') === true ? 404 : 200, { 'Content-Type': 'application/json' });
    outgoing.end(JSON.stringify({ path: incoming.url }));
  });
  apiServer.on('upgrade', (incoming, socket) => {
    received.push({ url: incoming.url ?? '', headers: incoming.headers, rawHeaders: incoming.rawHeaders });
    socket.end(
      'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n',
    );
  });
  apiServer.listen(0, '127.0.0.1');
  await once(apiServer, 'listening');
  const api = `http://127.0.0.1:${(apiServer.address() as AddressInfo).port}/k8s/clusters/c-1/`;
  server = await ConsoleServer.start({
    target: new ApiServerTarget({ options: { server: api, token: 'kubeconfig-token' } }),
    user: { name: 'ada', groups: ['team'] },
    cluster: { name: 'kind-dev', version: 'v1.33.0' },
    port: 0,
    clock: systemClock,
  });
  const link = new URL(await server.createLink());
  origin = link.origin;
  port = Number(link.port);
  const signedIn = await send('/console/session', {
    method: 'POST',
    headers: own(),
    body: JSON.stringify({ link: link.hash.split('/').at(-1) }),
  });
  session = signedIn.headers['set-cookie']?.[0] ?? '';
});
afterAll(async () => {
  await server.close();
  apiServer.close();
});
beforeEach(() => {
  received = [];
});

describe('the console of a kubeconfig', () => {
  const cookie = () => session.split(';')[0] ?? '';
  const signedIn = (headers: Headers = {}): Headers => ({ ...own(), cookie: cookie(), ...headers });

  it('signs in once by a link, with a cookie that scripts cannot read', async () => {
    expect(session).toMatch(/^__Host-oarlock-session-\d+=[\w-]{43}; Path=\/; Secure; HttpOnly; SameSite=Strict$/);
    const link = (await server.createLink()).split('/').at(-1);
    const signIn = () => send('/console/session', { method: 'POST', headers: own(), body: JSON.stringify({ link }) });
    expect((await signIn()).status).toBe(201);
    expect((await signIn()).status).toBe(401);
    const current = await send('/console/session', { headers: signedIn() });
    expect(JSON.parse(current.body)).toMatchObject({
      cluster: { name: 'kind-dev', version: 'v1.33.0', url: origin },
      signIn: 'link',
      user: { name: 'ada', groups: ['team'] },
    });
  });

  it('accepts no other credentials, and does not forward them', async () => {
    const authorization = 'Bearer other';
    const response = await send('/console/session', { method: 'POST', headers: { ...own(), authorization } });
    expect([response.status, response.body]).toEqual([403, expect.stringContaining('sign-in links only')]);
    expect((await send('/api/v1/pods', { headers: { ...own(), authorization } })).status).toBe(401);
    await send('/api/v1/pods', { headers: signedIn({ authorization }) });
    expect(received.map(({ headers }) => headers.authorization)).toEqual(['Bearer kubeconfig-token']);
  });

  it('forwards requests of a session with the credentials of the kubeconfig, below the path of its server', async () => {
    const response = await send('/api/v1/pods?limit=500', {
      headers: signedIn({ 'sec-fetch-mode': 'cors', referer: `${origin}/console/` }),
    });
    expect([response.status, JSON.parse(response.body)]).toEqual([200, { path: '/k8s/clusters/c-1/api/v1/pods?limit=500' }]);
    expect(response.headers).toMatchObject({
      'content-security-policy': "default-src 'none'; sandbox",
      'x-content-type-options': 'nosniff',
    });
    const headers = received[0]?.headers ?? {};
    expect(headers).toMatchObject({ authorization: 'Bearer kubeconfig-token', host: expect.stringMatching(/^127\.0\.0\.1:\d+$/) });
    for (const name of ['cookie', 'origin', 'referer', 'x-oarlock-console', 'x-forwarded-for', 'sec-fetch-site', 'sec-fetch-mode'])
      expect([name, headers[name]]).toEqual([name, undefined]);
    expect((await send('/api/v1/missing', { headers: signedIn() })).status).toBe(404);
  });

  it('sends a line for each group of an impersonated user, which browsers combine', async () => {
    await send('/api/v1/pods', { headers: signedIn({ 'impersonate-user': 'bob', 'impersonate-group': 'a, system:authenticated' }) });
    const lines = received[0]?.rawHeaders ?? [];
    const values = lines.flatMap((name, index) =>
      index % 2 === 0 && name.toLowerCase().startsWith('impersonate-') ? [lines[index + 1]] : [],
    );
    expect(values.toSorted()).toEqual(['a', 'bob', 'system:authenticated']);
  });

  it.each<[string, () => Headers]>([
    ['without a session', () => own()],
    [
      'without the key of the page, as a link or an image',
      () => ({ cookie: cookie(), origin, 'sec-websocket-protocol': 'v5.channel.k8s.io' }),
    ],
    ['of another origin', () => signedIn({ origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' })],
    ['of another port of this machine', () => signedIn({ origin: 'https://127.0.0.1:1', 'sec-fetch-site': 'same-site' })],
  ])('rejects requests %s', async (_, headers) => {
    for (const method of ['GET', 'POST', 'DELETE']) expect((await send('/api/v1/pods', { method, headers: headers() })).status).toBe(401);
    expect(await upgrade('/api/v1/namespaces/a/pods/b/exec', headers())).toContain(' 401 ');
    expect(received).toEqual([]);
  });

  it('rejects other host names, which a DNS server of an attacker may resolve to this machine', async () => {
    for (const host of ['evil.example', `evil.example:${port}`, '127.0.0.1', `127.0.0.1:${port}.evil.example`])
      for (const path of ['/console/', '/api/v1/pods'])
        expect([host, (await send(path, { headers: signedIn({ host, origin: `https://${host}` }) })).status]).toEqual([host, 403]);
    expect(received).toEqual([]);
    expect((await send('/console/', { headers: { host: `localhost:${port}` } })).status).toBe(200);
  });

  it('forwards WebSockets without the key of the page', async () => {
    const head = await upgrade('/api/v1/namespaces/a/pods/b/exec?command=id', signedIn());
    expect(head).toContain('101 Switching Protocols');
    expect(received[0]).toMatchObject({
      url: '/k8s/clusters/c-1/api/v1/namespaces/a/pods/b/exec?command=id',
      headers: { authorization: 'Bearer kubeconfig-token', 'sec-websocket-protocol': 'v5.channel.k8s.io' },
    });
  });

  it('serves the page under a content security policy, and nothing outside of it', async () => {
    const page = await send('/console/');
    expect([page.status, page.headers['content-type']]).toEqual([200, 'text/html; charset=utf-8']);
    expect(page.headers['content-security-policy']).toContain("default-src 'none'; script-src 'self'");
    for (const path of ['/console/../package.json', '/console/%2e%2e/package.json', '/console/none.js'])
      expect([path, (await send(path)).status]).toEqual([path, 404]);
    expect((await send('/')).headers['location']).toBe('/console/');
    expect((await send('//evil.example/x', { headers: signedIn() })).status).toBe(400);
  });
});
