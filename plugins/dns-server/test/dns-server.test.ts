import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { promises as resolvers } from 'node:dns';
import { connect, type AddressInfo } from 'node:net';
import { silentLogger } from '@oarlock/primitives/logger';
import { systemClock } from '@oarlock/primitives/clock';
import type { DnsRecord } from '@oarlock/spi/dns';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { decode, encode, type Answer, type DecodedPacket, type OptAnswer, type Packet } from 'dns-packet';
import { afterEach, describe, expect, it } from 'vitest';
import { compressNames } from '../src/message/compress-names.ts';
import { addressOfReverse } from '../src/message/reverse-name.ts';
import { started } from './support/fixture.ts';

const undo: (() => Promise<unknown> | void)[] = [];
afterEach(async () => {
  for (const each of undo.splice(0).reverse()) await each();
});

async function open(config: Record<string, unknown> = {}, clock = systemClock) {
  const server = await started({ upstreams: [], ...config }, clock, silentLogger);
  undo.push(() => server.stop());
  // one attempt, because tests count queries; a timeout that no stall of the process reaches
  const resolver = new resolvers.Resolver({ timeout: 60_000, tries: 1 });
  resolver.setServers([`127.0.0.1:${server.port}`]);
  return { ...server, resolver, apply: (...set: DnsRecord[]) => server.server.apply({ replace: true, set, removed: [] }) };
}

/** Runs an upstream server that responds with `reply` and counts the queries. */
async function upstream(reply: (query: DecodedPacket) => Partial<Packet>) {
  const socket = createSocket('udp4');
  let asked = 0;
  socket.on('message', (message, { address, port }) => {
    asked += 1;
    const query = decode(message);
    socket.send(
      encode({ type: 'response', id: query.id ?? 0, flags: 0x0180, questions: query.questions ?? [], ...reply(query) }),
      port,
      address,
    );
  });
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  undo.push(() => {
    socket.close();
  });
  return { server: `127.0.0.1:${(socket.address() as AddressInfo).port}`, asked: () => asked };
}

async function ask(port: number, packet: Packet): Promise<DecodedPacket> {
  const socket = createSocket('udp4');
  const answer = once(socket, 'message');
  socket.send(encode(packet), port, '127.0.0.1');
  const [message] = (await answer) as [Buffer];
  socket.close();
  return decode(message);
}
const query = (name: string, type: 'A' | 'SRV' | 'TXT' = 'A', more: Partial<Packet> = {}): Packet => ({
  type: 'query',
  id: 7,
  flags: 0x0100,
  questions: [{ name, type }],
  ...more,
});

describe('names of pods and addresses', () => {
  it('resolves pod names to the addresses that they encode, and no others', async () => {
    const { resolver } = await open();
    expect(await resolver.resolve4('10-244-0-5.default.pod.cluster.local')).toEqual(['10.244.0.5']);
    expect(await resolver.resolve6('fd00--5.default.pod.cluster.local')).toEqual(['fd00::5']);
    await expect(resolver.resolve4('10-244-0-500.default.pod.cluster.local')).rejects.toMatchObject({ code: 'ENOTFOUND' });
    await expect(resolver.resolve6('10-244-0-5.default.pod.cluster.local')).rejects.toMatchObject({ code: 'ENODATA' });
  });

  it('serves the schema version', async () => {
    expect(await (await open()).resolver.resolveTxt('dns-version.cluster.local')).toEqual([['1.1.0']]);
  });

  it('resolves an address to its endpoint, or else its Service, if the name is unique', async () => {
    const { resolver, apply } = await open();
    await apply(
      { name: 'db.shop.svc', addresses: ['10.244.0.1'] },
      { name: 'db-0.db.shop.svc', addresses: ['10.244.0.1'] },
      { name: 'web.shop.svc', addresses: ['10.96.0.7', 'fd00::7'] },
      { name: 'many.shop.svc', addresses: ['10.244.0.8', '10.244.0.9'] },
    );
    expect(await resolver.reverse('10.244.0.1')).toEqual(['db-0.db.shop.svc.cluster.local']);
    expect(await resolver.reverse('10.96.0.7')).toEqual(['web.shop.svc.cluster.local']);
    expect(await resolver.reverse('fd00::7')).toEqual(['web.shop.svc.cluster.local']);
    // reverse queries within the cluster's ranges are not forwarded
    await expect(resolver.reverse('10.244.0.8')).rejects.toMatchObject({ code: 'ENOTFOUND' });
  });

  it('parses both kinds of reverse names', () => {
    expect(addressOfReverse('4.3.2.1.in-addr.arpa')).toBe('1.2.3.4');
    expect(addressOfReverse(`7.${'0.'.repeat(27)}0.0.d.f.ip6.arpa`)).toBe('fd00::7');
    expect(addressOfReverse('3.2.1.in-addr.arpa')).toBeUndefined();
  });
});

describe('responses', () => {
  it('contain the addresses of SRV targets as additional records', async () => {
    const { port, apply } = await open();
    await apply(
      { name: 'db.shop.svc', addresses: ['10.244.0.1'], srv: [{ name: 'sql', protocol: 'tcp', port: 5432, target: 'db-0.db.shop.svc' }] },
      { name: 'db-0.db.shop.svc', addresses: ['10.244.0.1'] },
    );
    const { answers, additionals } = await ask(port, query('_sql._tcp.db.shop.svc.cluster.local', 'SRV'));
    expect(answers).toMatchObject([{ type: 'SRV', data: { port: 5432, target: 'db-0.db.shop.svc.cluster.local' } }]);
    expect(additionals).toMatchObject([{ type: 'A', name: 'db-0.db.shop.svc.cluster.local', data: '10.244.0.1' }]);
  });

  it('are authoritative for the cluster domain, with a negative TTL and the RA flag', async () => {
    const { port, apply } = await open({ ttlSeconds: 9 });
    await apply({ name: 'web.shop.svc', addresses: ['10.96.0.7'] });
    expect(await ask(port, query('web.shop.svc.cluster.local'))).toMatchObject({
      flag_aa: true,
      flag_ra: true,
      flag_rd: true,
      answers: [{ ttl: 9 }],
    });
    expect(await ask(port, query('no.shop.svc.cluster.local'))).toMatchObject({ flag_aa: true, authorities: [{ type: 'SOA', ttl: 9 }] });
  });

  it('rotate the addresses', async () => {
    const { resolver, apply } = await open();
    await apply({ name: 'db.shop.svc', addresses: ['10.244.0.1', '10.244.0.2', '10.244.0.3'] });
    const firsts = new Set<string | undefined>();
    for (let round = 0; round < 3; round++) firsts.add((await resolver.resolve4('db.shop.svc.cluster.local'))[0]);
    expect(firsts.size).toBe(3);
  });

  it("fit the client's maximum size, or are truncated", async () => {
    const { port, apply } = await open();
    const addresses = Array.from({ length: 40 }, (_, n) => `10.244.1.${n + 1}`);
    await apply({ name: 'many.shop.svc', addresses });
    const plain = await ask(port, query('many.shop.svc.cluster.local'));
    expect(plain).toMatchObject({ flag_tc: true, answers: [] });
    const opt: OptAnswer = {
      type: 'OPT',
      name: '.',
      udpPayloadSize: 4096,
      extendedRcode: 0,
      ednsVersion: 0,
      flags: 0,
      flag_do: false,
      options: [],
    };
    const extended = await ask(port, query('many.shop.svc.cluster.local', 'A', { additionals: [opt] }));
    expect(extended.answers).toHaveLength(40);
    expect(extended.additionals).toMatchObject([{ type: 'OPT' }]);
  });
});

describe('names outside the cluster', () => {
  it('resolve an ExternalName to its address', async () => {
    const { server } = await upstream(({ questions = [] }) => ({
      answers: [{ type: 'A', name: questions[0]?.name ?? '', ttl: 60, data: '192.0.2.9' }],
    }));
    const { port, apply } = await open({ upstreams: [server] });
    await apply(
      { name: 'out.shop.svc', addresses: [], cname: 'db.example.com' },
      { name: 'in.shop.svc', addresses: [], cname: 'web.shop.svc.cluster.local' },
      { name: 'web.shop.svc', addresses: ['10.96.0.7'] },
    );
    expect((await ask(port, query('out.shop.svc.cluster.local'))).answers).toMatchObject([
      { type: 'CNAME', data: 'db.example.com' },
      { type: 'A', name: 'db.example.com', data: '192.0.2.9' },
    ]);
    expect((await ask(port, query('in.shop.svc.cluster.local'))).answers).toMatchObject([
      { type: 'CNAME', data: 'web.shop.svc.cluster.local' },
      { type: 'A', data: '10.96.0.7' },
    ]);
  });

  it('fail for a CNAME loop', async () => {
    const { resolver, apply } = await open();
    await apply(
      { name: 'a.shop.svc', addresses: [], cname: 'b.shop.svc.cluster.local' },
      { name: 'b.shop.svc', addresses: [], cname: 'a.shop.svc.cluster.local' },
    );
    await expect(resolver.resolve4('a.shop.svc.cluster.local')).rejects.toMatchObject({ code: 'ESERVFAIL' });
  });

  it('are cached for their TTL, which decreases, and are then queried again', async () => {
    const clock = new FakeClock();
    const { server, asked } = await upstream(({ questions = [] }) => ({
      answers: [{ type: 'A', name: questions[0]?.name ?? '', ttl: 20, data: '192.0.2.9' }],
    }));
    const { port } = await open({ upstreams: [server] }, clock);
    expect((await ask(port, query('x.example'))).answers).toMatchObject([{ ttl: 20 }]);
    await clock.advance(15_000);
    expect((await ask(port, query('x.example'))).answers).toMatchObject([{ ttl: 5 }]);
    expect(asked()).toBe(1);
    await clock.advance(5_000);
    await ask(port, query('x.example'));
    expect(asked()).toBe(2);
  });

  it('are queried from the next server when one fails; failures are not cached', async () => {
    const broken = await upstream(() => ({ flags: 0x0182 }));
    const good = await upstream(({ questions = [] }) => ({
      answers: [{ type: 'A', name: questions[0]?.name ?? '', ttl: 0, data: '192.0.2.1' }],
    }));
    const { resolver } = await open({ upstreams: [broken.server, good.server] });
    expect(await resolver.resolve4('x.example')).toEqual(['192.0.2.1']);
    expect(await resolver.resolve4('x.example')).toEqual(['192.0.2.1']);
    expect(broken.asked()).toBe(2);
  });

  it('are queried once for equal concurrent queries', async () => {
    const { server, asked } = await upstream(({ questions = [] }) => ({
      answers: [{ type: 'A', name: questions[0]?.name ?? '', ttl: 0, data: '192.0.2.1' }],
    }));
    const { port } = await open({ upstreams: [server] });
    await Promise.all(Array.from({ length: 20 }, () => ask(port, query('x.example'))));
    expect(asked()).toBeLessThan(20);
  });
});

describe('stub domains', () => {
  it('are queried for their names; the longest matching domain applies', async () => {
    const from = (address: string) =>
      upstream(({ questions = [] }) => ({ answers: [{ type: 'A', name: questions[0]?.name ?? '', ttl: 5, data: address }] }));
    const [other, corp, lab] = [await from('1.1.1.1'), await from('2.2.2.2'), await from('3.3.3.3')];
    const { resolver } = await open({
      upstreams: [other.server],
      stubDomains: { 'corp.example': [corp.server], 'lab.corp.example': [lab.server] },
    });
    expect(await resolver.resolve4('www.example')).toEqual(['1.1.1.1']);
    expect(await resolver.resolve4('notcorp.example')).toEqual(['1.1.1.1']);
    expect(await resolver.resolve4('www.corp.example')).toEqual(['2.2.2.2']);
    expect(await resolver.resolve4('a.b.lab.corp.example')).toEqual(['3.3.3.3']);
  });
});

it('stop without waiting for servers that do not respond', async () => {
  const silent = createSocket('udp4');
  const asked = once(silent, 'message');
  silent.bind(0, '127.0.0.1');
  await once(silent, 'listening');
  // the clock does not advance: a wait for a timeout would never end
  const { port, stop } = await open({ upstreams: [`127.0.0.1:${silent.address().port}`] }, new FakeClock());
  const client = createSocket('udp4');
  client.send(encode(query('x.example')), port, '127.0.0.1');
  await asked;
  await stop();
  undo.length = 0;
  client.close();
  silent.close();
});

describe('compressed response', () => {
  it('contains each name once', async () => {
    const { port, apply } = await open();
    const name = 'a-service-with-a-long-name.a-namespace-with-a-long-name.svc';
    await apply({ name, addresses: Array.from({ length: 20 }, (_, index) => `10.244.1.${index}`) });
    const socket = createSocket('udp4');
    const answer = once(socket, 'message');
    socket.send(encode(query(`${name}.cluster.local`)), port, '127.0.0.1');
    const [message] = (await answer) as [Buffer];
    socket.close();
    // header, question, and 16 bytes for each address
    expect(message.length).toBe(12 + name.length + '.cluster.local'.length + 2 + 4 + 20 * 16);
    expect(decode(message).answers?.map(({ name: each }) => each)).toEqual(Array(20).fill(`${name}.cluster.local`));
  });

  it.each([
    [
      {
        type: 'SOA',
        name: 'cluster.local',
        ttl: 5,
        data: { mname: 'ns.dns.cluster.local', rname: 'a.cluster.local', serial: 1, refresh: 2, retry: 3, expire: 4, minimum: 5 },
      },
    ],
    [{ type: 'SRV', name: '_a._tcp.b.cluster.local', ttl: 5, data: { priority: 0, weight: 1, port: 2, target: 'c.b.cluster.local' } }],
    [{ type: 'MX', name: 'b.cluster.local', ttl: 5, data: { preference: 1, exchange: 'c.b.cluster.local' } }],
    [{ type: 'TXT', name: 'b.cluster.local', ttl: 5, data: [Buffer.from('b.cluster.local')] }],
    [{ type: 'PTR', name: '1.0.244.10.in-addr.arpa', ttl: 5, data: 'c.b.cluster.local' }],
    [{ type: 'A', name: '.', ttl: 5, data: '10.0.0.1' }],
  ] as const)('with $type decodes to the same records', (record) => {
    const packet = encode({
      type: 'response',
      id: 1,
      questions: [{ type: record.type, name: record.name }],
      answers: [record as Answer, record as Answer],
      additionals: [{ type: 'A', name: 'b.cluster.local', ttl: 1, data: '10.0.0.2' }],
    });
    const smaller = compressNames(packet);
    expect(smaller.length).toBeLessThanOrEqual(packet.length);
    expect(decode(smaller)).toEqual(decode(packet));
  });
});

describe('misbehaving client', () => {
  it('receives error responses for a malformed query, several questions, and another opcode', async () => {
    const { port } = await open();
    const twice = query('a.example', 'A', {
      questions: [
        { name: 'a.example', type: 'A' },
        { name: 'b.example', type: 'A' },
      ],
    });
    expect((await ask(port, twice)).flags).toBe(0x0100 | 0x0080 | 1);
    expect(((await ask(port, query('a.example', 'A', { flags: 0x2000 }))).flags ?? 0) & 0xf).toBe(4);
  });

  it('is disconnected over TCP if a query is too long; other clients are not affected', async () => {
    const { port, resolver, apply } = await open();
    await apply({ name: 'web.shop.svc', addresses: ['10.96.0.7'] });
    const socket = connect(port, '127.0.0.1');
    await once(socket, 'connect');
    socket.write(Buffer.from([0xff, 0xff, 0]));
    await once(socket.resume(), 'close');
    expect(await resolver.resolve4('web.shop.svc.cluster.local')).toEqual(['10.96.0.7']);
  });

  it('receives the responses to all queries of one connection', async () => {
    const { port, apply } = await open();
    await apply({ name: 'web.shop.svc', addresses: ['10.96.0.7'] });
    const socket = connect(port, '127.0.0.1');
    const framed = (packet: Packet) => {
      const bytes = encode(packet);
      const length = Buffer.alloc(2);
      length.writeUInt16BE(bytes.length);
      return Buffer.concat([length, bytes]);
    };
    socket.end(Buffer.concat(Array.from({ length: 200 }, (_, id) => framed({ ...query('web.shop.svc.cluster.local'), id }))));
    const chunks: Buffer[] = [];
    for await (const chunk of socket) chunks.push(chunk as Buffer);
    const all = Buffer.concat(chunks);
    const ids = new Set<number>();
    for (let at = 0; at < all.length; at += 2 + all.readUInt16BE(at)) ids.add(all.readUInt16BE(at + 2));
    expect(ids.size).toBe(200);
  });
});
