import { endpointSlices, services } from '@oarlock/api/resources';
import { formatTime } from '@oarlock/api/values/time';
import type { Service } from '@oarlock/api/types/core-v1';
import type { EndpointSlice } from '@oarlock/api/types/discovery-v1';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import plugin from '@oarlock/service-proxy/plugin';
import { Client, Informers } from '@oarlock/spi/client';
import { Cluster } from '@oarlock/spi/cluster';
import { testFacts } from '@oarlock/testing/controller-contract';
import { Proxy, type ProxyChanges, type ServiceProxy } from '@oarlock/spi/proxy';
import { Roles, type Role } from '@oarlock/spi/role';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

/** Records applied changes; can be slow or fail. */
class RecordingProxy implements ServiceProxy {
  readonly applied: ProxyChanges[] = [];
  failures = 0;
  overlapping = false;
  gate: Promise<void> | undefined;
  #busy = false;
  async apply(changes: ProxyChanges): Promise<void> {
    this.overlapping ||= this.#busy;
    this.#busy = true;
    this.applied.push(changes);
    try {
      await this.gate;
      if (this.failures > 0) {
        this.failures -= 1;
        throw new Error('the kernel rejected the rules');
      }
    } finally {
      this.#busy = false;
    }
  }
  /** Returns the state of a proxy that implements the contract. */
  get state(): ReadonlyMap<string, readonly string[]> {
    const state = new Map<string, readonly string[]>();
    for (const { replace, set, removed } of this.applied) {
      if (replace) state.clear();
      for (const key of removed) state.delete(key);
      for (const { key, endpoints } of set)
        state.set(
          key,
          endpoints.map(({ ip }) => ip),
        );
    }
    return state;
  }
}

const service = (name: string, number = 1): Service => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { namespace: 'd', name },
  spec: { clusterIP: `10.96.0.${number}`, clusterIPs: [`10.96.0.${number}`], ports: [{ name: 'http', port: 80, protocol: 'TCP' }] },
});
const slice = (of: string, ...addresses: string[]): EndpointSlice => ({
  apiVersion: 'discovery.k8s.io/v1',
  kind: 'EndpointSlice',
  metadata: { namespace: 'd', name: `${of}-x`, labels: { 'kubernetes.io/service-name': of } },
  addressType: 'IPv4',
  ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
  endpoints: addresses.map((ip) => ({ addresses: [ip], conditions: { ready: true } })),
});

let clock: FakeClock;
let api: ReturnType<typeof memoryApi>;
let proxy: RecordingProxy;
let host: PluginHost;
beforeEach(() => {
  clock = new FakeClock();
  api = memoryApi({ clock });
  proxy = new RecordingProxy();
});
afterEach(async () => {
  await host.stop();
  await api.stop();
});

async function start(): Promise<Role> {
  host = new PluginHost({ clock })
    .provide(Informers, api.informers)
    .provide(Client, api.client())
    .provide(Cluster, testFacts)
    .provide(Proxy, proxy)
    .add({ plugin, config: { nodeName: 'n1' } });
  await host.start();
  await clock.advance(100);
  const [role] = host.get(Roles);
  if (role === undefined) throw new Error('no role');
  return role;
}

describe('service proxy controller', () => {
  it('applies the initial state in one step, even if it is empty', async () => {
    await start();
    expect(proxy.applied).toMatchObject([{ replace: true, set: [], removed: [] }]);
  });

  it('replaces the state of an earlier process', async () => {
    api.seed(services, service('a', 1), service('b', 2));
    api.seed(endpointSlices, slice('a', '10.244.0.1'), slice('b', '10.244.0.2'));
    await start();
    expect(proxy.applied).toHaveLength(1);
    expect(proxy.applied[0]?.replace).toBe(true);
    expect([...proxy.state]).toEqual(
      expect.arrayContaining([
        ['d/a:http', ['10.244.0.1']],
        ['d/b:http', ['10.244.0.2']],
      ]),
    );
  });

  it('measures the time from the change of a pod until the rules contain it', async () => {
    api.seed(services, service('a'));
    await start();
    const text = () => host.plugins.find(({ name }) => name === 'proxy')?.metrics.metrics();
    const trigger = { 'endpoints.kubernetes.io/last-change-trigger-time': formatTime(clock.now()) };
    const changed = slice('a', '10.244.0.1');
    await clock.advance(3000);
    api.seed(endpointSlices, { ...changed, metadata: { ...changed.metadata, annotations: trigger } });
    await clock.advance(100);
    expect(await text()).toMatch(/^kubeproxy_network_programming_duration_seconds_count 1$/m);
    expect(await text()).toMatch(/^kubeproxy_network_programming_duration_seconds_bucket\{le="2"\} 0$/m);
  });

  it('then applies only differences', async () => {
    api.seed(services, service('a', 1), service('b', 2));
    api.seed(endpointSlices, slice('a', '10.244.0.1'), slice('b', '10.244.0.2'));
    await start();
    api.seed(endpointSlices, slice('a', '10.244.0.1', '10.244.0.3'));
    await clock.advance(100);
    expect(proxy.applied[1]).toMatchObject({
      replace: false,
      removed: [],
      set: [{ key: 'd/a:http', endpoints: [{ ip: '10.244.0.1' }, { ip: '10.244.0.3' }] }],
    });
    api.seed(services, { ...service('b', 2), metadata: { namespace: 'd', name: 'b', annotations: { note: 'nothing a proxy sees' } } });
    await clock.advance(100);
    expect(proxy.applied).toHaveLength(2);
    api.remove(services, { namespace: 'd', name: 'a' });
    await clock.advance(100);
    expect(proxy.applied[2]).toMatchObject({ replace: false, set: [], removed: ['d/a:http'] });
  });

  it('applies a Service that loses a port, becomes headless, and returns', async () => {
    const two = service('a');
    api.seed(services, {
      ...two,
      spec: {
        ...two.spec,
        ports: [
          { name: 'http', port: 80 },
          { name: 'more', port: 81 },
        ],
      },
    });
    await start();
    api.seed(services, two);
    await clock.advance(100);
    expect(proxy.applied[1]).toMatchObject({ set: [], removed: ['d/a:more'] });
    api.seed(services, { ...two, spec: { clusterIP: 'None', clusterIPs: ['None'], ports: [{ name: 'http', port: 80 }] } });
    await clock.advance(100);
    expect(proxy.applied[2]).toMatchObject({ set: [], removed: ['d/a:http'] });
    api.seed(services, two);
    await clock.advance(100);
    expect(proxy.applied[3]).toMatchObject({ set: [{ key: 'd/a:http' }], removed: [] });
  });

  it('applies a slice that moves to another Service', async () => {
    api.seed(services, service('a', 1), service('b', 2));
    api.seed(endpointSlices, slice('a', '10.244.0.1'));
    await start();
    const moved = slice('b', '10.244.0.1');
    api.seed(endpointSlices, { ...moved, metadata: { ...moved.metadata, name: 'a-x' } });
    await clock.advance(100);
    expect(proxy.state).toEqual(
      new Map([
        ['d/a:http', []],
        ['d/b:http', ['10.244.0.1']],
      ]),
    );
  });

  it('combines many changes into few applies, the first one immediately', async () => {
    api.seed(services, service('a'));
    await start();
    proxy.applied.length = 0;
    await clock.advance(1000);
    for (let n = 1; n <= 100; n++) {
      api.seed(endpointSlices, slice('a', `10.244.0.${n}`));
      await clock.advance(1);
    }
    await clock.advance(100);
    expect(proxy.applied.length).toBeGreaterThanOrEqual(4);
    expect(proxy.applied.length).toBeLessThanOrEqual(8);
    expect(proxy.state.get('d/a:http')).toEqual(['10.244.0.100']);
  });

  it('runs one apply at a time, and then applies the changes that arrived meanwhile', async () => {
    api.seed(services, service('a'));
    await start();
    let open = () => {};
    proxy.gate = new Promise<void>((resolve) => {
      open = resolve;
    });
    for (const ip of ['10.244.0.1', '10.244.0.2', '10.244.0.3']) {
      api.seed(endpointSlices, slice('a', ip));
      await clock.advance(50);
    }
    expect(proxy.applied).toHaveLength(2);
    proxy.gate = undefined;
    open();
    await clock.advance(100);
    expect(proxy.overlapping).toBe(false);
    expect(proxy.applied).toHaveLength(3);
    expect(proxy.state.get('d/a:http')).toEqual(['10.244.0.3']);
  });

  it('retries a failed apply after a second, with newer changes, and is unhealthy meanwhile', async () => {
    api.seed(services, service('a', 1), service('b', 2));
    const role = await start();
    proxy.failures = 2;
    api.seed(endpointSlices, slice('a', '10.244.0.1'));
    await clock.advance(100);
    expect(role.checkHealth()).toEqual({ healthy: false, reason: 'the kernel rejected the rules' });
    proxy.applied.length = 0;
    api.seed(endpointSlices, slice('b', '10.244.0.2'));
    await clock.advance(850);
    expect(proxy.applied.length, 'not before its time').toBeLessThanOrEqual(1);
    await clock.advance(3_000);
    expect(role.checkHealth()).toEqual({ healthy: true });
    expect(proxy.applied.at(-1)).toMatchObject({ replace: true });
    const last = new Map(
      proxy.applied
        .slice(-2)
        .flatMap(({ set }) => set)
        .map(({ key, endpoints }) => [key, endpoints.map(({ ip }) => ip)]),
    );
    expect(last).toEqual(
      new Map([
        ['d/a:http', ['10.244.0.1']],
        ['d/b:http', ['10.244.0.2']],
      ]),
    );
  });

  it('replaces again if the first apply failed', async () => {
    api.seed(services, service('a'));
    proxy.failures = 1;
    await start();
    await clock.advance(2_000);
    expect(proxy.applied.map(({ replace, set }) => ({ replace, keys: set.map(({ key }) => key) }))).toEqual([
      { replace: true, keys: ['d/a:http'] },
      { replace: true, keys: ['d/a:http'] },
    ]);
  });

  it('applies changes that happened while its watches were disconnected', async () => {
    api.seed(services, service('a', 1), service('b', 2));
    await start();
    api.compact();
    api.dropWatches();
    api.remove(services, { namespace: 'd', name: 'a' });
    api.seed(endpointSlices, slice('b', '10.244.0.2'));
    await clock.advance(120_000);
    expect(proxy.state).toEqual(new Map([['d/b:http', ['10.244.0.2']]]));
  });

  it('applies nothing after stop, and waits for a running apply', async () => {
    api.seed(services, service('a'));
    await start();
    let open = () => {};
    proxy.gate = new Promise<void>((resolve) => {
      open = resolve;
    });
    api.seed(endpointSlices, slice('a', '10.244.0.1'));
    await clock.advance(100);
    let stopped = false;
    const stopping = host.stop().then(() => {
      stopped = true;
    });
    await clock.settle();
    expect(stopped).toBe(false);
    open();
    await stopping;
    const count = proxy.applied.length;
    api.seed(endpointSlices, slice('a', '10.244.0.9'));
    await clock.advance(10_000);
    expect(proxy.applied).toHaveLength(count);
  });
});
