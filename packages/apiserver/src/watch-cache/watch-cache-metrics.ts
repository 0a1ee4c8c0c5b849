import { Gauge, type Registry } from 'prom-client';
import { readCounter } from '@oarlock/kernel/precomputed-metrics';
import type { ResourceCache } from './resource-cache.ts';
import type { WatchCacheMemory } from './watch-cache-options.ts';

const labelNames = ['group', 'resource'] as const;

/** Returns the metric labels of a resource: group `apps` and resource `deployments` for `deployments.apps`. */
function labelsOf({ resource: { name } }: ResourceCache): { readonly group: string; readonly resource: string } {
  const dot = name.indexOf('.');
  return dot < 0 ? { group: '', resource: name } : { group: name.slice(dot + 1), resource: name.slice(0, dot) };
}

/** The parts of the watch cache that the metrics read at each scrape. */
export interface WatchCacheMetricsSource {
  resourceCaches(): Iterable<ResourceCache>;
  readonly watchCacheMemory: WatchCacheMemory;
}

/**
 * Registers upstream's metrics of the watch cache, and metrics of the size and the limit of the buffers that clients can fill: event rings,
 * watcher queues and pending writes.
 */
export function registerWatchCacheMetrics(registry: Registry, source: WatchCacheMetricsSource): void {
  registerResourceMetrics(registry, () => source.resourceCaches());
  registerMemoryMetrics(registry, () => source.watchCacheMemory);
}

function registerResourceMetrics(registry: Registry, caches: () => Iterable<ResourceCache>): void {
  const gauge = (name: string, help: string, read: (cache: ResourceCache) => number) => {
    registry.registerMetric(
      new Gauge({
        name,
        help,
        labelNames,
        registers: [],
        collect() {
          this.reset();
          for (const cache of caches()) this.set(labelsOf(cache), read(cache));
        },
      }),
    );
  };
  const counter = (name: string, help: string, read: (cache: ResourceCache) => number) => {
    readCounter(registry, { name, help, labelNames }, function* () {
      for (const cache of caches()) yield [labelsOf(cache), read(cache)];
    });
  };
  gauge(
    'apiserver_watch_cache_resource_version',
    'Revision of the newest change in the watch cache.',
    ({ lastChangeRevision }) => lastChangeRevision,
  );
  gauge('apiserver_watch_cache_capacity', 'Capacity of the event ring of the watch cache.', ({ ring }) => ring.capacity);
  counter('apiserver_watch_cache_events_received_total', 'Changes received from storage.', ({ receivedEvents }) => receivedEvents);
  counter('apiserver_watch_cache_events_dispatched_total', 'Changes dispatched to watchers.', ({ dispatchedEvents }) => dispatchedEvents);
  counter('apiserver_watch_cache_initializations_total', 'Initializations of the watch cache.', ({ initializations }) => initializations);
  counter('apiserver_watch_cache_capacity_increase_total', 'Increases of the capacity of the event ring.', ({ ring }) => ring.increases);
  counter('apiserver_watch_cache_capacity_decrease_total', 'Decreases of the capacity of the event ring.', ({ ring }) => ring.decreases);
  counter(
    'apiserver_terminated_watchers_total',
    'Watchers terminated because they did not keep up with the events.',
    ({ watchers }) => watchers.terminatedWatchers,
  );
}

/** Registers the size and the limit, in bytes, of the event rings, the watcher queues and the pending writes. */
function registerMemoryMetrics(registry: Registry, memory: () => WatchCacheMemory): void {
  const gauge = (name: string, help: string, field: 'bytes' | 'maxBytes') => {
    registry.registerMetric(
      new Gauge({
        name,
        help,
        labelNames: ['buffer'],
        registers: [],
        collect() {
          const { rings, watchers, pendingWrites } = memory();
          this.set({ buffer: 'rings' }, rings[field]);
          this.set({ buffer: 'watchers' }, watchers[field]);
          this.set({ buffer: 'pending_writes' }, pendingWrites[field]);
        },
      }),
    );
  };
  gauge('oarlock_watch_cache_buffer_bytes', 'Encoded bytes of objects that a buffer of the watch cache keeps.', 'bytes');
  gauge('oarlock_watch_cache_buffer_limit_bytes', 'Bound of a buffer of the watch cache in bytes.', 'maxBytes');
}
