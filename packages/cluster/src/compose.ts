import { join } from 'node:path';
import { systemClock, type Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import type { LoopbackSwitchboard } from '@oarlock/client/loopback-client';
import { Cluster, Keys, type ClusterKeys } from '@oarlock/spi/cluster';
import { Client, Events, Informers, type EventSource } from '@oarlock/spi/client';
import { LocalNodes } from '@oarlock/spi/local-nodes';
import { Loopback, type LoopbackSwitch } from '@oarlock/spi/loopback';
import { Process } from '@oarlock/spi/process';
import { Roles, type Role } from '@oarlock/spi/role';
import { Spans, type SpanStore } from '@oarlock/spi/spans';
import type { Tracer } from '@opentelemetry/api';
import { NodesOfProcess } from './local-nodes.ts';
import { placeAll, type Plan, type PlanOptions } from './plan.ts';

/** Everything the composition takes from outside: nothing below reads the environment. */
export interface ComposeOptions extends PlanOptions {
  readonly dataDir: string;
  readonly clock?: Clock;
  readonly log?: Logger;
  readonly tracer?: (plugin: string) => Tracer;
}

/** What a composition is given to reach the API with: made after the facts are known, before any plugin is created. */
export interface Access {
  readonly keys: ClusterKeys;
  readonly client: Client;
  readonly informers: Informers;
  readonly events: EventSource;
  readonly loopback: LoopbackSwitch & Partial<Pick<LoopbackSwitchboard, 'abandon'>>;
  readonly spans: SpanStore;
}

export interface Composition {
  readonly plan: Plan;
  readonly host: PluginHost;
  start(signal?: AbortSignal): Promise<void>;
  stop(): Promise<void>;
  roles(): readonly Role[];
}

/** Wires a plan. Pure: no I/O before `start`. @throws WiringError from `start`, with every fault found */
export function compose(planned: Plan, access: Access, options: ComposeOptions): Composition {
  const host = new PluginHost({
    clock: options.clock ?? systemClock,
    ...(options.log && { log: options.log }),
    ...(options.tracer && { tracer: options.tracer }),
    dataDir: join(options.dataDir, 'plugins'),
    // who stops waits for its requests: they must not wait for an API server that never comes
    stopping: () => access.loopback.abandon?.(),
  });
  host
    .provide(Cluster, planned.facts)
    .provide(Keys, access.keys)
    .provide(Client, access.client)
    .provide(Informers, access.informers)
    .provide(Events, access.events)
    .provide(Loopback, access.loopback)
    .provide(Spans, access.spans)
    .provide(LocalNodes, new NodesOfProcess())
    .provide(Process, { registries: () => host.units.map(({ metrics }) => metrics), roles: () => host.get(Roles) });
  placeAll(host, planned);
  return {
    plan: planned,
    host,
    start: (signal) => host.start(signal),
    stop: () => host.stop(),
    roles: () => host.get(Roles),
  };
}
