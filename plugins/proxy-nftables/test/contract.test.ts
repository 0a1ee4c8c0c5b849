import { execa } from 'execa';
import { silentLogger } from '@oarlock/kernel/logger';
import { systemClock } from '@oarlock/kernel/clock';
import { proxyContract } from '@oarlock/spi/proxy.contract';
import { beforeAll } from 'vitest';
import { NftablesProxy } from '../src/nftables-proxy.ts';
import { inOwnNetwork, ip, isolated } from '@oarlock/testing/own-network';

/** How many of each kind of thing the kernel holds: chains, rules, sets, maps, elements. */
async function census(): Promise<Record<string, number>> {
  const { stdout } = await execa('nft', ['-j', 'list', 'ruleset']);
  const counts: Record<string, number> = {};
  for (const entry of (JSON.parse(stdout) as { nftables: Record<string, { elem?: unknown[] }>[] }).nftables) {
    for (const [kind, { elem }] of Object.entries(entry)) {
      counts[kind] = (counts[kind] ?? 0) + 1;
      counts['elements'] = (counts['elements'] ?? 0) + (elem?.length ?? 0);
    }
  }
  return counts;
}

if (!isolated) inOwnNetwork(import.meta.url);
else {
  const pods = [1, 2, 3, 4].map((n) => `10.244.0.${n}`);
  const clients = ['10.99.0.1', '10.99.0.2'] as const;
  const node = '10.99.0.10';
  beforeAll(() => {
    ip('link', 'set', 'lo', 'up');
    ip('link', 'add', 'pods', 'type', 'veth', 'peer', 'name', 'nobody');
    for (const address of [...pods, ...clients, node]) ip('address', 'add', `${address}/32`, 'dev', 'pods');
    ip('link', 'set', 'pods', 'up');
    ip('link', 'set', 'nobody', 'up');
    // where Services are is not an interface of anybody: packets need only a route until the rules turn them round
    ip('route', 'add', 'default', 'dev', 'pods');
  });

  proxyContract('proxy-nftables', async () => {
    const make = async () => {
      const proxy = new NftablesProxy({ podCIDRs: ['10.244.0.0/16'], masqueradeAll: false, families: ['ip'], log: silentLogger });
      await proxy.start();
      return proxy;
    };
    const proxy = await make();
    return {
      proxy,
      restart: make,
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
