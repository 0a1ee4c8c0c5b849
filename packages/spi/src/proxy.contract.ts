import { once } from 'node:events';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { endpoint, ProxyBench, servicePort, type ProxyCapability, type ProxyFixture } from './proxy.contract.bench.ts';
import type { ServicePort } from './proxy.ts';

export { endpoint, servicePort, type ProxyCapability, type ProxyFixture } from './proxy.contract.bench.ts';

const enough = 60; // connections after which random choice has met each of three endpoints, but for one case in 10^10

/** What every service proxy promises, with real servers and real connections. Each test opens a fixture of its own. */
export function proxyContract(
  name: string,
  open: () => Promise<ProxyFixture>,
  { unavailable }: { readonly unavailable?: string } = {},
): void {
  describe(`proxy/v1 contract: ${name}`, { timeout: 300_000 }, () => {
    if (unavailable !== undefined) {
      it('runs on this machine', (context) => {
        context.skip(unavailable);
      });
      return;
    }
    let bench: ProxyBench;
    beforeEach(async () => {
      bench = new ProxyBench(await open());
    }, 300_000);
    afterEach(() => bench.close());
    const test = (title: string, body: (bench: ProxyBench) => Promise<void>, needs: readonly ProxyCapability[] = []) => {
      it(title, async (context) => {
        for (const capability of needs) {
          const reason = bench.fixture.lacks?.[capability];
          if (reason !== undefined) context.skip(`${capability} is not claimed: ${reason}`);
        }
        await body(bench);
      });
    };
    const set = (...ports: ServicePort[]) => bench.proxy.apply({ replace: false, set: ports, removed: [] });
    const begin = (...ports: ServicePort[]) => bench.proxy.apply({ replace: true, set: ports, removed: [] });
    const remove = (...removed: string[]) => bench.proxy.apply({ replace: false, set: [], removed });
    const pods = (...indexes: number[]) => indexes.map((index) => bench.pod(index));
    const names = (spread: ReadonlyMap<string, number>) => [...spread.keys()].sort();
    /** A Service `d/web` at the first service address, over `endpoints`. */
    const web = (endpoints: ServicePort['endpoints'], more: Partial<ServicePort> = {}) =>
      servicePort('d/web:http', { port: 80, clusterIPs: [bench.service(0)], endpoints, ...more });
    const moved = (port: ServicePort, number: number): ServicePort => ({ ...port, port: number });

    test('reaches every endpoint, and only those', async () => {
      const endpoints = await bench.serve(pods(0, 1, 2));
      const port = moved(web(endpoints.slice(0, 2)), bench.freshPort());
      await begin(port);
      expect(names(await bench.spread(bench.service(0), port.port, enough))).toEqual(pods(0, 1).sort());
      await set({ ...port, endpoints });
      expect(names(await bench.spread(bench.service(0), port.port, enough))).toEqual(pods(0, 1, 2).sort());
    });

    test('carries what is sent, both ways, and the end of each direction by itself', async () => {
      const endpoints = await bench.serve(pods(0));
      const port = moved(web(endpoints), bench.freshPort());
      await begin(port);
      const { socket } = bench.open(bench.service(0), port.port);
      const sent = Buffer.alloc(1 << 20, 'abcdefghijklmnopqrstuvwxyz0123456789');
      const received: Buffer[] = [];
      socket.on('data', (data: Buffer) => {
        received.push(data);
      });
      socket.end(sent);
      await once(socket, 'end');
      const whole = Buffer.concat(received);
      const from = whole.indexOf('\n') + 1;
      expect(whole.subarray(0, from).toString()).toBe(`${bench.pod(0)}\n`);
      expect(whole.subarray(from).equals(sent)).toBe(true);
    });

    test('refuses no connection while the endpoints of a Service are exchanged', async () => {
      const endpoints = await bench.serve(pods(0, 1, 2, 3));
      const port = moved(web(endpoints.slice(0, 2)), bench.freshPort());
      await begin(port);
      const outcomes: string[] = [];
      let changing = true;
      let tell = () => {};
      const clients = Array.from({ length: 4 }, async () => {
        while (changing) {
          const outcome = await bench.dial(bench.service(0), port.port);
          outcomes.push('by' in outcome ? outcome.by : JSON.stringify(outcome));
          tell();
        }
      });
      for (let round = 0; round < 40; round++) {
        const first = round % 4;
        await set({ ...port, endpoints: [0, 1].map((offset) => endpoints[(first + offset) % 4] ?? endpoint('', 0)) });
        // some connections under each state, and some under way during each change
        const seen = outcomes.length;
        while (outcomes.length < seen + 3)
          await new Promise<void>((resolve) => {
            tell = resolve;
          });
      }
      changing = false;
      await Promise.all(clients);
      expect(outcomes.filter((outcome) => !bench.fixture.podAddresses.includes(outcome))).toEqual([]);
    });

    test('has changed when apply has returned', async () => {
      const endpoints = await bench.serve(pods(0, 1));
      const port = moved(web(endpoints.slice(0, 1)), bench.freshPort());
      await begin(port);
      for (let round = 0; round < 12; round++) {
        const only = endpoints[round % 2] ?? endpoint('', 0);
        await set({ ...port, endpoints: [only] });
        expect(await bench.dial(bench.service(0), port.port)).toEqual({ by: only.ip });
      }
    });

    test('leaves connections to endpoints that stay alone', async () => {
      const endpoints = await bench.serve(pods(0, 1));
      const port = moved(web(endpoints.slice(0, 1)), bench.freshPort());
      await begin(port);
      const { socket, answer } = bench.open(bench.service(0), port.port);
      expect(await answer).toEqual({ by: bench.pod(0) });
      await set({ ...port, endpoints });
      await set({ ...port, endpoints, ...(bench.fixture.lacks?.affinity === undefined && { affinitySeconds: 600 }) });
      await set({ ...port, endpoints: endpoints.slice(0, 1) });
      await set({ ...port, endpoints: endpoints.slice(0, 1) });
      const echo = new Promise<string>((resolve) => {
        socket.once('data', (data: Buffer) => resolve(data.toString()));
        for (const end of ['end', 'close'] as const) socket.once(end, () => resolve('the end of the connection'));
        if (socket.destroyed || socket.readableEnded) resolve('the end of the connection');
      });
      socket.write('still there');
      expect(await echo).toBe('still there');
    });

    test('turns clients away at once where a Service has no endpoints, and serves again when it has', async () => {
      const endpoints = await bench.serve(pods(0));
      const port = moved(web([]), bench.freshPort());
      await begin(port);
      const outcome = await bench.dial(bench.service(0), port.port);
      expect(outcome, 'no answer at all makes clients wait').toHaveProperty('refused');
      await set({ ...port, endpoints });
      expect(await bench.dial(bench.service(0), port.port)).toEqual({ by: bench.pod(0) });
      await set(port);
      expect(await bench.dial(bench.service(0), port.port)).toHaveProperty('refused');
    });

    test('no longer serves what was removed, and serves it again when it comes back', async () => {
      const endpoints = await bench.serve(pods(0, 1));
      const port = moved(web(endpoints), bench.freshPort());
      await begin(port);
      expect(await bench.dial(bench.service(0), port.port)).toHaveProperty('by');
      await remove(port.key);
      expect(await bench.unserved(bench.service(0), port.port)).toBe(true);
      await remove(port.key);
      await remove('d/never-was:x');
      await set(port);
      expect(await bench.dial(bench.service(0), port.port)).toHaveProperty('by');
    });

    test('keeps Services apart: ports of one address, and addresses of one port', async () => {
      const [one, two, three] = await Promise.all([bench.serve(pods(0)), bench.serve(pods(1)), bench.serve(pods(2))]);
      const [a, b] = [bench.freshPort(), bench.freshPort()];
      await begin(
        servicePort('d/web:http', { port: a, clusterIPs: [bench.service(0)], endpoints: one }),
        servicePort('d/web:https', { port: b, clusterIPs: [bench.service(0)], endpoints: two }),
        servicePort('d/api:http', { port: a, clusterIPs: [bench.service(1)], endpoints: three }),
      );
      expect(await bench.dial(bench.service(0), a)).toEqual({ by: bench.pod(0) });
      expect(await bench.dial(bench.service(0), b)).toEqual({ by: bench.pod(1) });
      expect(await bench.dial(bench.service(1), a)).toEqual({ by: bench.pod(2) });
      await remove('d/web:http');
      expect(await bench.unserved(bench.service(0), a)).toBe(true);
      expect(await bench.dial(bench.service(0), b)).toEqual({ by: bench.pod(1) });
      expect(await bench.dial(bench.service(1), a)).toEqual({ by: bench.pod(2) });
    });

    test('follows a Service to another port and another address', async () => {
      const endpoints = await bench.serve(pods(0));
      const [a, b] = [bench.freshPort(), bench.freshPort()];
      await begin(moved(web(endpoints), a));
      await set(moved(web(endpoints), b));
      expect(await bench.unserved(bench.service(0), a)).toBe(true);
      expect(await bench.dial(bench.service(0), b)).toEqual({ by: bench.pod(0) });
      await set(moved(web(endpoints, { clusterIPs: [bench.service(1)] }), b));
      expect(await bench.unserved(bench.service(0), b)).toBe(true);
      expect(await bench.dial(bench.service(1), b)).toEqual({ by: bench.pod(0) });
    });

    test('hands an address over from one Service to another in one change', async () => {
      const [one, two] = await Promise.all([bench.serve(pods(0)), bench.serve(pods(1))]);
      const number = bench.freshPort();
      await begin(moved(web(one), number));
      await bench.proxy.apply({
        replace: false,
        removed: ['d/web:http'],
        set: [servicePort('d/heir:http', { port: number, clusterIPs: [bench.service(0)], endpoints: two })],
      });
      expect(await bench.dial(bench.service(0), number)).toEqual({ by: bench.pod(1) });
    });

    test('lets two Services exchange their addresses in one change, in either order', async () => {
      const [one, two] = await Promise.all([bench.serve(pods(0)), bench.serve(pods(1))]);
      const number = bench.freshPort();
      const at = (key: string, address: number, endpoints: ServicePort['endpoints']) =>
        servicePort(key, { port: number, clusterIPs: [bench.service(address)], endpoints });
      await begin(at('d/a:http', 0, one), at('d/b:http', 1, two));
      await set(at('d/a:http', 1, one), at('d/b:http', 0, two));
      expect(await bench.dial(bench.service(1), number)).toEqual({ by: bench.pod(0) });
      expect(await bench.dial(bench.service(0), number)).toEqual({ by: bench.pod(1) });
      await set(at('d/b:http', 1, two), at('d/a:http', 0, one));
      expect(await bench.dial(bench.service(0), number)).toEqual({ by: bench.pod(0) });
      expect(await bench.dial(bench.service(1), number)).toEqual({ by: bench.pod(1) });
    });

    test('replaces everything that was before, and drops nothing that is in both', async () => {
      const [one, two] = await Promise.all([bench.serve(pods(0)), bench.serve(pods(1))]);
      const [a, b] = [bench.freshPort(), bench.freshPort()];
      const stays = moved(web(one), a);
      const goes = servicePort('d/old:http', { port: b, clusterIPs: [bench.service(1)], endpoints: two });
      await begin(stays, goes);
      expect(await bench.dial(bench.service(1), b)).toEqual({ by: bench.pod(1) });
      await begin(stays);
      expect(await bench.dial(bench.service(0), a)).toEqual({ by: bench.pod(0) });
      expect(await bench.unserved(bench.service(1), b)).toBe(true);
      await begin();
      expect(await bench.unserved(bench.service(0), a)).toBe(true);
    });

    it('takes over from the process before it', async (context) => {
      if (bench.fixture.restart === undefined) context.skip('nothing of it outlives its process');
      const [one, two] = await Promise.all([bench.serve(pods(0)), bench.serve(pods(1))]);
      const [a, b] = [bench.freshPort(), bench.freshPort()];
      await begin(moved(web(one), a), servicePort('d/old:http', { port: b, clusterIPs: [bench.service(1)], endpoints: two }));
      await bench.restart();
      await begin(moved(web(two), a));
      expect(await bench.dial(bench.service(0), a)).toEqual({ by: bench.pod(1) });
      expect(await bench.unserved(bench.service(1), b)).toBe(true);
    });

    test('serves two hundred Services that come and go in one change', async () => {
      const endpoints = await bench.serve(pods(0, 1));
      const first = bench.freshPort();
      const many = Array.from({ length: 200 }, (_, index) =>
        servicePort(`d/s${index}:http`, { port: first + index, clusterIPs: [bench.service(index % 4)], endpoints }),
      );
      await begin(...many);
      for (const index of [0, 57, 123, 199]) expect(await bench.dial(bench.service(index % 4), first + index)).toHaveProperty('by');
      await remove(...many.slice(1).map(({ key }) => key));
      expect(await bench.dial(bench.service(0), first)).toHaveProperty('by');
      expect(await bench.unserved(bench.service(3), first + 199)).toBe(true);
      await begin();
      const before = await bench.fixture.census?.();
      await begin(...many);
      await remove(...many.map(({ key }) => key));
      await expect.poll(() => bench.fixture.census?.()).toEqual(before);
    });

    test('leaves nothing behind when a Service changes in every way and goes', async () => {
      const endpoints = await bench.serve(pods(0, 1, 2));
      await begin();
      const before = await bench.fixture.census?.();
      const has = (capability: ProxyCapability) => bench.fixture.lacks?.[capability] === undefined;
      let port = moved(web(endpoints), bench.freshPort());
      const { nodePorts, externalAddress } = bench.fixture;
      const changes: Partial<ServicePort>[] = [
        { endpoints: endpoints.slice(1) },
        { endpoints: [] },
        { endpoints },
        { port: bench.freshPort() },
        { clusterIPs: [bench.service(1)] },
        { internalLocal: true },
        { externalLocal: true },
        { internalLocal: false, externalLocal: false },
        ...(has('affinity') ? [{ affinitySeconds: 60 }, { endpoints: endpoints.slice(0, 1) }, { affinitySeconds: 30 }] : []),
        ...(has('nodePort') && nodePorts ? [{ nodePort: nodePorts.ports[0] }, { nodePort: nodePorts.ports[1] }] : []),
        ...(has('external') && externalAddress !== undefined ? [{ externalIPs: [externalAddress] }, { externalIPs: [] }] : []),
        ...(has('udp') ? [{ protocol: 'UDP' as const }] : []),
      ];
      await set(port);
      for (const change of changes) await set((port = { ...port, ...change }));
      const { affinitySeconds: _, nodePort: __, ...plain } = port;
      await set((port = plain));
      await remove(port.key);
      await expect.poll(() => bench.fixture.census?.()).toEqual(before);
    });

    test("keeps to this node's endpoints where the policy says Local", async () => {
      const endpoints = await bench.serve(pods(0, 1, 2));
      const mixed = endpoints.map((each, index) => ({ ...each, local: index === 1 }));
      const port = moved(web(mixed, { internalLocal: true }), bench.freshPort());
      await begin(port);
      expect(names(await bench.spread(bench.service(0), port.port, 20))).toEqual(pods(1));
      await set({ ...port, endpoints: mixed.map((each) => ({ ...each, local: false })) });
      expect(await bench.dial(bench.service(0), port.port), 'nothing local: nobody answers').not.toHaveProperty('by');
      await set({ ...port, internalLocal: false });
      expect(names(await bench.spread(bench.service(0), port.port, enough))).toEqual(pods(0, 1, 2).sort());
    });

    test('serves external addresses, with a policy of their own', async () => {
      const { externalAddress = '' } = bench.fixture;
      const endpoints = (await bench.serve(pods(0, 1))).map((each, index) => ({ ...each, local: index === 0 }));
      const port = moved(web(endpoints, { externalIPs: [externalAddress], internalLocal: true }), bench.freshPort());
      await begin(port);
      expect(names(await bench.spread(bench.service(0), port.port, 20))).toEqual(pods(0));
      expect(names(await bench.spread(externalAddress, port.port, enough))).toEqual(pods(0, 1).sort());
      // where the policy is Local, a proxy may still let this node itself reach all
      await set({ ...port, externalLocal: true });
      expect(names(await bench.spread(externalAddress, port.port, enough))).toContain(bench.pod(0));
      await set({ ...port, externalIPs: [] });
      expect(await bench.unserved(externalAddress, port.port)).toBe(true);
      expect(await bench.dial(bench.service(0), port.port)).toHaveProperty('by');
    }, ['external']);

    test('lets only the stated sources reach a load balancer address', async () => {
      const { externalAddress = '', clientAddresses: [one, two] = ['', ''] } = bench.fixture;
      const endpoints = await bench.serve(pods(0));
      const port = moved(
        web(endpoints, { loadBalancerIPs: [externalAddress], loadBalancerSourceRanges: [`${one}/${one.includes(':') ? 128 : 32}`] }),
        bench.freshPort(),
      );
      await begin(port);
      expect(await bench.dial(externalAddress, port.port, one)).toHaveProperty('by');
      const { socket, answer } = bench.open(externalAddress, port.port, two);
      const outcome = await Promise.race([
        answer,
        new Promise((resolve) => {
          setTimeout(() => resolve({ dropped: true }), 700);
        }),
      ]);
      socket.destroy();
      expect(outcome).not.toHaveProperty('by');
      expect(await bench.dial(bench.service(0), port.port, two), 'the cluster address is open to all').toHaveProperty('by');
    }, ['external', 'sourceRanges']);

    test('serves node ports, and moves them', async () => {
      const {
        address,
        ports: [first, second],
      } = bench.fixture.nodePorts ?? { address: '', ports: [0, 0] };
      const endpoints = await bench.serve(pods(0, 1));
      const port = moved(web(endpoints, { nodePort: first }), bench.freshPort());
      await begin(port);
      expect(names(await bench.spread(address, first, enough))).toEqual(pods(0, 1).sort());
      await set({ ...port, nodePort: second });
      expect(await bench.unserved(address, first)).toBe(true);
      expect(await bench.dial(address, second)).toHaveProperty('by');
      const { nodePort: _, ...without } = port;
      await set(without);
      expect(await bench.unserved(address, second)).toBe(true);
    }, ['nodePort']);

    test('lets a client stay with its endpoint, as long as that is there', async () => {
      const endpoints = await bench.serve(pods(0, 1, 2));
      const port = moved(web(endpoints, { affinitySeconds: 3600 }), bench.freshPort());
      await begin(port);
      const first = await bench.spread(bench.service(0), port.port, 20);
      expect(first.size, 'one client, one endpoint').toBe(1);
      const [chosen = ''] = names(first);
      const left = endpoints.filter(({ ip }) => ip !== chosen);
      await set({ ...port, endpoints: left });
      const second = await bench.spread(bench.service(0), port.port, 20);
      expect(second.size).toBe(1);
      expect(names(second)).not.toEqual([chosen]);
      await set({ ...port, endpoints });
      expect(names(await bench.spread(bench.service(0), port.port, 20)), 'it stays where it went').toEqual(names(second));
    }, ['affinity']);

    it('ends affinity when its time is over', async (context) => {
      const { pass, lacks } = bench.fixture;
      if (pass === undefined || lacks?.affinity !== undefined) {
        context.skip(lacks?.affinity ?? 'the fixture cannot let time pass');
        return;
      }
      const endpoints = await bench.serve(pods(0, 1, 2));
      const port = moved(web(endpoints, { affinitySeconds: 2 }), bench.freshPort());
      await begin(port);
      const met = new Set<string>();
      for (let round = 0; round < 40 && met.size < 2; round++) {
        for (const each of names(await bench.spread(bench.service(0), port.port, 3))) met.add(each);
        await pass(3);
      }
      expect(met.size).toBeGreaterThan(1);
    });

    test('carries datagrams there and back', async () => {
      const endpoints = await bench.serveUdp(pods(0, 1, 2));
      const port = moved(web(endpoints, { protocol: 'UDP' }), bench.freshPort());
      await begin(port);
      const met = new Set<string | undefined>();
      for (let round = 0; round < enough; round++) {
        const client = await bench.udpClient();
        const by = await client.ask(bench.service(0), port.port);
        met.add(by);
        expect(await client.ask(bench.service(0), port.port), 'one flow, one endpoint').toBe(by);
        client.close();
      }
      expect([...met].sort()).toEqual(pods(0, 1, 2).sort());
    }, ['udp']);

    test('moves a talking UDP client off an endpoint that went', async () => {
      const endpoints = await bench.serveUdp(pods(0, 1));
      const port = moved(web(endpoints.slice(0, 1), { protocol: 'UDP' }), bench.freshPort());
      await begin(port);
      const client = await bench.udpClient();
      expect(await client.ask(bench.service(0), port.port)).toBe(bench.pod(0));
      await set({ ...port, endpoints: endpoints.slice(1) });
      await expect.poll(() => client.ask(bench.service(0), port.port), { timeout: 120_000 }).toBe(bench.pod(1));
      await remove(port.key);
      await expect.poll(() => client.ask(bench.service(0), port.port), { timeout: 120_000 }).toBeUndefined();
      await set({ ...port, endpoints: endpoints.slice(0, 1) });
      await expect.poll(() => client.ask(bench.service(0), port.port), { timeout: 120_000 }).toBe(bench.pod(0));
    }, ['udp']);

    test('serves TCP and UDP at one address and port', async () => {
      const tcp = await bench.serve(pods(0));
      const udp = await bench.serveUdp(pods(1));
      const number = bench.freshPort();
      await begin(
        servicePort('d/dns:dns-tcp', { port: number, clusterIPs: [bench.service(0)], endpoints: tcp }),
        servicePort('d/dns:dns', { protocol: 'UDP', port: number, clusterIPs: [bench.service(0)], endpoints: udp }),
      );
      expect(await bench.dial(bench.service(0), number)).toEqual({ by: bench.pod(0) });
      const client = await bench.udpClient();
      expect(await client.ask(bench.service(0), number)).toBe(bench.pod(1));
    }, ['udp']);
  });
}
