import { createServer as createHttp, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createHttp2, type Http2Server } from 'node:http2';
import { createServer as createTcp, type AddressInfo } from 'node:net';
import { systemClock } from '@oarlock/kernel/clock';
import { afterEach, describe, expect, it } from 'vitest';
import { probeGrpc } from '../src/probes/grpc-probe.ts';
import { httpTarget, probeHttp } from '../src/probes/http-probe.ts';
import { toldOf } from '../src/probes/pod-probes.ts';
import { probeTcp } from '../src/probes/tcp-probe.ts';

const { signal } = new AbortController();

describe('probes of endpoints', () => {
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
  const get = (port: number, path = '/', timeoutMs = 1000, httpHeaders: { name: string; value: string }[] = []) =>
    probeHttp(httpTarget({ path, port, httpHeaders }, '127.0.0.1', port), timeoutMs, systemClock, signal);
  /** A port where nobody listens. */
  const closed = async () => {
    const server = createTcp();
    const port = await listen(server);
    await new Promise((resolve) => {
      server.close(resolve);
    });
    return port;
  };

  it('over HTTP take 200 to 399 for a success', async () => {
    const seen: IncomingMessage['headers'][] = [];
    const port = await serve(({ url, headers }, response) => {
      seen.push(headers);
      response.writeHead(Number(url?.slice(1, 4))).end('body');
    });
    expect(await get(port, '/200?a=b', 1000, [{ name: 'X-Color', value: 'blue' }])).toEqual({ result: 'success', output: 'body' });
    expect(seen[0]).toMatchObject({ 'user-agent': 'kube-probe/1.36', accept: '*/*', 'x-color': 'blue' });
    expect((await get(port, '/399')).result).toBe('success');
    expect(await get(port, '/500')).toEqual({ result: 'failure', output: 'HTTP probe failed with statuscode: 500' });
    expect(await get(port, '/404')).toEqual({ result: 'failure', output: 'HTTP probe failed with statuscode: 404' });
  });

  it('over HTTP follow redirects on the same host, and no others', async () => {
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
    expect(toldOf('liveness', await get(port, '/out'))).toEqual({
      reason: 'ProbeWarning',
      message: 'Liveness probe warning: Probe terminated redirects, Response body: not here',
    });
    expect(toldOf('liveness', { result: 'success', output: 'fine' })).toBeUndefined();
    expect((await get(port, '/loop')).output).toContain('stopped after 10 redirects');
  });

  it('say why nobody answered, in the words that people search for', async () => {
    const nobody = await closed();
    expect(await get(nobody)).toEqual({
      result: 'failure',
      output: `Get "http://127.0.0.1:${nobody}/": dial tcp 127.0.0.1:${nobody}: connect: connection refused`,
    });
    expect(await probeTcp('127.0.0.1', nobody, 1000, systemClock, signal)).toEqual({
      result: 'failure',
      output: `dial tcp 127.0.0.1:${nobody}: connect: connection refused`,
    });
    const silent = await serve(() => {});
    expect((await get(silent, '/', 50)).output).toBe(
      `Get "http://127.0.0.1:${silent}/": context deadline exceeded (Client.Timeout exceeded while awaiting headers)`,
    );
  });

  it('over TCP take a connection for a success', async () => {
    const port = await listen(createTcp((socket) => socket.on('error', () => {})));
    expect(await probeTcp('127.0.0.1', port, 1000, systemClock, signal)).toEqual({ result: 'success', output: '' });
  });

  it('over gRPC ask the health service', async () => {
    const asked: string[] = [];
    const server = createHttp2();
    server.on('stream', (stream, headers) => {
      const chunks: Buffer[] = [];
      stream.on('data', (chunk: Buffer) => chunks.push(chunk));
      stream.on('error', () => {});
      stream.on('end', () => {
        const service = Buffer.concat(chunks).subarray(7).toString();
        asked.push(`${headers[':path']} ${service}`);
        if (service === 'none') {
          stream.respond(
            { ':status': 200, 'content-type': 'application/grpc', 'grpc-status': '5', 'grpc-message': 'unknown%20service' },
            { endStream: true },
          );
          return;
        }
        stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
        stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
        stream.end(Buffer.from([0, 0, 0, 0, 2, 0x08, service === 'bad' ? 2 : 1]));
      });
    });
    const port = await listen(server);
    const probe = (service: string) => probeGrpc('127.0.0.1', port, service, 1000, systemClock, signal);
    expect(await probe('')).toEqual({ result: 'success', output: 'service healthy' });
    expect(await probe('bad')).toEqual({ result: 'failure', output: 'service unhealthy (responded with "NOT_SERVING")' });
    expect((await probe('none')).output).toBe('error: health rpc failed: rpc error: code = 5 desc = unknown service');
    expect(asked[0]).toBe('/grpc.health.v1.Health/Check ');
    expect((await probeGrpc('127.0.0.1', await closed(), '', 1000, systemClock, signal)).result).toBe('failure');
  });

  it('end when they are not wanted any more', async () => {
    const silent = await serve(() => {});
    const stop = new AbortController();
    const attempt = probeHttp(httpTarget({ port: silent }, '127.0.0.1', silent), 10_000, systemClock, stop.signal);
    stop.abort();
    await expect(attempt).rejects.toThrow();
  });
});
