import { systemClock } from '@oarlock/primitives/clock';
import type { ServiceProxy } from '@oarlock/spi/proxy';
import { proxyContract } from '@oarlock/spi/proxy/contract';
import { beforeAll } from 'vitest';
import { ip } from './network-namespace.ts';

type Family = 'ip' | 'ip6';
interface Addresses {
  readonly pods: readonly string[];
  readonly clients: readonly [string, string];
  readonly node: string;
  readonly services: readonly string[];
  readonly external: string;
  readonly podCIDRs: readonly string[];
}
const numbers = [1, 2, 3, 4];
const addresses: Readonly<Record<Family, Addresses>> = {
  ip: {
    pods: numbers.map((n) => `10.244.0.${n}`),
    clients: ['10.99.0.1', '10.99.0.2'],
    node: '10.99.0.10',
    services: numbers.map((n) => `10.96.0.${n}`),
    external: '192.0.2.10',
    podCIDRs: ['10.244.0.0/16'],
  },
  // in addition to IPv4, as on dual-stack nodes
  ip6: {
    pods: numbers.map((n) => `fd00:244::${n}`),
    clients: ['fd00:99::1', 'fd00:99::2'],
    node: 'fd00:99::10',
    services: numbers.map((n) => `fd00:96::${n}`),
    external: '2001:db8::10',
    podCIDRs: ['10.244.0.0/16', 'fd00:244::/64'],
  },
};

type KernelProxy = ServiceProxy & { start(): Promise<void>; clear(): Promise<void> };
export interface KernelProxyFixture {
  /** Creates a proxy for these IP families and pod CIDRs without starting it. */
  make(options: {
    readonly podCIDRs: readonly string[];
    readonly masqueradeAll: boolean;
    readonly families: readonly Family[];
  }): KernelProxy;
  /** Counts the proxy's objects in the kernel, by type. */
  census(): Promise<Readonly<Record<string, number>>>;
}

/** Declares the tests of service proxies that program the kernel. Runs in a network namespace of the test. */
export function kernelProxyContract(name: string, { make, census }: KernelProxyFixture, family: Family = 'ip'): void {
  const { pods, clients, node, services, external, podCIDRs } = addresses[family];
  const families = family === 'ip' ? (['ip'] as const) : (['ip', 'ip6'] as const);
  beforeAll(() => {
    ip('link', 'set', 'lo', 'up');
    ip('link', 'add', 'pods', 'type', 'veth', 'peer', 'name', 'nobody');
    const own = family === 'ip' ? (['/32'] as const) : (['/128', 'nodad'] as const);
    for (const address of [...pods, ...clients, node]) ip('address', 'add', `${address}${own[0]}`, 'dev', 'pods', ...own.slice(1));
    ip('link', 'set', 'pods', 'up');
    ip('link', 'set', 'nobody', 'up');
    // no interface has the Services' addresses: packets need only a route until the rules translate them
    ip(...(family === 'ip' ? [] : ['-6']), 'route', 'add', 'default', 'dev', 'pods');
  });

  proxyContract(name, async () => {
    const started = async () => {
      const proxy = make({ podCIDRs, masqueradeAll: false, families });
      await proxy.start();
      return proxy;
    };
    const proxy = await started();
    return {
      proxy,
      restart: started,
      countResources: census,
      podAddresses: pods,
      serviceAddresses: services,
      externalAddress: external,
      nodePorts: { address: node, ports: [30_080, 30_081] },
      clientAddresses: clients,
      // the kernel measures this time itself
      advanceTime: (seconds) => systemClock.sleep(seconds * 1000),
      dispose: () => proxy.clear(),
    };
  });
}
