import { join } from 'node:path';
import { systemClock, type Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { PluginHealthView } from '@oarlock/kernel/plugin-health';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import type { LoopbackTransport } from '@oarlock/client/loopback-client';
import { Cluster, Keys, type ClusterKeys } from '@oarlock/spi/cluster';
import { Client, Events, Informers, type EventRecorderFactory } from '@oarlock/spi/client';
import { LocalNodes } from '@oarlock/spi/local-nodes';
import { Loopback, type LoopbackEndpoint } from '@oarlock/spi/loopback';
import { Process } from '@oarlock/spi/process';
import { Roles, type Health, type Role } from '@oarlock/spi/role';
import { StorageServer } from '@oarlock/spi/storage-server';
import { Spans, type SpanStore } from '@oarlock/spi/spans';
import { Workers } from '@oarlock/spi/workers';
import type { Tracer } from '@opentelemetry/api';
import type { Registry } from 'prom-client';
import { pluginHealthMetrics } from '../hosting/plugin-health-metrics.ts';
import { LocalNodeRegistry } from './local-node-registry.ts';
import { placePlugins } from './create-plan.ts';
import { describePlugins } from './describe-plugins.ts';
import { featureMetrics } from './feature-metrics.ts';
import type { Plan, PlanOptions } from './plan.ts';

/** The external inputs of a composition, such as its environment: no code of the composition reads the environment itself. */
export interface ComposeOptions extends PlanOptions {
  readonly dataDir: string;
  readonly clock?: Clock;
  readonly log?: Logger;
  /** Returns whether the log can be written. */
  readonly checkLog?: () => Health;
  readonly tracer?: (plugin: string) => Tracer;
  /** Called when a plugin of another author becomes unhealthy or healthy. */
  readonly onHealthChange?: (health: PluginHealthView) => void;
  /** The other processes that serve the API with this one; absent if there are none. */
  readonly workers?: Workers;
  /** Roles of the first process of the server, for the health checks of a worker. */
  readonly otherRoles?: readonly Role[];
  /** Metrics of the certificates of the process. */
  readonly certificateMetrics?: Registry;
  /** Metrics of the HTTP requests of the process to API servers. */
  readonly clientMetrics?: Registry | undefined;
  /** The server on which the storage runs its member; absent in a process without an API server. */
  readonly storageServer?: StorageServer;
}

/** The API access of a composition, created after the facts are known and before any plugin. */
export interface ApiAccess {
  readonly keys: ClusterKeys;
  readonly client: Client;
  readonly informers: Informers;
  readonly events: EventRecorderFactory;
  readonly loopback: LoopbackEndpoint & Partial<Pick<LoopbackTransport, 'abandon'>>;
  readonly spans: SpanStore;
}

export interface Composition {
  readonly plan: Plan;
  readonly host: PluginHost;
  start(signal?: AbortSignal): Promise<void>;
  stop(): Promise<void>;
  roles(): readonly Role[];
}

/**
 * Adds the plugins of a plan to a plugin host. Does no I/O until `start`.
 * @throws WiringError from `start`, with every fault, if the composition has faults
 */
export function compose(planned: Plan, access: ApiAccess, options: ComposeOptions): Composition {
  const host = new PluginHost({
    clock: options.clock ?? systemClock,
    ...(options.log && { log: options.log }),
    ...(options.tracer && { tracer: options.tracer }),
    dataDir: join(options.dataDir, 'plugins'),
    // plugins wait for their requests when they stop: requests must not wait for an API server that will not come up
    onStopping: () => access.loopback.abandon?.(),
    ...(options.onHealthChange && { onHealthChange: options.onHealthChange }),
  });
  const health = (): readonly PluginHealthView[] => host.plugins.flatMap((plugin) => (plugin.health ? [plugin.health.view()] : []));
  const healthMetrics = pluginHealthMetrics(health);
  const gateMetrics = featureMetrics(planned.facts);
  host
    .provide(Cluster, planned.facts)
    .provide(Keys, access.keys)
    .provide(Client, access.client)
    .provide(Informers, access.informers)
    .provide(Events, access.events)
    .provide(Loopback, access.loopback)
    .provide(Spans, access.spans)
    .provide(LocalNodes, new LocalNodeRegistry())
    .provide(Process, {
      registries: () => [
        healthMetrics,
        gateMetrics,
        ...(options.certificateMetrics ? [options.certificateMetrics] : []),
        ...(options.clientMetrics ? [options.clientMetrics] : []),
        ...host.plugins.map(({ metrics }) => metrics),
      ],
      pluginHealth: health,
      roles: () => [...host.get(Roles), ...(options.otherRoles ?? [])],
      composition: () => describePlugins(host.plugins),
      dataDir: options.dataDir,
      ...(options.certificateMetrics && { certificateMetrics: options.certificateMetrics }),
      ...(options.clientMetrics && { clientMetrics: options.clientMetrics }),
      ...(options.checkLog && { checkLog: options.checkLog }),
    });
  if (options.storageServer !== undefined) host.provide(StorageServer, options.storageServer);
  if (options.workers !== undefined) host.provide(Workers, options.workers);
  placePlugins(host, planned);
  return {
    plan: planned,
    host,
    start: (signal) => host.start(signal),
    stop: () => host.stop(),
    roles: () => host.get(Roles),
  };
}
