import type { Plugin } from '@oarlock/kernel/plugin';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import type { Slot } from '@oarlock/kernel/plugin';
import { Authz, type Attributes } from '@oarlock/spi/authz';
import { Client, Events, Informers } from '@oarlock/spi/client';
import { Cluster, type ClusterFacts } from '@oarlock/spi/cluster';
import { z } from 'zod';
import { FakeClock } from '../fake-clock.ts';
import { memoryApi, type MemoryApi } from '../memory-api.ts';

export interface OpenPlugin<T> {
  readonly instance: T;
  /** The memory API that the plugin's client and informers use. */
  readonly api: MemoryApi;
  readonly clock: FakeClock;
  dispose(): Promise<void>;
}

export interface OpenPluginOptions {
  readonly config?: unknown;
  /** Facts of the cluster that differ from those of the test cluster, such as feature gates. */
  readonly facts?: Partial<ClusterFacts>;
  seed?(api: MemoryApi): void;
  /** Returns the decision of the server's authorizer; if absent, everything is allowed. */
  allows?(attributes: Attributes): boolean;
}

const facts = {
  name: 'test',
  domain: 'cluster.local',
  podCIDRs: ['10.244.0.0/16'],
  serviceCIDRs: ['10.96.0.0/16'],
  kubernetesServiceIP: '10.96.0.1',
  dnsServiceIP: '10.96.0.10',
  serverUrl: 'https://127.0.0.1:6443',
  nodePortRange: { from: 30_000, to: 32_767 },
  version: 'v1.36.0',
};

/** Starts a plugin of the request path over a memory API, with synced informers. @throws WiringError for an invalid config */
export async function openPlugin<T extends object>(
  slot: Slot<T, 'chain'>,
  plugin: Plugin,
  { config, facts: changes, seed, allows = () => true }: OpenPluginOptions = {},
): Promise<OpenPlugin<T>> {
  if (plugin.provides.token !== slot.token) throw new Error(`${plugin.id} fills ${plugin.provides.id}, not ${slot.id}`);
  const clock = new FakeClock();
  const api = memoryApi({ clock });
  seed?.(api);
  const host = new PluginHost({ clock })
    .provide(Client, api.client())
    .provide(Informers, api.informers)
    .provide(Events, { recorder: () => ({ event: () => {} }) })
    .provide(Cluster, { ...facts, ...changes });
  if (slot.token !== Authz.token)
    host.add({
      plugin: Authz.plugin({
        id: 'authz-test',
        config: z.strictObject({}),
        create: () => ({
          authorize: (attributes) =>
            allows(attributes) ? { decision: 'allow', reason: 'test' } : { decision: 'no-opinion', reason: 'the test denies the request' },
        }),
      }),
    });
  host.add({ plugin, ...(config !== undefined && { config }) });
  await host.start();
  const [instance] = host.get(slot);
  if (instance === undefined) throw new Error(`${plugin.id} was not created`);
  await clock.settle();
  return {
    instance,
    api,
    clock,
    async dispose() {
      await host.stop();
      await api.stop();
    },
  };
}
