import { systemClock } from '@oarlock/kernel/clock';
import type { ServiceProxy } from '@oarlock/spi/proxy';
import { proxyContract } from '@oarlock/spi/proxy.contract';
import { beforeAll } from 'vitest';
import { ip } from './own-network.ts';

const pods = [1, 2, 3, 4].map((n) => `10.244.0.${n}`);
const clients = ['10.99.0.1', '10.99.0.2'] as const;
const node = '10.99.0.10';

type KernelProxy = ServiceProxy & { start(): Promise<void>; clear(): Promise<void> };
export interface KernelProxyFixture {
  /** A proxy of IPv4 for this pod range; not started. */
  make(options: { readonly podCIDRs: readonly string[]; readonly masqueradeAll: boolean; readonly families: readonly ['ip'] }): KernelProxy;
  /** How many of each kind of thing the kernel holds. */
  census(): Promise<Readonly<Record<string, number>>>;
}

/** What every service proxy promises, of one that is rules in the kernel. To be called in a network namespace of the test's own. */
export function kernelProxyContract(name: string, { make, census }: KernelProxyFixture): void {
  beforeAll(() => {
    ip('link', 'set', 'lo', 'up');
    ip('link', 'add', 'pods', 'type', 'veth', 'peer', 'name', 'nobody');
    for (const address of [...pods, ...clients, node]) ip('address', 'add', `${address}/32`, 'dev', 'pods');
    ip('link', 'set', 'pods', 'up');
    ip('link', 'set', 'nobody', 'up');
    // where Services are is not an interface of anybody: packets need only a route until the rules turn them round
    ip('route', 'add', 'default', 'dev', 'pods');
  });

  proxyContract(name, async () => {
    const started = async () => {
      const proxy = make({ podCIDRs: ['10.244.0.0/16'], masqueradeAll: false, families: ['ip'] });
      await proxy.start();
      return proxy;
    };
    const proxy = await started();
    return {
      proxy,
      restart: started,
      census,
      podAddresses: pods,
      serviceAddresses: [1, 2, 3, 4].map((n) => `10.96.0.${n}`),
      externalAddress: '192.0.2.10',
      nodePorts: { address: node, ports: [30_080, 30_081] },
      clientAddresses: clients,
      // the kernel keeps this time itself
      pass: (seconds) => systemClock.sleep(seconds * 1000),
      dispose: () => proxy.clear(),
    };
  });
}
