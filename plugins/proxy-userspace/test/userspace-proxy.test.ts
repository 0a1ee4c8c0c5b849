import { once } from 'node:events';
import { createServer, connect, type Server } from 'node:net';
import type { Logger } from '@oarlock/primitives/logger';
import { endpoint, servicePort } from '@oarlock/spi/proxy/contract';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Balancer } from '../src/balancer.ts';
import { TcpListener } from '../src/tcp-listener.ts';
import { UserspaceProxy } from '../src/userspace-proxy.ts';

const port = (more: Partial<Parameters<typeof servicePort>[1]> = {}) =>
  servicePort('d/web:http', {
    port: 80,
    clusterIPs: ['127.97.9.1'],
    endpoints: [endpoint('127.130.9.1', 8080), endpoint('127.130.9.2', 8080)],
    ...more,
  });

describe('balancer', () => {
  let clock: FakeClock;
  beforeEach(() => {
    clock = new FakeClock();
  });

  it('selects endpoints in turn, and continues after a change of the endpoints', () => {
    const balancer = new Balancer(port(), clock);
    expect([1, 2, 3, 4].map(() => balancer.pick('c', 'cluster')?.ip)).toEqual(['127.130.9.1', '127.130.9.2', '127.130.9.1', '127.130.9.2']);
    balancer.update(port({ endpoints: [endpoint('127.130.9.3', 8080)] }));
    expect(balancer.pick('c', 'cluster')?.ip).toBe('127.130.9.3');
    balancer.update(port({ endpoints: [] }));
    expect(balancer.pick('c', 'cluster')).toBeUndefined();
  });

  it('forgets a client after the timeout, counted from its last connection', async () => {
    const balancer = new Balancer(port({ affinitySeconds: 10 }), clock);
    const first = balancer.pick('c', 'cluster')?.ip;
    await clock.advance(9_000);
    expect(balancer.pick('c', 'cluster')?.ip).toBe(first);
    await clock.advance(9_000);
    expect(balancer.pick('c', 'cluster')?.ip).toBe(first);
    await clock.advance(10_001);
    expect(balancer.pick('c', 'cluster')?.ip).not.toBe(first);
  });

  it('checks source ranges at load balancer addresses only, of both families', () => {
    const balancer = new Balancer(port({ loadBalancerSourceRanges: ['192.0.2.0/24', '2001:db8::/32'] }), clock);
    const frontends = (client: string) =>
      (['cluster', 'external', 'load-balancer'] as const).map((frontend) => balancer.pick(client, frontend) !== undefined);
    expect(frontends('192.0.2.9')).toEqual([true, true, true]);
    expect(frontends('198.51.100.9')).toEqual([true, true, false]);
    expect(frontends('2001:db8::7')).toEqual([true, true, true]);
    expect(frontends('2001:db9::7')).toEqual([true, true, false]);
  });
});

describe.runIf(process.platform === 'linux')('userspace proxy', () => {
  let proxy: UserspaceProxy;
  let warned: Record<string, unknown>[];
  let messages: string[];
  let servers: Server[];
  beforeEach(() => {
    warned = [];
    messages = [];
    servers = [];
    const log: Logger = {
      debug() {},
      info() {},
      error() {},
      warn: (fields, message) => {
        warned.push(fields);
        messages.push(message);
      },
      child: () => log,
    };
    proxy = new UserspaceProxy({ clock: new FakeClock(), log, nodePortAddress: '127.0.0.1' });
  });
  afterEach(async () => {
    await proxy.stop();
    for (const server of servers) server.close();
  });

  const serve = async (ip: string) => {
    const server = createServer((socket) => {
      socket.end(ip);
    }).listen({ host: ip, port: 28_080 });
    servers.push(server);
    await once(server, 'listening');
  };
  const dial = async (ip: string, number: number) => {
    const socket = connect({ host: ip, port: number });
    const chunks: Buffer[] = [];
    socket.on('data', (data: Buffer) => {
      chunks.push(data);
    });
    const [error] = await Promise.race([once(socket, 'close').then(() => []), once(socket, 'error') as Promise<NodeJS.ErrnoException[]>]);
    return error?.code ?? Buffer.concat(chunks).toString();
  };

  it('tries the next endpoint if a connection fails', async () => {
    await serve('127.130.9.2');
    await proxy.apply({
      replace: true,
      removed: [],
      set: [port({ port: 28_081, endpoints: [endpoint('127.130.9.1', 28_080), endpoint('127.130.9.2', 28_080)] })],
    });
    for (let round = 0; round < 4; round++) expect(await dial('127.97.9.1', 28_081)).toBe('127.130.9.2');
  });

  it('resets a connection if no endpoint accepts it', async () => {
    await proxy.apply({ replace: true, removed: [], set: [port({ port: 28_082, endpoints: [endpoint('127.130.9.1', 28_080)] })] });
    expect(await dial('127.97.9.1', 28_082)).toBe('ECONNRESET');
  });

  it('logs addresses on which it cannot listen, and serves the others', async () => {
    await serve('127.130.9.1');
    await proxy.apply({
      replace: true,
      removed: [],
      set: [port({ port: 28_083, clusterIPs: ['203.0.113.7', '127.97.9.1'], endpoints: [endpoint('127.130.9.1', 28_080)] })],
    });
    expect(warned).toEqual([{ service: 'd/web:http', address: '203.0.113.7:28083', error: 'the address is not local to this host' }]);
    expect(await dial('127.97.9.1', 28_083)).toBe('127.130.9.1');
  });

  it('logs once that privileged ports need root or a sysctl', async () => {
    const open = vi.spyOn(TcpListener, 'open').mockRejectedValue(Object.assign(new Error('listen'), { code: 'EACCES' }));
    await proxy.apply({ replace: true, removed: [], set: [port({ clusterIPs: ['127.97.9.1', '127.97.9.2'] })] });
    await proxy.apply({ replace: false, removed: [], set: [port({ port: 81 })] });
    expect(open).toHaveBeenCalledTimes(3);
    open.mockRestore();
    expect(warned).toEqual([{ service: 'd/web:http', address: '127.97.9.1:80' }]);
    expect(messages).toEqual([expect.stringContaining('sudo sysctl net.ipv4.ip_unprivileged_port_start=53')]);
  });

  it('logs that SCTP is not supported', async () => {
    await proxy.apply({ replace: true, removed: [], set: [port({ protocol: 'SCTP' })] });
    expect(warned).toHaveLength(1);
  });
});
