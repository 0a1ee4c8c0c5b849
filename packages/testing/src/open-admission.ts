import { failure } from '@oarlock/api/status';
import type { Plugin } from '@oarlock/kernel/plugin';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Admission, type AdmissionPlugin } from '@oarlock/spi/admission';
import { Authz, type Attributes } from '@oarlock/spi/authz';
import { Client, Informers } from '@oarlock/spi/client';
import { Cluster } from '@oarlock/spi/cluster';
import { z } from 'zod';
import { FakeClock } from './fake-clock.ts';
import { memoryApi, type MemoryApi } from './memory-api.ts';

export interface OpenAdmission {
  readonly plugin: AdmissionPlugin;
  readonly api: MemoryApi;
  readonly clock: FakeClock;
  /** Parts of the contract's fixture. */
  writes(): number;
  breakDown(): void;
  dispose(): Promise<void>;
}

export interface OpenAdmissionOptions {
  readonly config?: unknown;
  seed?(api: MemoryApi): void;
  /** What the authorizer of the server allows; everything when it is left out. */
  allows?(attributes: Attributes): boolean;
}

/** An admission plugin over an API in memory, its informers synced. */
export async function openAdmission(
  plugin: Plugin,
  { config, seed, allows = () => true }: OpenAdmissionOptions = {},
): Promise<OpenAdmission> {
  const clock = new FakeClock();
  const api = memoryApi({ clock });
  seed?.(api);
  const host = new PluginHost({ clock })
    .provide(Client, api.client())
    .provide(Informers, api.informers)
    .provide(Cluster, {
      name: 'test',
      domain: 'cluster.local',
      podCIDRs: ['10.244.0.0/16'],
      serviceCIDRs: ['10.96.0.0/16'],
      kubernetesServiceIP: '10.96.0.1',
      dnsServiceIP: '10.96.0.10',
      serverUrl: 'https://127.0.0.1:6443',
      nodePortRange: { from: 30_000, to: 32_767 },
      version: 'v1.36.0',
    })
    .place({
      plugin: Authz.plugin({
        id: 'authz-test',
        config: z.strictObject({}),
        create: () => ({
          authorize: (attributes) =>
            allows(attributes) ? { decision: 'allow', because: 'test' } : { decision: 'no-opinion', because: 'test says no' },
        }),
      }),
    })
    .place({ plugin, ...(config !== undefined && { config }) });
  const [created] = host.get(Admission);
  if (created === undefined) throw new Error(`${plugin.id} was not created`);
  await host.start();
  await clock.settle();
  return {
    plugin: created,
    api,
    clock,
    writes: () => api.requests.filter(({ verb }) => !['get', 'list', 'watch'].includes(verb)).length,
    breakDown: () => {
      for (const verb of ['get', 'list'] as const) api.failNext({ verb }, failure('ServiceUnavailable', 'the store is away'), 10_000);
    },
    async dispose() {
      await host.stop();
      await api.stop();
    },
  };
}
