import { once } from 'node:events';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { endpoint, ProxyHarness, servicePort, type ProxyCapability, type ProxyFixture } from './harness.ts';
import type { ServicePort } from '../proxy.ts';

export { endpoint, servicePort, type ProxyCapability, type ProxyFixture } from './harness.ts';

const connectionsToReachAll = 60; // connections until random choice has selected each of three endpoints, with an error of 1 in 10^10

/** Declares the tests that every service proxy must pass, with real servers and connections. Each test opens its own fixture. */
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
    let harness: ProxyHarness;
    beforeEach(async () => {
      harness = new ProxyHarness(await open());
    }, 300_000);
    afterEach(() => harness.close());
    const test = (title: string, body: (harness: ProxyHarness) => Promise<void>, needs: readonly ProxyCapability[] = []) => {
      it(title, async (context) => {
        for (const capability of needs) {
          const reason = harness.fixture.unsupported?.[capability];
          if (reason !== undefined) context.skip(`${capability} is not supported: ${reason}`);
        }
        await body(harness);
      });
    };
    const set = (...ports: ServicePort[]) => harness.proxy.apply({ replace: false, set: ports, removed: [] });
    const begin = (...ports: ServicePort[]) => harness.proxy.apply({ replace: true, set: ports, removed: [] });
    const remove = (...removed: string[]) => harness.proxy.apply({ replace: false, set: [], removed });
    const pods = (...indexes: number[]) => indexes.map((index) => harness.pod(index));
    const names = (spread: ReadonlyMap<string, number>) => [...spread.keys()].sort();
    /** A Service `d/web` at the first service address, over `endpoints`. */
    const web = (endpoints: ServicePort['endpoints'], more: Partial<ServicePort> = {}) =>
      servicePort('d/web:http', { port: 80, clusterIPs: [harness.service(0)], endpoints, ...more });
    const withPort = (port: ServicePort, number: number): ServicePort => ({ ...port, port: number });

    test('reaches every endpoint of a Service, and no other', async () => {
      const endpoints = await harness.serve(pods(0, 1, 2));
      const port = withPort(web(endpoints.slice(0, 2)), harness.freshPort());
      await begin(port);
      expect(names(await harness.countResponses(harness.service(0), port.port, connectionsToReachAll))).toEqual(pods(0, 1).sort());
      await set({ ...port, endpoints });
      expect(names(await harness.countResponses(harness.service(0), port.port, connectionsToReachAll))).toEqual(pods(0, 1, 2).sort());
    });

    test('transfers data in both directions, and closes each direction separately', async () => {
      const endpoints = await harness.serve(pods(0));
      const port = withPort(web(endpoints), harness.freshPort());
      await begin(port);
      const { socket } = harness.open(harness.service(0), port.port);
      const sent = Buffer.alloc(1 << 20, 'abcdefghijklmnopqrstuvwxyz0123456789');
      const received: Buffer[] = [];
      socket.on('data', (data: Buffer) => {
        received.push(data);
      });
      socket.end(sent);
      await once(socket, 'end');
      const whole = Buffer.concat(received);
      const from = whole.indexOf('\n') + 1;
      expect(whole.subarray(0, from).toString()).toBe(`${harness.pod(0)}\n`);
      expect(whole.subarray(from).equals(sent)).toBe(true);
    });

    test('rejects no connection while endpoints are exchanged', async () => {
      const endpoints = await harness.serve(pods(0, 1, 2, 3));
      const port = withPort(web(endpoints.slice(0, 2)), harness.freshPort());
      await begin(port);
      const outcomes: string[] = [];
      let changing = true;
      let notify = () => {};
      const clients = Array.from({ length: 4 }, async () => {
        while (changing) {
          const outcome = await harness.dial(harness.service(0), port.port);
          outcomes.push('by' in outcome ? outcome.by : JSON.stringify(outcome));
          notify();
        }
      });
      for (let round = 0; round < 40; round++) {
        const first = round % 4;
        await set({ ...port, endpoints: [0, 1].map((offset) => endpoints[(first + offset) % 4] ?? endpoint('', 0)) });
        // some connections under each state, and some during each change
        const seen = outcomes.length;
        while (outcomes.length < seen + 3)
          await new Promise<void>((resolve) => {
            notify = resolve;
          });
      }
      changing = false;
      await Promise.all(clients);
      expect(outcomes.filter((outcome) => !harness.fixture.podAddresses.includes(outcome))).toEqual([]);
    });

    test('serves the new state when apply has resolved', async () => {
      const endpoints = await harness.serve(pods(0, 1));
      const port = withPort(web(endpoints.slice(0, 1)), harness.freshPort());
      await begin(port);
      for (let round = 0; round < 12; round++) {
        const only = endpoints[round % 2] ?? endpoint('', 0);
        await set({ ...port, endpoints: [only] });
        expect(await harness.dial(harness.service(0), port.port)).toEqual({ by: only.ip });
      }
    });

    test('keeps connections to endpoints that remain', async () => {
      const endpoints = await harness.serve(pods(0, 1));
      const port = withPort(web(endpoints.slice(0, 1)), harness.freshPort());
      await begin(port);
      const { socket, answer } = harness.open(harness.service(0), port.port);
      expect(await answer).toEqual({ by: harness.pod(0) });
      await set({ ...port, endpoints });
      await set({ ...port, endpoints, ...(harness.fixture.unsupported?.affinity === undefined && { affinitySeconds: 600 }) });
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

    test('rejects connections if a Service has no endpoints, and serves again when it has', async () => {
      const endpoints = await harness.serve(pods(0));
      const port = withPort(web([]), harness.freshPort());
      await begin(port);
      const outcome = await harness.dial(harness.service(0), port.port);
      expect(outcome, 'a connection without a response makes clients wait').toHaveProperty('rejectedWith');
      await set({ ...port, endpoints });
      expect(await harness.dial(harness.service(0), port.port)).toEqual({ by: harness.pod(0) });
      await set(port);
      expect(await harness.dial(harness.service(0), port.port)).toHaveProperty('rejectedWith');
    });

    test('stops to serve a removed Service, and serves it again when it returns', async () => {
      const endpoints = await harness.serve(pods(0, 1));
      const port = withPort(web(endpoints), harness.freshPort());
      await begin(port);
      expect(await harness.dial(harness.service(0), port.port)).toHaveProperty('by');
      await remove(port.key);
      expect(await harness.isUnserved(harness.service(0), port.port)).toBe(true);
      await remove(port.key);
      await remove('d/never-was:x');
      await set(port);
      expect(await harness.dial(harness.service(0), port.port)).toHaveProperty('by');
    });

    test('separates Services on ports of one address and on addresses of one port', async () => {
      const [one, two, three] = await Promise.all([harness.serve(pods(0)), harness.serve(pods(1)), harness.serve(pods(2))]);
      const [a, b] = [harness.freshPort(), harness.freshPort()];
      await begin(
        servicePort('d/web:http', { port: a, clusterIPs: [harness.service(0)], endpoints: one }),
        servicePort('d/web:https', { port: b, clusterIPs: [harness.service(0)], endpoints: two }),
        servicePort('d/api:http', { port: a, clusterIPs: [harness.service(1)], endpoints: three }),
      );
      expect(await harness.dial(harness.service(0), a)).toEqual({ by: harness.pod(0) });
      expect(await harness.dial(harness.service(0), b)).toEqual({ by: harness.pod(1) });
      expect(await harness.dial(harness.service(1), a)).toEqual({ by: harness.pod(2) });
      await remove('d/web:http');
      expect(await harness.isUnserved(harness.service(0), a)).toBe(true);
      expect(await harness.dial(harness.service(0), b)).toEqual({ by: harness.pod(1) });
      expect(await harness.dial(harness.service(1), a)).toEqual({ by: harness.pod(2) });
    });

    test('follows a Service to another port and another address', async () => {
      const endpoints = await harness.serve(pods(0));
      const [a, b] = [harness.freshPort(), harness.freshPort()];
      await begin(withPort(web(endpoints), a));
      await set(withPort(web(endpoints), b));
      expect(await harness.isUnserved(harness.service(0), a)).toBe(true);
      expect(await harness.dial(harness.service(0), b)).toEqual({ by: harness.pod(0) });
      await set(withPort(web(endpoints, { clusterIPs: [harness.service(1)] }), b));
      expect(await harness.isUnserved(harness.service(0), b)).toBe(true);
      expect(await harness.dial(harness.service(1), b)).toEqual({ by: harness.pod(0) });
    });

    test('moves an address from one Service to another in one change', async () => {
      const [one, two] = await Promise.all([harness.serve(pods(0)), harness.serve(pods(1))]);
      const number = harness.freshPort();
      await begin(withPort(web(one), number));
      await harness.proxy.apply({
        replace: false,
        removed: ['d/web:http'],
        set: [servicePort('d/heir:http', { port: number, clusterIPs: [harness.service(0)], endpoints: two })],
      });
      expect(await harness.dial(harness.service(0), number)).toEqual({ by: harness.pod(1) });
    });

    test('exchanges the addresses of two Services in one change, in either order', async () => {
      const [one, two] = await Promise.all([harness.serve(pods(0)), harness.serve(pods(1))]);
      const number = harness.freshPort();
      const at = (key: string, address: number, endpoints: ServicePort['endpoints']) =>
        servicePort(key, { port: number, clusterIPs: [harness.service(address)], endpoints });
      await begin(at('d/a:http', 0, one), at('d/b:http', 1, two));
      await set(at('d/a:http', 1, one), at('d/b:http', 0, two));
      expect(await harness.dial(harness.service(1), number)).toEqual({ by: harness.pod(0) });
      expect(await harness.dial(harness.service(0), number)).toEqual({ by: harness.pod(1) });
      await set(at('d/b:http', 1, two), at('d/a:http', 0, one));
      expect(await harness.dial(harness.service(0), number)).toEqual({ by: harness.pod(0) });
      expect(await harness.dial(harness.service(1), number)).toEqual({ by: harness.pod(1) });
    });

    test('replaces the whole state, and drops nothing that is in both states', async () => {
      const [one, two] = await Promise.all([harness.serve(pods(0)), harness.serve(pods(1))]);
      const [a, b] = [harness.freshPort(), harness.freshPort()];
      const stays = withPort(web(one), a);
      const goes = servicePort('d/old:http', { port: b, clusterIPs: [harness.service(1)], endpoints: two });
      await begin(stays, goes);
      expect(await harness.dial(harness.service(1), b)).toEqual({ by: harness.pod(1) });
      await begin(stays);
      expect(await harness.dial(harness.service(0), a)).toEqual({ by: harness.pod(0) });
      expect(await harness.isUnserved(harness.service(1), b)).toBe(true);
      await begin();
      expect(await harness.isUnserved(harness.service(0), a)).toBe(true);
    });

    it('takes over the state of a previous process', async (context) => {
      if (harness.fixture.restart === undefined) context.skip('it has no state outside its process');
      const [one, two] = await Promise.all([harness.serve(pods(0)), harness.serve(pods(1))]);
      const [a, b] = [harness.freshPort(), harness.freshPort()];
      await begin(withPort(web(one), a), servicePort('d/old:http', { port: b, clusterIPs: [harness.service(1)], endpoints: two }));
      await harness.restart();
      await begin(withPort(web(two), a));
      expect(await harness.dial(harness.service(0), a)).toEqual({ by: harness.pod(1) });
      expect(await harness.isUnserved(harness.service(1), b)).toBe(true);
    });

    test('adds and removes two hundred Services in one change', async () => {
      const endpoints = await harness.serve(pods(0, 1));
      const first = harness.freshPort();
      const many = Array.from({ length: 200 }, (_, index) =>
        servicePort(`d/s${index}:http`, { port: first + index, clusterIPs: [harness.service(index % 4)], endpoints }),
      );
      await begin(...many);
      for (const index of [0, 57, 123, 199]) expect(await harness.dial(harness.service(index % 4), first + index)).toHaveProperty('by');
      await remove(...many.slice(1).map(({ key }) => key));
      expect(await harness.dial(harness.service(0), first)).toHaveProperty('by');
      expect(await harness.isUnserved(harness.service(3), first + 199)).toBe(true);
      await begin();
      const before = await harness.fixture.countResources?.();
      await begin(...many);
      await remove(...many.map(({ key }) => key));
      await expect.poll(() => harness.fixture.countResources?.()).toEqual(before);
    });

    test('leaves nothing behind after every kind of change', async () => {
      const endpoints = await harness.serve(pods(0, 1, 2));
      await begin();
      const before = await harness.fixture.countResources?.();
      const has = (capability: ProxyCapability) => harness.fixture.unsupported?.[capability] === undefined;
      let port = withPort(web(endpoints), harness.freshPort());
      const { nodePorts, externalAddress } = harness.fixture;
      const changes: Partial<ServicePort>[] = [
        { endpoints: endpoints.slice(1) },
        { endpoints: [] },
        { endpoints },
        { port: harness.freshPort() },
        { clusterIPs: [harness.service(1)] },
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
      await expect.poll(() => harness.fixture.countResources?.()).toEqual(before);
    });

    test('uses only local endpoints if the internal traffic policy is Local', async () => {
      const endpoints = await harness.serve(pods(0, 1, 2));
      const mixed = endpoints.map((each, index) => ({ ...each, local: index === 1 }));
      const port = withPort(web(mixed, { internalLocal: true }), harness.freshPort());
      await begin(port);
      expect(names(await harness.countResponses(harness.service(0), port.port, 20))).toEqual(pods(1));
      await set({ ...port, endpoints: mixed.map((each) => ({ ...each, local: false })) });
      expect(await harness.dial(harness.service(0), port.port), 'no local endpoint: no response').not.toHaveProperty('by');
      await set({ ...port, internalLocal: false });
      expect(names(await harness.countResponses(harness.service(0), port.port, connectionsToReachAll))).toEqual(pods(0, 1, 2).sort());
    });

    test('serves external addresses with the external traffic policy', async () => {
      const { externalAddress = '' } = harness.fixture;
      const endpoints = (await harness.serve(pods(0, 1))).map((each, index) => ({ ...each, local: index === 0 }));
      const port = withPort(web(endpoints, { externalIPs: [externalAddress], internalLocal: true }), harness.freshPort());
      await begin(port);
      expect(names(await harness.countResponses(harness.service(0), port.port, 20))).toEqual(pods(0));
      expect(names(await harness.countResponses(externalAddress, port.port, connectionsToReachAll))).toEqual(pods(0, 1).sort());
      // with policy Local, a proxy may still let the node itself reach all endpoints
      await set({ ...port, externalLocal: true });
      expect(names(await harness.countResponses(externalAddress, port.port, connectionsToReachAll))).toContain(harness.pod(0));
      await set({ ...port, externalIPs: [] });
      expect(await harness.isUnserved(externalAddress, port.port)).toBe(true);
      expect(await harness.dial(harness.service(0), port.port)).toHaveProperty('by');
    }, ['external']);

    test('restricts load balancer addresses to the source ranges', async () => {
      const { externalAddress = '', clientAddresses: [one, two] = ['', ''] } = harness.fixture;
      const endpoints = await harness.serve(pods(0));
      const port = withPort(
        web(endpoints, { loadBalancerIPs: [externalAddress], loadBalancerSourceRanges: [`${one}/${one.includes(':') ? 128 : 32}`] }),
        harness.freshPort(),
      );
      await begin(port);
      expect(await harness.dial(externalAddress, port.port, one)).toHaveProperty('by');
      const { socket, answer } = harness.open(externalAddress, port.port, two);
      const outcome = await Promise.race([
        answer,
        new Promise((resolve) => {
          setTimeout(() => resolve({ dropped: true }), 700);
        }),
      ]);
      socket.destroy();
      expect(outcome).not.toHaveProperty('by');
      expect(await harness.dial(harness.service(0), port.port, two), 'the cluster address has no restriction').toHaveProperty('by');
    }, ['external', 'sourceRanges']);

    test('serves node ports, and follows a changed one', async () => {
      const {
        address,
        ports: [first, second],
      } = harness.fixture.nodePorts ?? { address: '', ports: [0, 0] };
      const endpoints = await harness.serve(pods(0, 1));
      const port = withPort(web(endpoints, { nodePort: first }), harness.freshPort());
      await begin(port);
      expect(names(await harness.countResponses(address, first, connectionsToReachAll))).toEqual(pods(0, 1).sort());
      await set({ ...port, nodePort: second });
      expect(await harness.isUnserved(address, first)).toBe(true);
      expect(await harness.dial(address, second)).toHaveProperty('by');
      const { nodePort: _, ...without } = port;
      await set(without);
      expect(await harness.isUnserved(address, second)).toBe(true);
    }, ['nodePort']);

    test('keeps a client at its endpoint while that exists', async () => {
      const endpoints = await harness.serve(pods(0, 1, 2));
      const port = withPort(web(endpoints, { affinitySeconds: 3600 }), harness.freshPort());
      await begin(port);
      const first = await harness.countResponses(harness.service(0), port.port, 20);
      expect(first.size, 'one client, one endpoint').toBe(1);
      const [chosen = ''] = names(first);
      const left = endpoints.filter(({ ip }) => ip !== chosen);
      await set({ ...port, endpoints: left });
      const second = await harness.countResponses(harness.service(0), port.port, 20);
      expect(second.size).toBe(1);
      expect(names(second)).not.toEqual([chosen]);
      await set({ ...port, endpoints });
      expect(names(await harness.countResponses(harness.service(0), port.port, 20)), 'it stays at its new endpoint').toEqual(names(second));
    }, ['affinity']);

    it('ends affinity after its timeout', async (context) => {
      const { advanceTime: pass, unsupported } = harness.fixture;
      if (pass === undefined || unsupported?.affinity !== undefined) {
        context.skip(unsupported?.affinity ?? 'the fixture cannot advance time');
        return;
      }
      const endpoints = await harness.serve(pods(0, 1, 2));
      const port = withPort(web(endpoints, { affinitySeconds: 2 }), harness.freshPort());
      await begin(port);
      const reached = new Set<string>();
      for (let round = 0; round < 40 && reached.size < 2; round++) {
        for (const each of names(await harness.countResponses(harness.service(0), port.port, 3))) reached.add(each);
        await pass(3);
      }
      expect(reached.size).toBeGreaterThan(1);
    });

    test('transfers datagrams in both directions', async () => {
      const endpoints = await harness.serveUdp(pods(0, 1, 2));
      const port = withPort(web(endpoints, { protocol: 'UDP' }), harness.freshPort());
      await begin(port);
      const reached = new Set<string | undefined>();
      for (let round = 0; round < connectionsToReachAll; round++) {
        const client = await harness.udpClient();
        const by = await client.ask(harness.service(0), port.port);
        reached.add(by);
        expect(await client.ask(harness.service(0), port.port), 'one flow, one endpoint').toBe(by);
        client.close();
      }
      expect([...reached].sort()).toEqual(pods(0, 1, 2).sort());
    }, ['udp']);

    test('moves an active UDP client off a removed endpoint', async () => {
      const endpoints = await harness.serveUdp(pods(0, 1));
      const port = withPort(web(endpoints.slice(0, 1), { protocol: 'UDP' }), harness.freshPort());
      await begin(port);
      const client = await harness.udpClient();
      expect(await client.ask(harness.service(0), port.port)).toBe(harness.pod(0));
      await set({ ...port, endpoints: endpoints.slice(1) });
      await expect.poll(() => client.ask(harness.service(0), port.port), { timeout: 120_000 }).toBe(harness.pod(1));
      await remove(port.key);
      await expect.poll(() => client.ask(harness.service(0), port.port), { timeout: 120_000 }).toBeUndefined();
      await set({ ...port, endpoints: endpoints.slice(0, 1) });
      await expect.poll(() => client.ask(harness.service(0), port.port), { timeout: 120_000 }).toBe(harness.pod(0));
    }, ['udp']);

    test('serves TCP and UDP on one address and port', async () => {
      const tcp = await harness.serve(pods(0));
      const udp = await harness.serveUdp(pods(1));
      const number = harness.freshPort();
      await begin(
        servicePort('d/dns:dns-tcp', { port: number, clusterIPs: [harness.service(0)], endpoints: tcp }),
        servicePort('d/dns:dns', { protocol: 'UDP', port: number, clusterIPs: [harness.service(0)], endpoints: udp }),
      );
      expect(await harness.dial(harness.service(0), number)).toEqual({ by: harness.pod(0) });
      const client = await harness.udpClient();
      expect(await client.ask(harness.service(0), number)).toBe(harness.pod(1));
    }, ['udp']);
  });
}
