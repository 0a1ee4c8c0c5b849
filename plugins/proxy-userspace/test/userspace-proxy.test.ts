import { once } from 'node:events';
import { createServer, connect, type Server } from 'node:net';
import type { Logger } from '@oarlock/primitives/logger';
import { endpoint, servicePort } from '@oarlock/spi/proxy/contract';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Balancer } from '../src/balancer.ts';
import { UserspaceProxy } from '../src/userspace-proxy.ts';

const port = (more: Partial<Parameters<typeof servicePort>[1]> = {}) =>
  servicePort('d/web:http', {
    port: 80,
    clusterIPs: ['127.97.9.1'],
    endpoints: [endpoint('127.130.9.1', 8080), endpoint('127.130.9.2', 8080)],
    ...more,
  });

describe('the balancer', () => {
  let clock: FakeClock;
  beforeEach(() => {
    clock = new FakeClock();
  });

  it('takes one after the other, and goes on where it was when the endpoints change', () => {
    const balancer = new Balancer(port(), clock);
    expect([1, 2, 3, 4].map(() => balancer.pick('c', 'cluster')?.ip)).toEqual(['127.130.9.1', '127.130.9.2', '127.130.9.1', '127.130.9.2']);
    balancer.update(port({ endpoints: [endpoint('127.130.9.3', 8080)] }));
    expect(balancer.pick('c', 'cluster')?.ip).toBe('127.130.9.3');
    balancer.update(port({ endpoints: [] }));
    expect(balancer.pick('c', 'cluster')).toBeUndefined();
  });

  it('forgets a client after its time, counted from its last connection', async () => {
    const balancer = new Balancer(port({ affinitySeconds: 10 }), clock);
    const first = balancer.pick('c', 'cluster')?.ip;
    await clock.advance(9_000);
    expect(balancer.pick('c', 'cluster')?.ip).toBe(first);
    await clock.advance(9_000);
    expect(balancer.pick('c', 'cluster')?.ip).toBe(first);
    await clock.advance(10_001);
    expect(balancer.pick('c', 'cluster')?.ip).not.toBe(first);
  });

  it('asks for the source at load balancer addresses only, of both families', () => {
    const balancer = new Balancer(port({ loadBalancerSourceRanges: ['192.0.2.0/24', '2001:db8::/32'] }), clock);
    const doors = (client: string) =>
      (['cluster', 'external', 'load-balancer'] as const).map((door) => balancer.pick(client, door) !== undefined);
    expect(doors('192.0.2.9')).toEqual([true, true, true]);
    expect(doors('198.51.100.9')).toEqual([true, true, false]);
    expect(doors('2001:db8::7')).toEqual([true, true, true]);
    expect(doors('2001:db9::7')).toEqual([true, true, false]);
  });
});

describe.runIf(process.platform === 'linux')('the userspace proxy', () => {
  let proxy: UserspaceProxy;
  let warned: Record<string, unknown>[];
  let servers: Server[];
  beforeEach(() => {
    warned = [];
    servers = [];
    const log: Logger = {
      debug() {},
      info() {},
      error() {},
      warn: (fields) => {
        warned.push(fields);
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

  it('goes on to the next endpoint when one does not take connections', async () => {
    await serve('127.130.9.2');
    await proxy.apply({
      replace: true,
      removed: [],
      set: [port({ port: 28_081, endpoints: [endpoint('127.130.9.1', 28_080), endpoint('127.130.9.2', 28_080)] })],
    });
    for (let round = 0; round < 4; round++) expect(await dial('127.97.9.1', 28_081)).toBe('127.130.9.2');
  });

  it('resets a connection that no endpoint takes', async () => {
    await proxy.apply({ replace: true, removed: [], set: [port({ port: 28_082, endpoints: [endpoint('127.130.9.1', 28_080)] })] });
    expect(await dial('127.97.9.1', 28_082)).toBe('ECONNRESET');
  });

  it('says which address it cannot serve, and serves the others', async () => {
    await serve('127.130.9.1');
    await proxy.apply({
      replace: true,
      removed: [],
      set: [port({ port: 28_083, clusterIPs: ['203.0.113.7', '127.97.9.1'], endpoints: [endpoint('127.130.9.1', 28_080)] })],
    });
    expect(warned).toEqual([{ service: 'd/web:http', address: '203.0.113.7:28083', error: 'the address is not one of this host' }]);
    expect(await dial('127.97.9.1', 28_083)).toBe('127.130.9.1');
  });

  it('says that SCTP is not served', async () => {
    await proxy.apply({ replace: true, removed: [], set: [port({ protocol: 'SCTP' })] });
    expect(warned).toHaveLength(1);
  });
});
