import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { systemClock } from '@oarlock/primitives/clock';
import { decode, encode, type DecodedPacket, type Packet, type Question } from 'dns-packet';
import { afterEach, describe, expect, it } from 'vitest';
import { Forwarder } from '../src/forwarder.ts';

const undo: (() => void)[] = [];
afterEach(() => {
  for (const each of undo.splice(0).reverse()) each();
});

/** Starts an upstream server that sends the responses of `reply`, and a forwarder that queries it. */
async function open(reply: (query: DecodedPacket) => readonly Partial<Packet>[], cachedBytes = 10_000) {
  const socket = createSocket('udp4');
  const asked: string[] = [];
  socket.on('message', (message, { address, port }) => {
    const query = decode(message);
    const [question] = query.questions ?? [];
    asked.push(`${question?.name} ${question?.class}`);
    for (const response of reply(query))
      socket.send(
        encode({ type: 'response', id: query.id ?? 0, flags: 0x0180, questions: query.questions ?? [], ...response }),
        port,
        address,
      );
  });
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  const forwarder = new Forwarder({
    upstreams: [{ host: '127.0.0.1', port: (socket.address() as AddressInfo).port }],
    stubDomains: new Map(),
    clock: systemClock,
    timeoutMs: 60_000,
    cached: 100,
    cachedBytes,
    longestMs: 60_000,
    maxConcurrent: 10,
    randomId: () => 7,
  });
  undo.push(
    () => socket.close(),
    () => forwarder.stop(),
  );
  return {
    asked,
    ask: (name: string, more: Partial<Question> = {}, source = '10.244.0.2') =>
      forwarder.ask({ name, type: 'A', class: 'IN', ...more }, { dnssec: false, source }),
  };
}

const addressOf = ({ questions: [question] = [] }: DecodedPacket) =>
  ({ type: 'A', name: question?.name ?? '', ttl: 60, data: '192.0.2.1' }) as const;
const soa = {
  type: 'SOA',
  name: 'example',
  ttl: 60,
  data: { mname: 'a.example', rname: 'b.example', serial: 1, refresh: 1, retry: 1, expire: 1, minimum: 60 },
} as const;

describe('Forwarder', () => {
  it('caches responses up to a number of bytes, and drops the oldest', async () => {
    const { asked, ask } = await open(
      (query) => [{ answers: [addressOf(query), { type: 'TXT', name: 'x.example', ttl: 60, data: 'x'.repeat(200) }] }],
      1000,
    );
    const names = ['a', 'b', 'c', 'd', 'e'].map((name) => `${name}.example`);
    for (const name of names) await ask(name);
    for (const name of names.toReversed()) await ask(name);
    expect(asked.slice(names.length)).toEqual(['b.example IN', 'a.example IN']);
  });

  it('does not cache a response that exceeds the number of bytes alone', async () => {
    const { asked, ask } = await open((query) => [{ answers: [addressOf(query)] }], 20);
    await ask('a.example');
    await ask('a.example');
    expect(asked).toHaveLength(2);
  });

  it('does not answer a question of one class with the cached response to another', async () => {
    const { ask } = await open((query) => {
      const isInternet = query.questions?.[0]?.class === 'IN';
      return [isInternet ? { answers: [addressOf(query)] } : { authorities: [soa] }];
    });
    expect((await ask('a.example', { class: 'CH' })).answers).toEqual([]);
    expect((await ask('a.example')).answers).toMatchObject([{ data: '192.0.2.1' }]);
  });

  it('does not answer a question with the cached response to a name that differs in a character beyond ASCII', async () => {
    const kelvin = 'registry.\u212a8s.example';
    const { ask, asked } = await open((query) =>
      query.questions?.[0]?.name === kelvin ? [{ flags: 0x0183, authorities: [soa] }] : [{ answers: [addressOf(query)] }],
    );
    expect((await ask(kelvin)).answers).toEqual([]);
    expect((await ask('registry.k8s.example')).answers).toMatchObject([{ data: '192.0.2.1' }]);
    expect((await ask('REGISTRY.K8S.example')).answers).toMatchObject([{ data: '192.0.2.1' }]);
    expect(asked).toEqual([`${kelvin} IN`, 'registry.k8s.example IN']);
  });

  it('ignores responses to another question', async () => {
    const { ask } = await open((query) => {
      const forged = { answers: [{ ...addressOf(query), data: '203.0.113.66' }] };
      const question = { name: 'a.example', type: 'A', class: 'IN' } as const;
      return [
        { ...forged, questions: [{ ...question, type: 'AAAA' }] },
        { ...forged, questions: [{ ...question, class: 'CH' }] },
        { ...forged, questions: [{ ...question, name: 'b.example' }] },
        { ...forged, questions: [] },
        { answers: [addressOf(query)] },
      ];
    });
    expect((await ask('a.example')).answers).toMatchObject([{ data: '192.0.2.1' }]);
  });

  it('leaves queries to other clients if one client has as many in progress as it may, also equal ones', async () => {
    const { ask } = await open((query) => (query.questions?.[0]?.name === 'other.example' ? [{ answers: [addressOf(query)] }] : []));
    const greedy = ['a', 'b', 'c', 'c', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j'].map((name) => ask(`${name}.example`));
    const outcomes = greedy.map((each) => each.then(String, (error: Error) => error.name));
    expect((await ask('other.example', {}, '10.244.0.3')).answers).toHaveLength(1);
    for (const stop of undo.splice(0).reverse()) stop();
    expect((await Promise.all(outcomes)).filter((name) => name === 'TooManyQueries')).toHaveLength(7);
  });
});
