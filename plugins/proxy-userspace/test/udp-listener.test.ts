import { createSocket, Socket, type RemoteInfo } from 'node:dgram';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { endpoint, servicePort } from '@oarlock/spi/proxy/contract';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { Balancer } from '../src/balancer.ts';
import { UdpListener } from '../src/udp-listener.ts';

const undo: (() => unknown)[] = [];
afterEach(async () => {
  for (const each of undo.splice(0).reverse()) await each();
});

async function open(address: string): Promise<Socket> {
  const socket = createSocket('udp4');
  socket.bind(0, address);
  await once(socket, 'listening');
  undo.push(() => socket.close());
  return socket;
}
const portOf = (socket: Socket) => (socket.address() as AddressInfo).port;
const nextMessage = async (socket: Socket) => (await once(socket, 'message')) as [Buffer, RemoteInfo];

describe.runIf(process.platform === 'linux')('UdpListener', () => {
  const service = { ip: '127.97.9.7', port: 5300 };

  it('passes on responses of the endpoint only, not of others that guess the port of a flow', async () => {
    const [backend, attacker, client] = [await open('127.130.9.7'), await open('127.0.0.1'), await open('127.0.0.1')];
    const clock = new FakeClock();
    const endpoints = [endpoint('127.130.9.7', portOf(backend))];
    const balancer = new Balancer(servicePort('d/dns:dns', { port: service.port, clusterIPs: [service.ip], endpoints }), clock);
    const listener = await UdpListener.open(service.ip, { port: service.port, balancer, frontend: 'cluster', clock });
    undo.push(() => listener.close());
    client.send('query', service.port, service.ip);
    const [, flow] = await nextMessage(backend);
    attacker.send('forged', flow.port, '127.0.0.1');
    attacker.send('forged', flow.port, flow.address);
    backend.send('honest', flow.port, flow.address);
    const [response, { address }] = await nextMessage(client);
    expect([response.toString(), address]).toEqual(['honest', service.ip]);
  });

  it('drops datagrams from port 0, which cannot be answered', async () => {
    const [backend, client] = [await open('127.130.9.7'), await open('127.0.0.1')];
    const clock = new FakeClock();
    const endpoints = [endpoint('127.130.9.7', portOf(backend))];
    const balancer = new Balancer(servicePort('d/dns:dns', { port: service.port, clusterIPs: [service.ip], endpoints }), clock);
    const bind = vi.spyOn(Socket.prototype, 'bind');
    const listener = await UdpListener.open(service.ip, { port: service.port, balancer, frontend: 'cluster', clock });
    undo.push(() => listener.close());
    const socket = bind.mock.contexts[0] as Socket;
    bind.mockRestore();
    backend.on('message', (query, { address, port }) => backend.send(`answer to ${String(query)}`, port, address));
    socket.emit('message', Buffer.from('forged'), { address: '127.0.0.1', port: 0 });
    client.send('query', service.port, service.ip);
    expect(String((await nextMessage(client))[0])).toBe('answer to query');
  });
});
