import { connect as connectTcp, createServer, type AddressInfo, type Socket } from 'node:net';
import { configMaps } from '@oarlock/api/resources';
import { httpClient, type HttpClient } from '@oarlock/client/http/client';
import { ServerList } from '@oarlock/client/http/server-list';
import { SharedInformerFactory } from '@oarlock/client/cache/shared-informer-factory';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { makeCertificates, type Certificates } from '../support/certificates.ts';
import { httpsFront, type HttpsFront } from '../support/https-front.ts';

/** The limit for a request after the loss of a server, in milliseconds: six times the five seconds of an idle machine, and less than the server's timeout. */
const failoverMs = 30_000;
/** Keeps the order of a list. */
const keepOrder = () => 0.999;

/** A TCP proxy before a server. `freeze` stops forwarding without closing connections, as SIGSTOP or a partition does. */
interface Gate {
  readonly url: string;
  freeze(): void;
  close(): void;
}

async function gateBefore(front: HttpsFront): Promise<Gate> {
  const sockets = new Set<Socket>();
  let frozen = false;
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    sockets.add(socket);
    if (frozen) return; // accepted by the kernel, but no byte is answered
    const up = connectTcp(Number(new URL(front.url).port), '127.0.0.1');
    up.on('error', () => undefined);
    sockets.add(up);
    socket.pipe(up).pipe(socket);
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  return {
    url: `https://127.0.0.1:${(server.address() as AddressInfo).port}`,
    freeze() {
      frozen = true;
      for (const socket of sockets) socket.unpipe().pause();
    },
    close() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

describe('client with several servers', () => {
  let certificates: Certificates;
  let api: ReturnType<typeof memoryApi>;
  let fronts: HttpsFront[];
  let gates: Gate[];
  const closers: (() => void | Promise<void>)[] = [];
  beforeAll(async () => {
    certificates = await makeCertificates();
  });
  beforeEach(async () => {
    // all servers serve the same state
    api = memoryApi({ clock: new FakeClock() });
    fronts = [];
    gates = [];
    for (let n = 0; n < 3; n += 1) {
      const front = await httpsFront(api.handler, certificates);
      const gate = await gateBefore(front);
      fronts.push(front);
      gates.push(gate);
      closers.push(
        () => front.close(),
        () => gate.close(),
      );
    }
  });
  afterEach(async () => {
    for (const close of closers.splice(0).reverse()) await close();
  });

  const serverList = () =>
    new ServerList(
      gates.map(({ url }) => url),
      { random: keepOrder },
    );
  const client = (servers: ServerList): HttpClient => {
    const http = httpClient({ server: servers.preferred, servers, ca: certificates.ca, userAgent: 'test/1' });
    closers.push(() => http.close());
    return http;
  };
  const create = (http: HttpClient, name: string) => http.create(configMaps, { metadata: { namespace: 'd', name } });
  const counts = () => fronts.map(({ connections }) => connections);

  it('uses one connection to one server', async () => {
    const http = client(serverList());
    await create(http, 'a');
    await create(http, 'b');
    expect(counts()).toEqual([1, 0, 0]);
  });

  it('sends the next request to another server after a connection loss', async () => {
    const http = client(serverList());
    await create(http, 'a');
    gates[0]?.close();
    // whether the loss or the request comes first is open: a write that may have been sent is not repeated
    await vi.waitFor(() => create(http, 'b'), { timeout: failoverMs, interval: 10 });
    expect(counts()).toEqual([1, 1, 0]);
  });

  it('leaves a server that stops answering, and repeats a GET in flight, within the limit', async () => {
    const http = client(serverList());
    await create(http, 'a');
    gates[0]?.freeze();
    const before = performance.now();
    await expect(http.get(configMaps, { namespace: 'd', name: 'a' })).resolves.toMatchObject({ metadata: { name: 'a' } });
    expect(performance.now() - before).toBeLessThan(failoverMs);
    expect(counts()).toEqual([1, 1, 0]);
  });

  it('skips a server that accepts connections but does not answer', async () => {
    gates[0]?.freeze();
    const servers = serverList();
    const before = performance.now();
    await create(client(servers), 'a');
    expect(performance.now() - before).toBeLessThan(failoverMs);
    expect(servers.preferred).toBe(gates[1]?.url);
    expect(counts()).toEqual([0, 1, 0]);
  });

  it('moves new connections of all clients that share the list', async () => {
    const servers = serverList();
    const [first, second] = [client(servers), client(servers)];
    await create(first, 'a');
    gates[0]?.close();
    await vi.waitFor(() => create(first, 'b'), { timeout: failoverMs, interval: 10 });
    await create(second, 'c');
    expect(counts()).toEqual([1, 2, 0]);
  });

  it('resumes a watch on another server from the last resourceVersion', async () => {
    const servers = serverList();
    const http = client(servers);
    const informers = new SharedInformerFactory({ client: http });
    closers.push(() => informers.stop());
    const informer = informers.forResource(configMaps);
    const seen: string[] = [];
    informer.addEventHandler({ onAdd: ({ metadata }) => void seen.push(metadata?.name ?? '') });
    informers.start();
    await informers.whenSynced();
    const writer = httpClient({ server: fronts[2]?.url ?? '', ca: certificates.ca });
    closers.push(() => writer.close());
    await create(writer, 'a');
    await vi.waitFor(() => expect(seen).toEqual(['a']), { timeout: failoverMs });
    gates[0]?.freeze();
    await create(writer, 'b');
    const before = performance.now();
    await vi.waitFor(() => expect(seen).toEqual(['a', 'b']), { timeout: failoverMs });
    expect(performance.now() - before).toBeLessThan(failoverMs);
    const resumed = fronts[1]?.seen.find(({ url }) => url.includes('watch=true'))?.url ?? '';
    expect(resumed).toMatch(/resourceVersion=\d+/);
    expect(resumed).not.toContain('sendInitialEvents');
  });
});
