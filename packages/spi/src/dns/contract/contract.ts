import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { promises as dns, type ResolverOptions } from 'node:dns';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { DnsRecord, DnsServer } from '../dns.ts';

/** Access to the DNS server under test, provided by the package of the DNS server. */
export interface DnsFixture {
  /** The DNS server under test, started, without records. */
  readonly server: DnsServer;
  /** Address of the DNS server for UDP and TCP. */
  readonly endpoint: { readonly ip: string; readonly port: number };
  /** An upstream server: a name and the address it resolves to, a way to stop it, and the names it was queried for. */
  readonly upstream?: { readonly name: string; readonly address: string; stop(): Promise<void>; asked(): readonly string[] };
  /** Unsupported capabilities, each with the reason shown for the skipped tests. */
  readonly unsupported?: Partial<Readonly<Record<DnsCapability, string>>>;
  dispose(): Promise<void>;
}
export type DnsCapability = 'forward' | 'tcp' | 'ipv6' | 'srv' | 'cname';

const code = (expected: string) => expect.objectContaining({ code: expected });

/** Declares the tests that every cluster DNS server must pass (Kubernetes DNS-Based Service Discovery 1.1), over the network. */
export function dnsContract(name: string, open: () => Promise<DnsFixture>): void {
  describe(`dns/v1 contract: ${name}`, { timeout: 300_000 }, () => {
    let fixture: DnsFixture;
    let resolver: dns.Resolver;
    beforeEach(async () => {
      fixture = await open();
      resolver = resolverOf(fixture);
    });
    afterEach(async () => {
      resolver.cancel();
      await fixture.dispose();
    });
    const test = (title: string, body: () => Promise<void>, needs: readonly DnsCapability[] = []) => {
      it(title, async (context) => {
        for (const capability of needs) {
          const reason = fixture.unsupported?.[capability];
          if (reason !== undefined) context.skip(`${capability} is not supported: ${reason}`);
        }
        await body();
      });
    };
    const full = (record: string) => `${record}.${fixture.server.clusterDomain}`;
    const begin = (...set: DnsRecord[]) => fixture.server.apply({ replace: true, set, removed: [] });
    const set = (...records: DnsRecord[]) => fixture.server.apply({ replace: false, set: records, removed: [] });
    const web: DnsRecord = { name: 'web.default.svc', addresses: ['10.96.0.7'] };

    test('resolves its records', async () => {
      await begin(web, { name: 'api.prod.svc', addresses: ['10.96.0.8'] });
      expect(await resolver.resolve4(full('web.default.svc'))).toEqual(['10.96.0.7']);
      expect(await resolver.resolve4(full('api.prod.svc'))).toEqual(['10.96.0.8']);
    });

    test('ignores case, and keeps the case of the query', async () => {
      await begin(web);
      expect(await resolver.resolve4(full('WEB.Default.sVc').toUpperCase())).toEqual(['10.96.0.7']);
    });

    test('distinguishes NXDOMAIN from NODATA', async () => {
      await begin(web);
      for (const absent of ['absent.default.svc', 'web.other.svc', 'b.web.default.svc'])
        await expect(resolver.resolve4(full(absent)), absent).rejects.toEqual(code('ENOTFOUND'));
      await expect(resolver.resolve6(full(web.name))).rejects.toEqual(code('ENODATA'));
      await expect(resolver.resolveTxt(full(web.name))).rejects.toEqual(code('ENODATA'));
      // a name with names below it exists, although it has no data (RFC 8020)
      for (const between of ['default.svc', 'svc'])
        await expect(resolver.resolve4(full(between)), between).rejects.toEqual(code('ENODATA'));
    });

    test('returns every address of a headless Service, of both families', async () => {
      const addresses = Array.from({ length: 12 }, (_, n) => `10.244.0.${n + 1}`);
      await begin(
        { name: 'db.default.svc', addresses: [...addresses, 'fd00::1', 'fd00::2'] },
        { name: 'db-0.db.default.svc', addresses: ['10.244.0.1'] },
      );
      expect((await resolver.resolve4(full('db.default.svc'))).toSorted()).toEqual(addresses.toSorted());
      expect((await resolver.resolve6(full('db.default.svc'))).toSorted()).toEqual(['fd00::1', 'fd00::2']);
      expect(await resolver.resolve4(full('db-0.db.default.svc'))).toEqual(['10.244.0.1']);
    }, ['ipv6']);

    test('returns more addresses than fit into a datagram', async () => {
      const addresses = Array.from({ length: 300 }, (_, n) => `10.244.${Math.floor(n / 200)}.${(n % 200) + 1}`);
      await begin({ name: 'many.default.svc', addresses });
      expect((await resolver.resolve4(full('many.default.svc'))).toSorted()).toEqual(addresses.toSorted());
    }, ['tcp']);

    test('returns SRV records of the ports of a Service', async () => {
      await begin({
        ...web,
        srv: [
          { name: 'http', protocol: 'tcp', port: 80, target: web.name },
          { name: 'dns', protocol: 'udp', port: 53, target: web.name },
        ],
      });
      expect(await resolver.resolveSrv(full(`_http._tcp.${web.name}`))).toEqual([
        expect.objectContaining({ port: 80, name: full(web.name) }),
      ]);
      expect(await resolver.resolveSrv(full(`_dns._udp.${web.name}`))).toEqual([
        expect.objectContaining({ port: 53, name: full(web.name) }),
      ]);
      await expect(resolver.resolveSrv(full(`_http._udp.${web.name}`))).rejects.toEqual(code('ENOTFOUND'));
    }, ['srv']);

    test('returns CNAME records to names outside the cluster', async () => {
      await begin({ name: 'out.default.svc', addresses: [], cname: 'service.example' });
      expect(await resolver.resolveCname(full('out.default.svc'))).toEqual(['service.example']);
    }, ['cname']);

    test('serves the new records when apply has resolved', async () => {
      await begin(web);
      for (let round = 1; round <= 20; round++) {
        await set({ ...web, addresses: [`10.96.1.${round}`] });
        expect(await resolver.resolve4(full(web.name))).toEqual([`10.96.1.${round}`]);
      }
      await fixture.server.apply({ replace: false, set: [], removed: [web.name, 'never.was.svc'] });
      await expect(resolver.resolve4(full(web.name))).rejects.toEqual(code('ENOTFOUND'));
      await expect(resolver.resolve4(full('default.svc')), 'no name is left below it').rejects.toEqual(code('ENOTFOUND'));
    });

    test('replaces all records with replace: true', async () => {
      await begin(web, { name: 'old.default.svc', addresses: ['10.96.0.9'] });
      await begin(web);
      expect(await resolver.resolve4(full(web.name))).toEqual(['10.96.0.7']);
      await expect(resolver.resolve4(full('old.default.svc'))).rejects.toEqual(code('ENOTFOUND'));
    });

    test('never returns a part of a change, and answers during one', async () => {
      const states = [
        ['10.244.1.1', '10.244.1.2', '10.244.1.3'],
        ['10.244.2.1', '10.244.2.2', '10.244.2.3'],
      ];
      await begin({ name: 'db.default.svc', addresses: states[0] ?? [] });
      let changing = true;
      const answers: string[] = [];
      const clients = Array.from({ length: 4 }, async () => {
        while (changing) answers.push((await resolver.resolve4(full('db.default.svc'))).toSorted().join());
      });
      for (let round = 0; round < 60; round++) {
        const addresses = states[round % 2] ?? [];
        if (round % 3 === 0) await begin({ name: 'db.default.svc', addresses });
        else await set({ name: 'db.default.svc', addresses });
        await resolver.resolve4(full('db.default.svc'));
      }
      changing = false;
      await Promise.all(clients);
      expect(answers.filter((answer) => !states.some((state) => state.join() === answer))).toEqual([]);
    });

    test('answers concurrent queries', async () => {
      await begin(
        ...Array.from({ length: 500 }, (_, n) => ({
          name: `s${n}.default.svc`,
          addresses: [`10.96.${Math.floor(n / 200)}.${(n % 200) + 1}`],
        })),
      );
      for (let batch = 0; batch < 5; batch++) {
        const answers = await Promise.all(
          Array.from({ length: 100 }, (_, n) => resolver.resolve4(full(`s${batch * 100 + n}.default.svc`))),
        );
        for (const [n, answer] of answers.entries())
          expect(answer).toEqual([`10.96.${Math.floor((batch * 100 + n) / 200)}.${((batch * 100 + n) % 200) + 1}`]);
      }
    });

    test('survives malformed messages', async () => {
      await begin(web);
      const socket = createSocket(fixture.endpoint.ip.includes(':') ? 'udp6' : 'udp4');
      const header = Buffer.from('123401000001000000000000', 'hex');
      const junk = [
        Buffer.alloc(0),
        Buffer.from([1]),
        Buffer.alloc(12),
        Buffer.alloc(512, 0xff),
        Buffer.from('not dns at all, but long enough for a header'),
        // a name that points at itself, a name past the end, a name that is too long, a response, many questions
        Buffer.concat([header, Buffer.from('c00c00010001', 'hex')]),
        Buffer.concat([header, Buffer.from('3f6162', 'hex')]),
        Buffer.concat([header, Buffer.alloc(300, 1)]),
        Buffer.from('123481800001000100000000', 'hex'),
        Buffer.from('12340100ffff000000000000', 'hex'),
      ];
      for (const data of junk)
        await new Promise<void>((resolve) => {
          socket.send(data, fixture.endpoint.port, fixture.endpoint.ip, () => resolve());
        });
      expect(await resolver.resolve4(full(web.name))).toEqual(['10.96.0.7']);
      socket.close();
      await once(socket, 'close');
    });

    test('forwards other names to its upstream, and no cluster names', async () => {
      const { upstream } = fixture;
      if (upstream === undefined) throw new Error('forwarding is supported, but the fixture has no upstream');
      await begin(web);
      expect(await resolver.resolve4(upstream.name)).toEqual([upstream.address]);
      await expect(resolver.resolve4(full('absent.default.svc'))).rejects.toEqual(code('ENOTFOUND'));
      expect(upstream.asked().filter((query) => query.toLowerCase().endsWith(fixture.server.clusterDomain))).toEqual([]);
      await upstream.stop();
      // each further attempt would wait for the upstream server again
      await expect(
        resolverOf(fixture, { tries: 1 }).resolve4(upstream.name),
        'an unreachable upstream does not prove that the name does not exist',
      ).rejects.not.toEqual(code('ENOTFOUND'));
      expect(await resolver.resolve4(full(web.name))).toEqual(['10.96.0.7']);
    }, ['forward']);
  });
}

/** A stalled process or a full buffer may lose a datagram: two minutes of attempts, with a doubled timeout after each. */
const attempts = { timeout: 500, tries: 8 };

function resolverOf({ endpoint: { ip, port } }: DnsFixture, options: ResolverOptions = attempts): dns.Resolver {
  const resolver = new dns.Resolver(options);
  resolver.setServers([`${ip.includes(':') ? `[${ip}]` : ip}:${port}`]);
  return resolver;
}
