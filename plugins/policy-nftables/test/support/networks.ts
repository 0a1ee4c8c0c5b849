import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import type { Lifecycle } from '@oarlock/kernel/plugin';
import { noTracer } from '@oarlock/kernel/tracing';
import type { NetworkDriver, NodeNetwork } from '@oarlock/spi/network';
import { BridgeNetwork, type BridgeNetworkConfig } from '@oarlock/network-bridge/bridge-network';
import bridgePlugin from '@oarlock/network-bridge/plugin';
import { CalicoNetwork } from '@oarlock/network-calico/calico-network';
import { calicoConfig } from '@oarlock/network-calico/config/calico-config';

export type NetworkName = 'bridge' | 'calico';

/** Connects pods with the network plugin of this node, one after another; the first pod gets the first address. */
export interface PodConnector {
  /** Connects the network namespace of a process and returns its addresses, IPv4 first. */
  connect(pid: number): Promise<readonly string[]>;
  close(): Promise<void>;
}

const traits = { namespace: 'pod', podCIDR: '10.99.0.0/16', serviceCIDR: '10.96.0.0/16' } as const;
const node: NodeNetwork = {
  nodeName: 'here',
  podCIDRs: ['10.99.1.0/24', 'fd00:99:0:1::/64'],
  clusterCIDRs: ['10.99.0.0/16', 'fd00:99::/32'],
  serviceCIDRs: ['10.96.0.0/16'],
  nodeIPs: ['192.0.2.1'],
};

type Context = ConstructorParameters<typeof CalicoNetwork>[1]['context'];
const drivers: Readonly<Record<NetworkName, (context: Context) => NetworkDriver & Lifecycle>> = {
  bridge: (context) => {
    const config = bridgePlugin.config.parse({ confDir: null, routes: 'none', bandwidth: 'off' }) as BridgeNetworkConfig;
    return new BridgeNetwork(config, { traits, context });
  },
  calico: (context) =>
    new CalicoNetwork(
      calicoConfig.parse({ confDir: null, routes: 'none', bandwidth: 'off', addresses: 'podCIDR', interfacePrefix: 'pol' }),
      { traits, context },
    ),
};

/** Opens a network plugin in the network namespace of this process. */
export async function openNetwork(name: NetworkName): Promise<PodConnector> {
  const dataDir = await mkdtemp(join(tmpdir(), 'policy-network-'));
  const driver = drivers[name]({ log: silentLogger, clock: systemClock, tracer: noTracer, dataDir });
  await driver.start?.(new AbortController().signal);
  await driver.setup(node);
  return {
    async connect(pid) {
      const pod = { namespace: 'default', name: `of-${pid}`, uid: `of-${pid}` };
      const { ips } = await driver.add({ containerId: `c${pid}`, ifName: 'eth0', netns: `/proc/${pid}/ns/net`, pod, portMappings: [] });
      return ips.toSorted((one, other) => Number(one.includes(':')) - Number(other.includes(':')));
    },
    async close() {
      await driver.stop?.();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}
