import { createServer as createHttp, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { once, setMaxListeners } from 'node:events';
import { createServer as createHttp2, type Http2Server, type ServerHttp2Stream } from 'node:http2';
import { createServer as createTcp, type AddressInfo } from 'node:net';
import { systemClock } from '@oarlock/primitives/clock';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { callHostileServers } from '@oarlock/testing/network/hostile-http';
import { pushingServer } from '@oarlock/testing/network/hostile-http2';
import { afterEach, describe, expect, it } from 'vitest';
import { probeGrpc } from '../../src/probes/grpc-probe.ts';
import { httpTarget, probeHttp } from '../../src/probes/http-probe.ts';
import { probeEventMessage } from '../../src/probes/probe-manager.ts';
import { probeTcp } from '../../src/probes/tcp-probe.ts';

const { signal } = new AbortController();
const options = { timeoutMs: 60_000, clock: systemClock, signal };

describe('probe protocols', () => {
  const open: { close(): unknown }[] = [];
  afterEach(() => {
    for (const server of open.splice(0)) server.close();
  });
  const listen = (server: Server | Http2Server | ReturnType<typeof createTcp>) =>
    new Promise<number>((resolve) => {
      open.push(server);
      server.listen(0, '127.0.0.1', () => resolve((server.address() as AddressInfo).port));
    });
  const serve = (answer: (request: IncomingMessage, response: ServerResponse) => void) => listen(createHttp(answer));
  const get = (port: number, path = '/', timeoutMs = 60_000, httpHeaders: { name: string; value: string }[] = []) =>
    probeHttp(httpTarget({ path, port, httpHeaders }, '127.0.0.1', port), { timeoutMs, clock: systemClock, signal });
  /** Returns a port without a listener. */
  const closed = async () => {
    const server = createTcp();
    const port = await listen(server);
    await new Promise((resolve) => {
      server.close(resolve);
    });
    return port;
  };

  it('HTTP: a status from 200 to 399 is a success', async () => {
    const seen: IncomingMessage['headers'][] = [];
    const port = await serve(({ url, headers }, response) => {
      seen.push(headers);
      response.writeHead(Number(url?.slice(1, 4))).end('body');
    });
    expect(await get(port, '/200?a=b', 60_000, [{ name: 'X-Color', value: 'blue' }])).toEqual({ result: 'success', output: 'body' });
    expect(seen[0]).toMatchObject({ 'user-agent': 'kube-probe/1.36', accept: '*/*', 'x-color': 'blue' });
    expect((await get(port, '/399')).result).toBe('success');
    expect(await get(port, '/500')).toEqual({ result: 'failure', output: 'HTTP probe failed with statuscode: 500' });
    expect(await get(port, '/404')).toEqual({ result: 'failure', output: 'HTTP probe failed with statuscode: 404' });
  });

  it('HTTP: a server that switches protocols fails the probe', async () => {
    const port = await listen(
      createTcp((socket) =>
        socket
          .on('error', () => {})
          .once('data', () => socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n')),
      ),
    );
    expect(await get(port)).toEqual({ result: 'failure', output: 'HTTP probe failed with statuscode: 101' });
  });

  it('HTTP: redirects are followed only on the same host', async () => {
    const port = await serve(({ url }, response) => {
      if (url === '/') response.writeHead(302, { location: '/there' }).end();
      else if (url === '/out') response.writeHead(302, { location: 'http://elsewhere.example/' }).end('not here');
      else if (url === '/loop') response.writeHead(302, { location: '/loop' }).end();
      else response.writeHead(503).end();
    });
    expect(await get(port)).toEqual({ result: 'failure', output: 'HTTP probe failed with statuscode: 503' });
    expect(await get(port, '/out')).toEqual({
      result: 'success',
      output: 'Probe terminated redirects, Response body: not here',
      warning: true,
    });
    expect(probeEventMessage('liveness', await get(port, '/out'))).toEqual({
      reason: 'ProbeWarning',
      message: 'Liveness probe warning: Probe terminated redirects, Response body: not here',
    });
    expect(probeEventMessage('liveness', { result: 'success', output: 'fine' })).toBeUndefined();
    expect((await get(port, '/loop')).output).toContain('stopped after 10 redirects');
  });

  it('report connection errors in the words of Go', async () => {
    const closedPort = await closed();
    expect(await get(closedPort)).toEqual({
      result: 'failure',
      output: `Get "http://127.0.0.1:${closedPort}/": dial tcp 127.0.0.1:${closedPort}: connect: connection refused`,
    });
    expect(await probeTcp({ host: '127.0.0.1', port: closedPort }, options)).toEqual({
      result: 'failure',
      output: `dial tcp 127.0.0.1:${closedPort}: connect: connection refused`,
    });
    const silent = await serve(() => {});
    expect((await get(silent, '/', 50)).output).toBe(
      `Get "http://127.0.0.1:${silent}/": context deadline exceeded (Client.Timeout exceeded while awaiting headers)`,
    );
  });

  it('HTTP: survive every response', async () => {
    setMaxListeners(0, signal);
    expect(await callHostileServers((port) => get(port, '/', 2_000))).toBeGreaterThan(40);
  });

  it('TCP: an accepted connection is a success', async () => {
    const port = await listen(createTcp((socket) => socket.on('error', () => {})));
    expect(await probeTcp({ host: '127.0.0.1', port }, options)).toEqual({ result: 'success', output: '' });
  });

  it('gRPC: the health service is called', async () => {
    const calls: string[] = [];
    const errors: Readonly<Record<string, Readonly<Record<string, string>>>> = {
      none: { 'grpc-status': '5', 'grpc-message': 'unknown%20service' },
      'not encoded': { 'grpc-status': '2', 'grpc-message': '100% %zz %C3%A9 %FF' },
      'no number': { 'grpc-status': 'x', 'grpc-message': 'why' },
    };
    const server = createHttp2();
    server.on('stream', (stream, headers) => {
      const chunks: Buffer[] = [];
      stream.on('data', (chunk: Buffer) => chunks.push(chunk));
      stream.on('error', () => {});
      stream.on('end', () => {
        const service = Buffer.concat(chunks).subarray(7).toString();
        calls.push(`${headers[':path']} ${service}`);
        const error = errors[service];
        if (error !== undefined) {
          stream.respond({ ':status': 200, 'content-type': 'application/grpc', ...error }, { endStream: true });
          return;
        }
        stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
        stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
        stream.end(Buffer.from([0, 0, 0, 0, 2, 0x08, service === 'bad' ? 2 : 1]));
      });
    });
    const port = await listen(server);
    const probe = (service: string) => probeGrpc({ host: '127.0.0.1', port, service }, options);
    expect(await probe('')).toEqual({ result: 'success', output: 'service healthy' });
    expect(await probe('bad')).toEqual({ result: 'failure', output: 'service unhealthy (responded with "NOT_SERVING")' });
    expect((await probe('none')).output).toBe('error: health rpc probe failed: rpc error: code = NotFound desc = unknown service');
    expect((await probe('not encoded')).output).toBe('error: health rpc probe failed: rpc error: code = Unknown desc = 100% %zz é \ufffd');
    expect((await probe('no number')).output).toBe('error: health rpc probe failed: rpc error: code = Unknown desc = why');
    expect(calls[0]).toBe('/grpc.health.v1.Health/Check ');
  });

  it('gRPC: a server that cannot be reached, does not answer or ends the call fails the probe', async () => {
    const clock = new FakeClock();
    const within50ms = (port: number) => probeGrpc({ host: '127.0.0.1', port, service: '' }, { ...options, clock, timeoutMs: 50 });
    const closedPort = await closed();
    const unreachable = within50ms(closedPort);
    await clock.advance(50);
    expect((await unreachable).output).toBe(
      `timeout: failed to connect service "127.0.0.1:${closedPort}" within 50ms: context deadline exceeded`,
    );
    /** Resolves when the client has processed the settings of the server, which were sent before the ping. */
    const connected = (stream: ServerHttp2Stream) =>
      new Promise<void>((resolve) => {
        stream.on('error', () => {}).session?.ping(() => resolve());
      });
    const silent = createHttp2();
    const arrived = once(silent, 'stream');
    const unanswered = within50ms(await listen(silent));
    const [stream] = (await arrived) as [ServerHttp2Stream];
    await connected(stream);
    await clock.advance(50);
    expect((await unanswered).output).toBe('timeout: health rpc did not complete within 50ms');
    const ending = createHttp2();
    ending.on('stream', (ended) => {
      void connected(ended).then(() => ended.session?.destroy());
    });
    const port = await listen(ending);
    expect((await probeGrpc({ host: '127.0.0.1', port, service: '' }, options)).output).toMatch(
      /^error: health rpc probe failed: rpc error: code = Unavailable desc = error reading from server: /,
    );
  });

  it('gRPC: a server that pushes a stream and resets it fails the probe', async () => {
    const port = await listen(pushingServer());
    expect((await probeGrpc({ host: '127.0.0.1', port, service: '' }, options)).output).toMatch(
      /^error: health rpc probe failed: rpc error: code = Unavailable desc = error reading from server: /,
    );
  });

  it('reject when the signal aborts', async () => {
    const silent = await serve(() => {});
    const stop = new AbortController();
    const attempt = probeHttp(httpTarget({ port: silent }, '127.0.0.1', silent), {
      timeoutMs: 10_000,
      clock: systemClock,
      signal: stop.signal,
    });
    stop.abort();
    await expect(attempt).rejects.toThrow();
  });
});
