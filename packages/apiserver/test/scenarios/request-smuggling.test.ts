import { once } from 'node:events';
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { testKeys, type TestKeys } from '../support/keys.ts';
import { startServer, type TestServer } from '../support/start-server.ts';

const smuggled = 'GET /smuggled HTTP/1.1\r\nHost: backend\r\n\r\n';
const pod = '/api/v1/namespaces/a/pods/http:b:8080/proxy';
const okay = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';

let keys: TestKeys;
let server: TestServer;
let backend: Server;
/** The bytes of each connection to the backend. */
let received: string[] = [];
let sockets: Socket[] = [];
/** What the backend answers to each request head. */
let answer = okay;

/** How a backend that follows RFC 9112 splits the bytes of one connection into requests. */
function requestsOf(bytes: string): readonly { readonly line: string; readonly headers: string; readonly body: string }[] {
  const found: { line: string; headers: string; body: string }[] = [];
  let rest = bytes;
  while (rest.includes('\r\n\r\n')) {
    const end = rest.indexOf('\r\n\r\n');
    const head = rest.slice(0, end);
    rest = rest.slice(end + 4);
    const headers = head.slice(head.indexOf('\r\n') + 2).toLowerCase();
    let body = '';
    if (/^transfer-encoding: chunked$/m.test(headers.replaceAll('\r', ''))) {
      for (;;) {
        const line = rest.slice(0, rest.indexOf('\r\n'));
        const size = Number.parseInt(line, 16);
        rest = rest.slice(line.length + 2);
        body += rest.slice(0, size);
        rest = rest.slice(size + 2);
        if (!(size > 0)) break;
      }
    } else {
      const length = Number(/^content-length: (\d+)/m.exec(headers)?.[1] ?? 0);
      body = rest.slice(0, length);
      rest = rest.slice(length);
    }
    found.push({ line: head.slice(0, head.indexOf('\r\n')), headers, body });
  }
  return found;
}
const seen = () => received.flatMap(requestsOf);
const lines = () => seen().map(({ line }) => line);

/** Sends bytes to the API server over HTTP/1.1 and resolves with all that comes back until the connection ends or `done` holds. */
function raw(text: string, done: (got: string) => boolean = () => false): Promise<string> {
  return new Promise((resolve) => {
    const socket = connectTls({ host: '127.0.0.1', port: server.port, ca: keys.caBundle, ALPNProtocols: ['http/1.1'] });
    let got = '';
    socket.on('secureConnect', () => socket.write(text, 'latin1'));
    socket.on('data', (chunk: Buffer) => {
      got += chunk.toString('latin1');
      if (done(got)) socket.destroy();
    });
    socket.on('error', () => socket.destroy());
    socket.on('close', () => resolve(got));
  });
}
const answered = (got: string) => got.includes('\r\n\r\n');

beforeAll(async () => {
  keys = await testKeys();
  backend = createServer((socket) => {
    sockets.push(socket);
    const index = received.push('') - 1;
    let answers = 0;
    socket.on('data', (chunk) => {
      received[index] += chunk.toString('latin1');
      for (const count = requestsOf(received[index] ?? '').length; answers < count; answers++) socket.write(answer, 'latin1');
    });
    socket.on('error', () => socket.destroy());
  });
  backend.listen(0, '127.0.0.1');
  await once(backend, 'listening');
});
afterAll(() => {
  backend.close();
});
beforeEach(async () => {
  received = [];
  sockets = [];
  answer = okay;
  server = await startServer({ keys });
  const { port } = backend.address() as AddressInfo;
  server.pipeline.answer = () => ({ kind: 'proxy', scheme: 'http', host: '127.0.0.1', port, allowLoopback: true });
});
afterEach(async () => {
  await server.stop();
  for (const socket of sockets) socket.destroy();
});

describe('request body forwarded by a proxy', () => {
  it.each(['GET', 'DELETE', 'OPTIONS', 'HEAD', 'POST', 'PUT', 'PATCH'])('%s: a chunked body stays a body', async (method) => {
    const head = `${method} ${pod}/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n`;
    await raw(`${head}${smuggled.length.toString(16)}\r\n${smuggled}\r\n0\r\n\r\n`, (got) => answered(got) && seen().length > 0);
    await server.http1('GET', `${pod}/after`);
    expect(lines()).toEqual([`${method} /x HTTP/1.1`, 'GET /after HTTP/1.1']);
    expect(seen()[0]).toMatchObject({ body: smuggled, headers: expect.stringContaining('transfer-encoding: chunked') as string });
  });

  it.each(['GET', 'DELETE', 'OPTIONS', 'HEAD', 'POST', 'PUT', 'PATCH'])(
    '%s: a body of HTTP/2 without a length is framed',
    async (method) => {
      await server.http2(method, `${pod}/x`, { body: smuggled });
      await server.http1('GET', `${pod}/after`);
      expect(lines()).toEqual([`${method} /x HTTP/1.1`, 'GET /after HTTP/1.1']);
      expect(seen()[0]?.body).toBe(smuggled);
    },
  );

  it('keeps the length that the client declared', async () => {
    await server.http2('DELETE', `${pod}/x`, { body: smuggled, headers: { 'content-length': String(smuggled.length) } });
    expect(seen()).toMatchObject([{ body: smuggled, headers: expect.stringContaining(`content-length: ${smuggled.length}`) as string }]);
    expect(seen()[0]?.headers).not.toContain('transfer-encoding');
  });

  it.each([
    ['more', 'abcdef', '2'],
    ['less', 'abc', '10'],
  ])('HTTP/2: a body of %s bytes than declared is an error and never a second request', async (_, body, length) => {
    await expect(server.http2('POST', `${pod}/x`, { body, headers: { 'content-length': length } })).rejects.toThrow();
    await server.http1('GET', `${pod}/after`);
    expect(received.at(-1)).toMatch(/^GET \/after /);
  });

  it('HTTP/2: a declared length without a body does not swallow the next request', async () => {
    const session = server.session();
    const stream = session.request({ ':method': 'GET', ':path': `${pod}/x`, 'content-length': '41' }, { endStream: true });
    stream.on('error', () => undefined);
    await new Promise((resolve) => stream.once('close', resolve));
    await server.http1('GET', `${pod}/after`);
    expect(lines().at(-1)).toBe('GET /after HTTP/1.1');
  });
});

describe('ambiguous request head', () => {
  const post = `POST ${pod}/x HTTP/1.1\r\nHost: a\r\n`;
  const chunked = `${post}Transfer-Encoding: chunked\r\n\r\n`;
  it.each([
    ['Content-Length and Transfer-Encoding', `${post}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`],
    ['two lengths', `${post}Content-Length: 1\r\nContent-Length: 2\r\n\r\nab`],
    ['a list of lengths', `${post}Content-Length: 2, 2\r\n\r\nab`],
    ['a signed length', `${post}Content-Length: +2\r\n\r\nab`],
    ['a coding after chunked', `${post}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n`],
    ['a coding before chunked', `${post}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`],
    ['a coding like chunked', `${post}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n`],
    ['two codings', `${post}Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n`],
    ['obsolete folding', `${post}X-A: b\r\n c\r\nContent-Length: 0\r\n\r\n`],
    ['folded Transfer-Encoding', `${post}Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n`],
    ['a bare LF', `${post}X: y\nContent-Length: 0\r\n\r\n`],
    ['a bare CR', `${post}X: y\rContent-Length: 0\r\n\r\n`],
    ['a NUL', `${post}X: y\0\r\nContent-Length: 0\r\n\r\n`],
    ['a space before the colon', `${post}Content-Length : 0\r\n\r\n`],
    ['a bare LF in a chunk extension', `${chunked}1;a\nb\r\nx\r\n0\r\n\r\n`],
    ['a bare CR in a chunk extension', `${chunked}1;a\rb\r\nx\r\n0\r\n\r\n`],
    ['a control character in a chunk extension', `${chunked}1;a=\x01\r\nx\r\n0\r\n\r\n`],
    ['a chunk size beyond 64 bits', `${chunked}10000000000000001\r\nx\r\n0\r\n\r\n`],
    ['a chunk size with 0x', `${chunked}0x1\r\nx\r\n0\r\n\r\n`],
    ['bare LFs between chunks', `${chunked}1\nx\n0\n\n`],
    ['a chunk longer than its size', `${chunked}1\r\nxyz0\r\n\r\n`],
    ['framing in a trailer', `${chunked}0\r\nContent-Length: 5\r\n\r\n`],
  ])('%s is rejected, and the connection is closed', async (_, attack) => {
    const got = await raw(`${attack}${smuggled}`, (text) => text.includes('smuggled'));
    expect(got === '' || /^HTTP\/1\.1 (400|503)/.test(got)).toBe(true);
    expect(seen()).toEqual([]);
  });

  it('drops headers of one connection and those that Connection names, and keeps the framing', async () => {
    await raw(
      `POST ${pod}/x HTTP/1.1\r\nHost: a\r\nConnection: X-Named, Content-Length, close\r\nKeep-Alive: 5\r\nTE: trailers\r\nTrailer: x\r\nProxy-Connection: keep-alive\r\nX-Named: 1\r\nX-Kept: 2\r\nContent-Length: 3\r\n\r\nabc`,
    );
    const [request] = seen();
    expect(request).toMatchObject({ body: 'abc', headers: expect.stringContaining('x-kept: 2') as string });
    expect(request?.headers).not.toMatch(/^(x-named|te|trailer|proxy-connection|keep-alive: 5)/m);
  });
});

describe('invalid framing of a backend response', () => {
  it.each([
    ['Content-Length and Transfer-Encoding', 'Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'],
    ['two lengths', 'Content-Length: 1\r\nContent-Length: 2\r\n\r\nab'],
    ['obsolete folding', 'X-A: b\r\n c\r\nContent-Length: 0\r\n\r\n'],
    ['a bare LF', 'X: y\nContent-Length: 0\r\n\r\n'],
    ['a bare CR', 'X: y\rContent-Length: 0\r\n\r\n'],
    ['a signed length', 'Content-Length: +2\r\n\r\nab'],
    ['a coding besides chunked', 'Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n'],
  ])('%s returns 503, and its connection is not reused', async (_, rest) => {
    answer = `HTTP/1.1 200 OK\r\n${rest}`;
    expect((await server.http1('GET', `${pod}/x`)).code).toBe(503);
    answer = okay;
    expect((await server.http1('GET', `${pod}/after`)).code).toBe(200);
    expect(received).toHaveLength(2);
  });

  it.each(['1;a\nb\r\nx\r\n0\r\n\r\n', '1;a\rb\r\nx\r\n0\r\n\r\n', '1\r\nxy0\r\n\r\n'])(
    'chunks %j end the response with an error',
    async (chunks) => {
      answer = `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}`;
      await expect(server.http1('GET', `${pod}/x`)).rejects.toThrow();
    },
  );

  it('bytes after a response are not used as the response to the next request', async () => {
    answer = `${okay}HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison`;
    await server.http1('GET', `${pod}/x`);
    answer = okay;
    const { code, text } = await server.http1('GET', `${pod}/after`);
    expect([code, text]).toEqual([200, 'ok']);
  });

  it('101 to a request without an upgrade is an error', async () => {
    answer = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n';
    expect((await server.http1('GET', `${pod}/x`)).code).toBe(503);
  });

  it('drops headers of the connection and a length where no body is allowed', async () => {
    answer =
      'HTTP/1.1 204 No Content\r\nContent-Length: 5\r\nConnection: X-Named\r\nX-Named: 1\r\nKeep-Alive: timeout=5\r\nX-Kept: 2\r\n\r\n';
    const { headers } = await server.http1('GET', `${pod}/x`);
    expect(headers).toMatchObject({ 'x-kept': '2' });
    for (const name of ['x-named', 'content-length']) expect(headers).not.toHaveProperty(name);
  });
});

describe('upgrade through a proxy', () => {
  const head = `GET ${pod}/x HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, X-Named\r\nUpgrade: echo\r\nX-Named: 1\r\n`;
  it.each([
    ['a length', `Content-Length: ${smuggled.length}\r\n\r\n${smuggled}`],
    ['chunks', `Transfer-Encoding: chunked\r\n\r\n${smuggled.length.toString(16)}\r\n${smuggled}\r\n0\r\n\r\n`],
  ])('is rejected with a body of %s', async (_, rest) => {
    expect(await raw(head + rest, answered)).toMatch(/^HTTP\/1\.1 400 /);
    expect(received).toEqual([]);
  });

  it('drops headers of both connections if the backend does not upgrade', async () => {
    answer = 'HTTP/1.1 403 Forbidden\r\nConnection: X-Other\r\nX-Other: 1\r\nKeep-Alive: timeout=5\r\nContent-Length: 2\r\n\r\nno';
    const got = await raw(`${head}Content-Length: 0\r\n\r\n`);
    expect(got).toMatch(/^HTTP\/1\.1 403 Forbidden\r\n/);
    expect(got).not.toMatch(/x-other|keep-alive/i);
    expect(got.endsWith('\r\n\r\nno')).toBe(true);
    expect(seen()[0]?.headers).not.toContain('x-named');
  });
});
