import { createSocket, Socket as DatagramSocket } from 'node:dgram';
import { once } from 'node:events';
import { connect } from 'node:net';
import { blockListOf } from '@oarlock/api/net/block-list';
import { silentLogger } from '@oarlock/primitives/logger';
import { encode, type DecodedPacket, type Packet } from 'dns-packet';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { DnsListener } from '../src/dns-listener.ts';

const undo: (() => Promise<unknown> | void)[] = [];
afterEach(async () => {
  for (const each of undo.splice(0).reverse()) await each();
});

async function open(respond: (query: DecodedPacket) => Packet) {
  let rejected = 0;
  const listener = new DnsListener({
    address: '127.0.0.1',
    port: 0,
    clients: blockListOf(['127.0.0.0/8']),
    isNode: () => false,
    responder: { respond: async (query) => respond(query) },
    onRejectedConnection: () => (rejected += 1),
    log: silentLogger,
  });
  await listener.start();
  undo.push(() => listener.stop());
  return { port: listener.port, rejected: () => rejected };
}

const replyOf = ({ id = 0, questions = [] }: DecodedPacket, texts: readonly string[] = []): Packet => ({
  type: 'response',
  id,
  questions,
  answers: texts.map((data) => ({ type: 'TXT', name: 'a', ttl: 1, data })),
});
function queryOf(id: number): Buffer {
  const bytes = encode({ type: 'query', id, questions: [{ name: 'a', type: 'TXT' }] });
  return Buffer.concat([Buffer.from([0, bytes.length]), bytes]);
}

it('drops queries from port 0, which cannot be answered', async () => {
  const bind = vi.spyOn(DatagramSocket.prototype, 'bind');
  const { port } = await open(replyOf);
  const socket = bind.mock.contexts[0] as DatagramSocket;
  bind.mockRestore();
  const client = createSocket('udp4');
  undo.push(() => void client.close());
  const query = queryOf(7).subarray(2);
  socket.emit('message', query, { address: '127.0.0.1', port: 0 });
  client.send(query, port, '127.0.0.1');
  const [answer] = (await once(client, 'message')) as [Buffer];
  expect(answer.readUInt16BE(0)).toBe(7);
});

describe('TCP connections of one client', () => {
  const isAnswered = (port: number, localAddress: string) => {
    const socket = connect({ host: '127.0.0.1', port, localAddress });
    undo.push(() => void socket.destroy());
    socket.on('error', () => {}); // a reset
    socket.write(queryOf(1));
    return new Promise<boolean>((resolve) => {
      socket.once('data', () => resolve(true));
      socket.once('close', () => resolve(false));
    });
  };

  it('leave half of the places to other clients, and are counted when they are rejected', async () => {
    const { port, rejected } = await open(replyOf);
    const answered: boolean[] = [];
    for (let count = 0; count < 130; count++) answered.push(await isAnswered(port, '127.0.0.2'));
    expect([answered.filter(Boolean).length, rejected()]).toEqual([128, 2]);
    expect(await isAnswered(port, '127.0.0.3')).toBe(true);
  });
});

describe('a client that does not read responses', () => {
  it('receives them when it reads, and makes the server prepare few of them before', async () => {
    const texts = Array.from({ length: 240 }, () => 'x'.repeat(250));
    const [total, size] = [2000, 60_000];
    let responses = 0;
    const { port } = await open((query) => {
      responses += 1;
      return replyOf(query, texts);
    });
    const socket = connect({ host: '127.0.0.1', port });
    undo.push(() => void socket.destroy());
    socket.end(Buffer.concat(Array.from({ length: total }, (_, id) => queryOf(id))));
    let [received, prepared] = [0, 0];
    for await (const chunk of socket) {
      received += (chunk as Buffer).length;
      prepared = Math.max(prepared, responses - received / size);
    }
    expect(responses).toBe(total);
    expect(received).toBeGreaterThan(total * size);
    expect(prepared).toBeLessThan(500);
  });
});
