import { execa } from 'execa';
import { silentLogger } from '@oarlock/kernel/logger';
import { systemClock } from '@oarlock/kernel/clock';
import { proxyContract } from '@oarlock/spi/proxy.contract';
import { beforeAll } from 'vitest';
import { IptablesProxy } from '../src/iptables-proxy.ts';
import { inOwnNetwork, ip, isolated } from '@oarlock/testing/own-network';

/** How many rules and chains there are, of ours and of others. */
async function census(): Promise<Record<string, number>> {
  const { stdout } = await execa('iptables-save');
  const lines = stdout.split('\n');
  return { chains: lines.filter((line) => line.startsWith(':')).length, rules: lines.filter((line) => line.startsWith('-A')).length };
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

  proxyContract('proxy-iptables', async () => {
    const make = async () => {
      const proxy = new IptablesProxy({ podCIDRs: ['10.244.0.0/16'], masqueradeAll: false, families: ['ip'], log: silentLogger });
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
