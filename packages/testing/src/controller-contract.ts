import type { KubeObject } from '@oarlock/api/object';
import { SharedInformerFactory } from '@oarlock/client/cache/shared-informer-factory';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import type { Plugin } from '@oarlock/kernel/plugin';
import { Client, Events, Informers } from '@oarlock/spi/client';
import { Cluster, Keys, type ClusterFacts, type ClusterKeys } from '@oarlock/spi/cluster';
import { Controllers, type Controller } from '@oarlock/spi/controller';
import { controllerContract, type ControllerScenario } from '@oarlock/spi/controller/contract';
import { FakeClock } from './fake-clock.ts';
import { memoryApi, sequence, type MemoryApi, type MemoryApiOptions } from './memory-api.ts';

export type PluginScenario = ControllerScenario<MemoryApi>;

export interface RecordedEvent {
  /** The component that reports the event. */
  readonly component: string;
  readonly about: KubeObject;
  readonly type: string;
  readonly reason: string;
  readonly message: string;
}

/** Cluster facts with fixed values, for controllers that require cluster facts. */
export const testFacts: ClusterFacts = {
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
const rejectSigning = () => Promise.reject(new Error('the test cluster signs no certificates'));
const testKeys: ClusterKeys = {
  caBundle: 'CA',
  issue: rejectSigning,
  sign: rejectSigning,
  serviceAccount: { issuer: '', signingKey: '', verifyingKeys: [] },
};

/** Creates the controller of a plugin with these dependencies; `provide` supplies further slots. */
export function controllerOfPlugin(
  plugin: Plugin,
  parts: { readonly client: Client; readonly informers: Informers; readonly clock: FakeClock },
  { config, recordedEvents: eventLog, keys = testKeys, provide }: ControllerOptions = {},
): Controller {
  const host = new PluginHost({ clock: parts.clock })
    .provide(Client, parts.client)
    .provide(Informers, parts.informers)
    .provide(Events, {
      recorder: (component) => ({
        event(about, type, reason, message) {
          eventLog?.push({ component, about, type, reason, message });
        },
      }),
    })
    .provide(Cluster, testFacts)
    .provide(Keys, keys)
    .add({ plugin, ...(config !== undefined && { config }) });
  provide?.(host);
  const [controller] = host.get(Controllers);
  if (controller === undefined) throw new Error(`${plugin.id} was not created`);
  return controller;
}
export interface ControllerOptions {
  readonly config?: unknown;
  /** An array that receives the recorded events. */
  readonly recordedEvents?: RecordedEvent[];
  /** The cluster's signing keys; if absent, signing fails. */
  readonly keys?: ClusterKeys;
  provide?(host: PluginHost): void;
}

/**
 * Runs the controller contract for a plugin with the memory API. Runs each scenario unchanged, from a cold start, with interrupted watches, and once
 * for each write of the controller and each way in which that write can fail.
 */
export function controllerPluginContract(
  plugin: Plugin,
  scenarios: readonly PluginScenario[],
  options: ControllerOptions & Pick<MemoryApiOptions, 'defaults' | 'served'> = {},
): void {
  controllerContract<MemoryApi>(plugin.id, {
    open() {
      const clock = new FakeClock();
      return {
        clock,
        api: memoryApi({
          clock,
          ...(options.defaults === true && { defaults: true }),
          ...(options.served && { served: options.served }),
        }),
        informers: (client) => new SharedInformerFactory({ client, clock, random: sequence(7) }),
      };
    },
    create: ({ client, informers, clock }) => controllerOfPlugin(plugin, { client, informers, clock: clock as FakeClock }, options),
    scenarios,
  });
}
