import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, connect as connectTcp, type AddressInfo, type Socket } from 'node:net';
import { constants } from 'node:http2';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { configMaps, deployments, namespaces, nodes, pods } from '@oarlock/api/resources';
import { httpClient, type HttpClient, type HttpClientOptions } from '@oarlock/client/http/client';
import { TransportError } from '@oarlock/client/http/connection';
import { SharedInformerFactory } from '@oarlock/client/cache/shared-informer-factory';
import { systemClock, type Clock } from '@oarlock/primitives/clock';
import type { SpanContext } from '@oarlock/kernel/tracing';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { makeCertificates, type Certificates } from '../support/certificates.ts';
import { httpsFront, type HttpsFront } from '../support/https-front.ts';

const spanContext: SpanContext = { traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331', traceFlags: 1 };
const at = (name: string) => ({ namespace: 'd', name });
const until = (condition: () => boolean) =>
  vi.waitFor(
    () => {
      if (!condition()) throw new Error('not yet');
    },
    { timeout: 120_000, interval: 2 },
  );

describe('httpClient', () => {
  let certificates: Certificates;
  let api: ReturnType<typeof memoryApi>;
  let front: HttpsFront;
  const closers: (() => void | Promise<void>)[] = [];
  beforeAll(async () => {
    certificates = await makeCertificates();
  });
  beforeEach(async () => {
    api = memoryApi({ clock: new FakeClock() });
    front = await httpsFront(api.handler, certificates);
    closers.push(() => front.close());
  });
  afterEach(async () => {
    for (const close of closers.splice(0).reverse()) await close();
  });

  const client = (options: Partial<HttpClientOptions> = {}): HttpClient => {
    const clients = httpClient({ server: front.url, ca: certificates.ca, userAgent: 'test/1', ...options });
    closers.push(() => clients.close());
    return clients;
  };

  it('sends requests as another user over the same connection', async () => {
    const http = client();
    const kubelet = http.withUserAgent('kubelet/1');
    await http.create(configMaps, { metadata: at('one') });
    await kubelet.create(configMaps, { metadata: at('two') });
    expect(front.seen.map(({ headers }) => headers['user-agent'])).toEqual(['test/1', 'kubelet/1']);
    expect(front.connections).toBe(1);
  });

  it('implements all methods of Client over one HTTP/2 connection', async () => {
    const http = client({ ...certificates.client });
    const created = await http.create(deployments, { metadata: at('web'), spec: { replicas: 2, selector: {}, template: {} } });
    expect(created).toMatchObject({ apiVersion: 'apps/v1', kind: 'Deployment', metadata: { generation: 1 } });
    expect(Object.isFrozen(created.spec?.selector)).toBe(true);
    await http.patch(deployments, at('web'), 'strategic', { spec: { replicas: 5 } }, { fieldManager: 'm' });
    const scale = await http.get(deployments, at('web'), { subresource: 'scale' });
    expect(scale).toMatchObject({ kind: 'Scale', spec: { replicas: 5 } });
    const current = await http.get(deployments, at('web'));
    await http.update(deployments, { ...current, status: { replicas: 5 } }, { subresource: 'status' });
    const list = await http.list(deployments, { namespace: 'd', labelSelector: 'a!=b' });
    expect(list.items).toMatchObject([{ apiVersion: 'apps/v1', kind: 'Deployment', status: { replicas: 5 } }]);
    expect(await http.raw('GET', '/version')).toMatchObject({ major: '1' });
    expect(await http.delete(deployments, at('web'), { propagationPolicy: 'Foreground' })).toMatchObject({
      metadata: { finalizers: ['foregroundDeletion'] },
    });
    await http.create(namespaces, { metadata: { name: 'n' } });
    await http.deleteCollection(configMaps, { namespace: 'd' });
    expect(front.seen.map(({ method, url }) => `${method} ${url}`)).toEqual([
      'POST /apis/apps/v1/namespaces/d/deployments',
      'PATCH /apis/apps/v1/namespaces/d/deployments/web?fieldManager=m',
      'GET /apis/apps/v1/namespaces/d/deployments/web/scale',
      'GET /apis/apps/v1/namespaces/d/deployments/web',
      'PUT /apis/apps/v1/namespaces/d/deployments/web/status',
      'GET /apis/apps/v1/namespaces/d/deployments?labelSelector=a%21%3Db',
      'GET /version',
      'DELETE /apis/apps/v1/namespaces/d/deployments/web',
      'POST /api/v1/namespaces',
      'DELETE /api/v1/namespaces/d/configmaps',
    ]);
    expect(front.connections).toBe(1);
    expect(front.seen[0]).toMatchObject({
      httpVersion: '2.0',
      certificate: 'alice',
      headers: { 'user-agent': 'test/1', accept: 'application/json', 'content-type': 'application/json' },
    });
    expect(front.seen[1]?.headers['content-type']).toBe('application/strategic-merge-patch+json');
    expect(JSON.parse(front.seen[7]?.body ?? '')).toEqual({ kind: 'DeleteOptions', apiVersion: 'v1', propagationPolicy: 'Foreground' });
  });

  it('uses HTTP/1.1 if the server does not support HTTP/2', async () => {
    const old = await httpsFront(api.handler, certificates, { http2: false });
    closers.push(() => old.close());
    const http = client({ server: old.url });
    await http.create(configMaps, { metadata: at('a') });
    const abort = new AbortController();
    const seen: string[] = [];
    const watch = (async () => {
      for await (const batch of http.watch(configMaps, { signal: abort.signal, sendInitialEvents: true }))
        seen.push(...batch.map(({ type }) => type));
    })();
    await until(() => seen.length === 2);
    await http.patch(configMaps, at('a'), 'merge', { data: { x: 'y' } });
    await until(() => seen.length === 3);
    abort.abort();
    await watch;
    expect(seen).toEqual(['ADDED', 'BOOKMARK', 'MODIFIED']);
    expect(old.seen[0]?.httpVersion).toBe('1.1');
  });

  it('propagates span contexts in both directions', async () => {
    const http = client();
    const abort = new AbortController();
    const causes: unknown[] = [];
    const watch = (async () => {
      for await (const batch of http.watch(configMaps, { signal: abort.signal, resourceVersion: '0' }))
        causes.push(...batch.map((event) => event.spanContext));
    })();
    await until(() => front.seen.length === 1);
    await http.withSpanContext(spanContext).create(configMaps, { metadata: at('a') });
    await until(() => causes.length === 1);
    abort.abort();
    await watch;
    expect(front.seen[0]?.headers['x-oarlock-cause']).toBe('1');
    expect(front.seen[1]?.headers['traceparent']).toBe('00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01');
    expect(causes).toEqual([{ ...spanContext, isRemote: true }]);
  });

  it('throws rejections as StatusError, including those without a Status', async () => {
    const http = client();
    await expect(http.get(pods, at('x'))).rejects.toMatchObject({
      name: 'StatusError',
      reason: 'NotFound',
      code: 404,
      message: 'pods "x" not found',
    });
    front.intercept = (_request, response) => {
      response.writeHead(502, { 'content-type': 'text/html' });
      response.end('bad gateway');
      return true;
    };
    await expect(http.get(pods, at('x'))).rejects.toMatchObject({
      name: 'StatusError',
      reason: 'InternalError',
      code: 502,
      message: expect.stringContaining('bad gateway') as string,
    });
    front.intercept = (_request, response) => {
      response.writeHead(403);
      response.end();
      return true;
    };
    await expect(http.get(pods, at('x'))).rejects.toMatchObject({ reason: 'Forbidden', message: 'the server answered 403' });
  });

  it('throws the Status of an ERROR event from the watch, and Expired as such', async () => {
    await client().create(configMaps, { metadata: at('a') });
    await client().create(configMaps, { metadata: at('b') });
    api.compact();
    const watch = async () => {
      for await (const _ of client().watch(configMaps, { signal: new AbortController().signal, resourceVersion: '1' }));
    };
    await expect(watch()).rejects.toMatchObject({ reason: 'Expired', code: 410 });
    front.intercept = (_request, response) => {
      response.writeHead(200);
      response.end('{"type":"ERROR","object":{"kind":"Status","status":"Failure","reason":"Expired","code":410,"message":"too old"}}\n');
      return true;
    };
    await expect(watch()).rejects.toMatchObject({ reason: 'Expired', message: 'too old' });
  });

  it('honors Retry-After of a busy server ten times', async () => {
    const slept: number[] = [];
    const clock: Clock = {
      ...systemClock,
      sleep: async (ms) => {
        slept.push(ms);
      },
    };
    let rejections = 2;
    front.intercept = (_request, response) => {
      if (rejections-- <= 0) return false;
      response.writeHead(429, { 'retry-after': '3' });
      response.end();
      return true;
    };
    await client({ clock }).create(configMaps, { metadata: at('a') });
    expect(slept).toEqual([3000, 3000]);
    rejections = 100;
    await expect(client({ clock }).create(configMaps, { metadata: at('b') })).rejects.toMatchObject({ reason: 'TooManyRequests' });
    expect(slept).toHaveLength(12);
    front.intercept = (_request, response) => {
      response.writeHead(429);
      response.end();
      return true;
    };
    await expect(client({ clock }).list(configMaps)).rejects.toMatchObject({ code: 429 });
    expect(slept).toHaveLength(12);
  });

  it('throws ServiceUnavailable with the reason if it cannot connect or does not trust the server', async () => {
    const untrusted = await client({ ca: (await makeCertificates()).ca })
      .get(nodes, { name: 'n' })
      .catch((error: unknown) => error);
    expect(untrusted).toMatchObject({ reason: 'ServiceUnavailable', cause: { name: 'TransportError', code: 'ConnectFailed' } });
    await front.close();
    closers.splice(closers.indexOf(closers[0]!), 1);
    const rejected = await client()
      .get(nodes, { name: 'n' })
      .catch((error: unknown) => error as Error);
    expect(rejected).toMatchObject({
      reason: 'ServiceUnavailable',
      message: expect.stringMatching(/dial tcp 127\.0\.0\.1:\d+: connect: connection refused$/) as string,
    });
  });

  it('increases the delay between connection attempts, and shares an attempt', async () => {
    const port = Number(new URL(front.url).port);
    await front.close();
    closers.length = 0;
    const slept: number[] = [];
    const clock: Clock = {
      ...systemClock,
      monotonic: () => 0,
      sleep: async (ms) => {
        slept.push(ms);
      },
    };
    const http = client({ clock, random: () => 0, server: `https://127.0.0.1:${port}` });
    const attempt = () => http.get(nodes, { name: 'n' }).catch(() => undefined);
    await Promise.all([attempt(), attempt(), attempt()]);
    for (let n = 0; n < 8; n += 1) await attempt();
    expect(slept).toEqual([100, 200, 400, 800, 1600, 3200, 5000, 5000]);
  });

  it('reconnects when the connection is lost, and repeats requests that only read', async () => {
    const http = client();
    await http.list(configMaps);
    for (const session of front.sessions) session.destroy();
    await http.list(configMaps);
    expect(front.connections).toBe(2);
    let losses = 1;
    front.intercept = (request) => {
      if (losses-- <= 0) return false;
      request.stream.session?.destroy();
      return true;
    };
    await http.list(configMaps);
    expect(front.seen.map(({ method }) => method)).toEqual(['GET', 'GET', 'GET', 'GET']);
    losses = 1;
    await expect(http.create(configMaps, { metadata: at('a') })).rejects.toMatchObject({
      reason: 'ServiceUnavailable',
      cause: { code: 'Lost' },
    });
    expect(front.seen.filter(({ method }) => method === 'POST')).toHaveLength(1);
  });

  it('never returns a truncated response', async () => {
    front.intercept = (request, response) => {
      response.writeHead(200, { 'content-type': 'text/plain' });
      response.write('part', () => request.stream.close(constants.NGHTTP2_CANCEL));
      return true;
    };
    await expect(client().raw('GET', '/text')).rejects.toMatchObject({ reason: 'ServiceUnavailable', cause: { code: 'Lost' } });
  });

  it('repeats a write that the server did not start to process', async () => {
    let rejections = 1;
    front.intercept = (request) => {
      if (rejections-- <= 0) return false;
      request.stream.close(constants.NGHTTP2_REFUSED_STREAM);
      return true;
    };
    await client().create(configMaps, { metadata: at('a') });
    expect(front.seen).toHaveLength(2);
  });

  it('completes requests in progress after GOAWAY and starts no new ones on that connection', async () => {
    const http = client();
    let answer: (() => void) | undefined;
    front.intercept = (request, response) => {
      if (answer !== undefined) return false;
      answer = () => {
        response.writeHead(200, { 'content-type': 'application/json' });
        response.end('{"slow":true}');
      };
      request.stream.session?.goaway(constants.NGHTTP2_NO_ERROR);
      return true;
    };
    const slow = http.raw('GET', '/slow');
    await until(() => answer !== undefined);
    await vi.waitFor(async () => {
      await http.list(configMaps);
      expect(front.connections).toBe(2);
    });
    answer?.();
    expect(await slow).toEqual({ slow: true });
  });

  it('opens a further connection when watches have used all streams of one', async () => {
    front.server.updateSettings({ maxConcurrentStreams: 10 });
    const http = client();
    await http.list(configMaps);
    const abort = new AbortController();
    const watches = Array.from({ length: 5 }, async () => {
      for await (const _ of http.watch(configMaps, { signal: abort.signal, resourceVersion: '0' }));
    });
    await until(() => front.seen.length === 6);
    await http.list(configMaps);
    expect(front.connections).toBeGreaterThan(1);
    abort.abort();
    await Promise.all(watches);
  });

  it('reads the token file again when the server rejects the token', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'oarlock-token-'));
    closers.push(() => rm(folder, { recursive: true }));
    const tokenFile = join(folder, 'token');
    await writeFile(tokenFile, 'one\n');
    const http = client({ tokenFile });
    await http.list(configMaps);
    await writeFile(tokenFile, 'two\n');
    front.intercept = (_request, response, { headers }) => {
      if (headers.authorization === 'Bearer two') return false;
      response.writeHead(401);
      response.end();
      return true;
    };
    await http.list(configMaps);
    expect(front.seen.map(({ headers }) => headers.authorization)).toEqual(['Bearer one', 'Bearer one', 'Bearer two']);
    await expect(client({ token: 'three' }).list(configMaps)).rejects.toMatchObject({ reason: 'Unauthorized' });
  });

  it('aborts requests: by signal with its reason, on timeout, if the response is too long, when closed', async () => {
    front.intercept = (_request, response, { url }) => {
      if (url === '/long') {
        response.writeHead(200, { 'content-type': 'application/json' });
        response.end('x'.repeat(5000));
      }
      return true;
    };
    const abort = new AbortController();
    const aborted = client().raw('GET', '/never', undefined, { signal: abort.signal });
    await until(() => front.seen.length === 1);
    abort.abort(new Error('enough'));
    await expect(aborted).rejects.toThrow('enough');
    await expect(client({ requestTimeoutMs: 30 }).raw('GET', '/never')).rejects.toMatchObject({
      reason: 'ServiceUnavailable',
      cause: { code: 'Timeout' },
    });
    await expect(client({ maxResponseBytes: 1000 }).raw('GET', '/long')).rejects.toMatchObject({ cause: { code: 'TooLarge' } });
    const http = client();
    const closed = http.raw('GET', '/never');
    const seen = front.seen.length;
    await until(() => front.seen.length === seen + 1);
    http.close();
    await expect(closed).rejects.toMatchObject({ reason: 'ServiceUnavailable' });
    await expect(http.raw('GET', '/never')).rejects.toMatchObject({ cause: { code: 'Closed' } });
  });

  it('closes a connection that does not answer pings', async () => {
    const sockets: Socket[] = [];
    const proxy = createServer((socket) => {
      const up = connectTcp(Number(new URL(front.url).port), '127.0.0.1');
      sockets.push(socket, up);
      for (const s of [socket, up]) s.on('error', () => undefined);
      socket.pipe(up).pipe(socket);
    });
    await new Promise<void>((resolve) => {
      proxy.listen(0, '127.0.0.1', resolve);
    });
    closers.push(() => {
      proxy.close();
      for (const socket of sockets) socket.destroy();
    });
    const clock = new FakeClock();
    const http = client({ clock, server: `https://127.0.0.1:${(proxy.address() as AddressInfo).port}` });
    const abort = new AbortController();
    let failure: unknown;
    const watch = (async () => {
      for await (const _ of http.watch(configMaps, { signal: abort.signal, resourceVersion: '0' }));
    })().catch((error: unknown) => {
      failure = error;
    });
    await until(() => front.seen.length === 1);
    await until(() => clock.pending === 1);
    let pings = 0;
    for (const session of front.sessions)
      session.on('ping', () => {
        pings += 1;
      });
    await clock.advance(30_000); // received data postpones the next ping
    expect(pings).toBe(0);
    await clock.advance(10_000); // the check after 10 s was the first without new data
    await until(() => pings === 1);
    await http.list(configMaps); // its response arrives after the ping's
    await clock.advance(29_000);
    expect(failure).toBeUndefined();
    for (const socket of sockets) {
      socket.unpipe();
      socket.pause();
    }
    for (const ms of [30_000, 30_000, 15_000]) await clock.advance(ms);
    await until(() => failure !== undefined);
    expect(failure).toMatchObject({ reason: 'ServiceUnavailable', cause: { name: 'TransportError', code: 'Lost' } });
    await watch;
  });

  it('reads no more of a watch than the consumer requests', async () => {
    let sentBytes = 0;
    let held = false;
    front.intercept = (_request, response) => {
      response.writeHead(200);
      const line = `${JSON.stringify({ type: 'ADDED', object: { metadata: { name: 'x', annotations: { a: 'y'.repeat(10_000) } } } })}\n`;
      const more = () => {
        while (sentBytes < 200_000_000) {
          sentBytes += line.length;
          if (!response.write(line)) {
            held = true;
            response.once('drain', more);
            return;
          }
        }
      };
      more();
      return true;
    };
    const abort = new AbortController();
    const events = client().watch(configMaps, { signal: abort.signal })[Symbol.asyncIterator]();
    const first = await events.next();
    expect(first.value?.[0]).toMatchObject({ type: 'ADDED' });
    await until(() => held);
    const before = sentBytes;
    for (let n = 0; n < 50; n += 1)
      await new Promise<void>((resolve) => {
        setImmediate(resolve);
      });
    expect(sentBytes).toBeLessThan(10_000_000);
    expect(sentBytes - before).toBeLessThan(5_000_000);
    abort.abort();
    await events.return?.(undefined);
  });

  it('keeps informers correct across lost connections', async () => {
    const http = client({ random: () => 0 });
    const quick: Clock = { ...systemClock, sleep: (ms, signal) => systemClock.sleep(ms / 100, signal) };
    const informers = new SharedInformerFactory({ client: http, clock: quick });
    closers.push(() => informers.stop());
    const informer = informers.forResource(configMaps);
    informers.start();
    await informer.whenSynced();
    for (let n = 0; n < 20; n += 1) {
      await api.client().create(configMaps, { metadata: at(`c${n}`) });
      if (n % 4 === 1) for (const session of front.sessions) session.destroy();
      if (n % 7 === 3) api.compact();
    }
    await until(() => informer.size === 20);
    for (const session of front.sessions) session.destroy();
    await api.client().delete(configMaps, at('c0'));
    api.compact();
    await until(() => informer.size === 19);
    expect(new Set(informer.list().map(({ metadata }) => metadata?.name))).toEqual(
      new Set(api.objects(configMaps).map(({ metadata }) => metadata?.name)),
    );
  });

  it('rejects invalid options', () => {
    expect(() => httpClient({ server: 'ftp://x' })).toThrow('neither https nor http');
    expect(() => httpClient({ server: 'http://x', token: 't' })).toThrow('not sent over plain http');
    expect(new TransportError('Lost', 'x').code).toBe('Lost');
  });
});
