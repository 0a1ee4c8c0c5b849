import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { rewriteLink } from '../../src/proxy/internal/location.ts';
import { HtmlLinkRewriter } from '../../src/proxy/internal/html-links.ts';
import { schemeNamePort } from '../../src/endpoints/handlers/subresources/proxy.ts';
import { testKeys, type TestKeys } from '../support/keys.ts';
import { startServer, type TestServer } from '../support/start-server.ts';

let keys: TestKeys;
let server: TestServer;
let backend: Server;
let port = 0;
const seen: { method: string; url: string; headers: IncomingMessage['headers']; body: string }[] = [];
let answer: (request: IncomingMessage, response: ServerResponse) => void;

const pod = '/api/v1/namespaces/a/pods/http:b:8080/proxy';

beforeAll(async () => {
  keys = await testKeys();
  backend = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      seen.push({ method: request.method ?? '', url: request.url ?? '', headers: request.headers, body: Buffer.concat(chunks).toString() });
      answer(request, response);
    });
  });
  backend.on('upgrade', (request, socket) => {
    seen.push({ method: request.method ?? '', url: request.url ?? '', headers: request.headers, body: '' });
    socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n');
    socket.pipe(socket);
  });
  await new Promise<void>((resolve) => {
    backend.listen(0, '127.0.0.1', resolve);
  });
  ({ port } = backend.address() as AddressInfo);
});
afterAll(() => {
  backend.closeAllConnections();
  backend.close();
});
beforeEach(async () => {
  seen.length = 0;
  answer = (request, response) => {
    response.setHeader('x-from', 'backend');
    response.end(`${request.method} ${request.url}`);
  };
  server = await startServer({ keys });
  server.pipeline.answer = () => ({ kind: 'proxy', scheme: 'http', host: '127.0.0.1', port, allowLoopback: true });
});
afterEach(() => server.stop());

describe.each(['http1', 'http2'] as const)('Proxy version v1 over %s', (protocol) => {
  it.each(['DELETE', 'OPTIONS', 'PATCH', 'POST', 'PUT', 'GET'])(
    'A set of valid responses are returned for both pod and service ProxyWithPath: %s',
    async (method) => {
      for (const what of [pod, '/api/v1/namespaces/a/services/b:web/proxy', '/api/v1/nodes/n:10250/proxy']) {
        const { code, text, headers } = await server[protocol](method, `${what}/some/path/with/${method}?a=b%20c`, {
          ...(method === 'POST' && { body: 'x'.repeat(100_000), headers: { 'content-type': 'text/x-other', accept: 'text/x-none' } }),
        });
        expect([code, text, headers['x-from']]).toEqual([200, `${method} /some/path/with/${method}?a=b%20c`, 'backend']);
      }
      expect(seen.map(({ body }) => body.length)).toEqual(method === 'POST' ? [100_000, 100_000, 100_000] : [0, 0, 0]);
      expect(server.pipeline.requests.map(({ subresource, name }) => [subresource, name])).toEqual([
        ['proxy', 'http:b:8080'],
        ['proxy', 'b:web'],
        ['proxy', 'n:10250'],
      ]);
    },
  );

  it('responds to HEAD without a body', async () => {
    expect(await server[protocol]('HEAD', `${pod}/x`)).toMatchObject({ code: 200, text: '', headers: { 'x-from': 'backend' } });
  });

  it('A set of valid responses are returned for both pod and service Proxy: the root without a slash is redirected', async () => {
    for (const method of ['GET', 'HEAD']) {
      const { code, headers } = await server[protocol](method, `${pod}?q=1`);
      expect([code, headers.location]).toEqual([301, `${pod}/?q=1`]);
    }
    expect((await server[protocol]('POST', pod)).text).toBe('POST /');
    expect((await server[protocol]('GET', `${pod}/`)).text).toBe('GET /');
  });

  it('forwards paths unchanged and removes credentials', async () => {
    await server[protocol]('GET', `${pod}//a%2Fb//c/`, { headers: { authorization: 'Bearer good', 'x-mine': '1' } });
    expect(seen[0]).toMatchObject({ url: '//a%2Fb//c/', headers: { 'x-mine': '1', 'x-forwarded-uri': `${pod}//a%2Fb//c/` } });
    expect(seen[0]?.headers).not.toHaveProperty('authorization');
    expect(seen[0]?.headers['x-forwarded-for']).toContain('127.0.0.1');
  });

  it('rewrites redirects and links to lead through the proxy', async () => {
    answer = (_, response) => {
      response.writeHead(302, { location: '/next?x=1', 'content-type': 'text/html' });
      response.end('<a class=x href="/one">1</a> <a href="two">2</a> <img src=\'/three\'> <a href="http://elsewhere.test/four">4</a>');
    };
    const { code, headers, text } = await server[protocol]('GET', `${pod}/`, { headers: { accept: 'text/html' } });
    expect([code, headers.location]).toEqual([302, `${pod}/next?x=1`]);
    expect(text).toBe(
      `<a class=x href="${pod}/one">1</a> <a href="two">2</a> <img src='${pod}/three'> <a href="http://elsewhere.test/four">4</a>`,
    );
  });

  it('responds with 503 if the destination cannot be reached', async () => {
    server.pipeline.answer = () => ({ kind: 'proxy', scheme: 'http', host: '127.0.0.1', port: 1, allowLoopback: true });
    const { code, json } = await server[protocol]('GET', `${pod}/`);
    expect(code).toBe(503);
    expect(json()).toMatchObject({
      reason: 'ServiceUnavailable',
      message: expect.stringMatching(/^error trying to reach service: dial tcp .*: connect: connection refused$/) as string,
    });
  });
});

describe('a kubelet behind nodes/proxy', () => {
  it('is verified by the cluster CA and receives the kubelet client certificate', async () => {
    const pair = await keys.issue({ commonName: 'system:node:n', ipAddresses: ['127.0.0.1'], usages: ['server'] });
    const kubelet = createTlsServer(
      { cert: pair.certificate, key: pair.key, ca: keys.caBundle, requestCert: true, rejectUnauthorized: true },
      (request, response) => {
        response.end(`kubelet ${request.url}`);
      },
    );
    await new Promise<void>((resolve) => {
      kubelet.listen(0, '127.0.0.1', resolve);
    });
    const kubeletPort = (kubelet.address() as AddressInfo).port;
    server.pipeline.answer = () => ({ kind: 'proxy', scheme: 'https', host: '127.0.0.1', port: kubeletPort, kubelet: { own: true } });
    expect((await server.http1('GET', '/api/v1/nodes/n/proxy/configz')).text).toBe('kubelet /configz');
    kubelet.closeAllConnections();
    kubelet.close();
  });
});

describe('an upgrade through a proxy', () => {
  it('copies bytes in both directions', async () => {
    const socket = connectTls({ host: '127.0.0.1', port: server.port, ca: keys.caBundle });
    const got: Buffer[] = [];
    const text = () => Buffer.concat(got).toString();
    const until = (wanted: string) =>
      new Promise<void>((resolve) => {
        const look = () => {
          if (!text().includes(wanted)) return;
          socket.off('data', look);
          resolve();
        };
        socket.on('data', look);
        look();
      });
    socket.on('data', (chunk: Buffer) => got.push(chunk));
    socket.write(`GET ${pod}/ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n`);
    await until('\r\n\r\n');
    expect(text()).toContain('101 Switching Protocols');
    socket.write('hello there');
    await until('hello there');
    expect(seen[0]).toMatchObject({ url: '/ws' });
    socket.destroy();
  });
});

describe('names before /proxy', () => {
  it.each([
    ['a', { scheme: '', name: 'a', port: '' }],
    ['a:80', { scheme: '', name: 'a', port: '80' }],
    ['https:a:', { scheme: 'https', name: 'a', port: '' }],
    ['https:a:web', { scheme: 'https', name: 'a', port: 'web' }],
    [':a:80', { scheme: '', name: 'a', port: '80' }],
    ['ftp:a:80', undefined],
    ['a:b:c:d', undefined],
    ['', undefined],
  ])('%s', (id, named) => {
    expect(schemeNamePort(id)).toEqual(named);
  });
});

describe('links', () => {
  const rewriting = { prefix: '/p/proxy', host: '10.0.0.1:80' };
  it.each([
    ['/a/b/', '/p/proxy/a/b/'],
    ['http://10.0.0.1:80/a', '/p/proxy/a'],
    ['https://me:8001/a', '/p/proxy/a'],
    ['//elsewhere/a', '//elsewhere/a'],
    ['a/b', 'a/b'],
    ['/p/proxy/a', '/p/proxy/a'],
    ['#x', '#x'],
  ])('%s', (link, expected) => {
    expect(rewriteLink(link, rewriting, 'me:8001')).toBe(expected);
  });
  it('are found in pages that arrive in chunks', () => {
    const page = '<html><a\n href="/x">é</a><script src="/y"></script><p title="/z">1 < 2</p>';
    for (let size = 1; size < 20; size++) {
      const links = new HtmlLinkRewriter(rewriting);
      const bytes = Buffer.from(page);
      const out: Buffer[] = [];
      for (let i = 0; i < bytes.length; i += size) out.push(links.write(bytes.subarray(i, i + size)));
      out.push(links.end());
      expect(Buffer.concat(out).toString()).toBe(page.replace('"/x"', '"/p/proxy/x"').replace('"/y"', '"/p/proxy/y"'));
    }
  });
});
