import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Cluster, type ClusterFacts } from '@oarlock/spi/cluster';
import { Dns } from '@oarlock/spi/dns';
import plugin from '../../src/plugin.ts';

export const facts: ClusterFacts = {
  name: 'test',
  domain: 'cluster.local',
  version: 'v1.36.0',
  podCIDRs: ['10.244.0.0/16'],
  serviceCIDRs: ['10.96.0.0/16'],
  kubernetesServiceIP: '10.96.0.1',
  dnsServiceIP: '10.96.0.10',
  serverUrl: 'https://127.0.0.1:6443',
  nodePortRange: { from: 30_000, to: 32_767 },
};

/** Starts the plugin as a composition does, on a free port of the loopback interface. */
export async function started(config: Record<string, unknown>, clock: Clock, log: Logger) {
  const host = new PluginHost({ clock, log });
  host.provide(Cluster, facts);
  host.add({ plugin, config: { address: '127.0.0.1', ...config } });
  await host.start();
  const server = host.get(Dns);
  return { server, port: server.port ?? 53, stop: () => host.stop() };
}
