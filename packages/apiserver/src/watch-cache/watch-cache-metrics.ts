import { Gauge, type Registry } from 'prom-client';
import { readCounter } from '../metrics/histogram.ts';
import type { ResourceCache } from './resource-cache.ts';

const labelNames = ['group', 'resource'] as const;

/** `deployments.apps` -> resource and group. */
function labelsOf({ resource: { name } }: ResourceCache): { readonly group: string; readonly resource: string } {
  const dot = name.indexOf('.');
  return dot < 0 ? { group: '', resource: name } : { group: name.slice(dot + 1), resource: name.slice(0, dot) };
}

/** Upstream's series of its watch cache, read from ours when they are asked for. */
export function registerWatchCacheMetrics(registry: Registry, caches: () => Iterable<ResourceCache>): void {
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
    'Revision of the newest change that the cache has seen.',
    ({ lastChangeRevision: changed }) => changed,
  );
  gauge('apiserver_watch_cache_capacity', 'Events of the past that there is room for.', ({ ring }) => ring.capacity);
  counter('apiserver_watch_cache_events_received_total', 'Changes that came from the storage.', ({ receivedEvents: received }) => received);
  counter(
    'apiserver_watch_cache_events_dispatched_total',
    'Changes that were offered to watches.',
    ({ dispatchedEvents: dispatched }) => dispatched,
  );
  counter('apiserver_watch_cache_initializations_total', 'Times that everything was loaded anew.', ({ initializations: loads }) => loads);
  counter('apiserver_watch_cache_capacity_increase_total', 'Times that room for events was added.', ({ ring }) => ring.increases);
  counter('apiserver_watch_cache_capacity_decrease_total', 'Times that room for events was given back.', ({ ring }) => ring.decreases);
  counter(
    'apiserver_terminated_watchers_total',
    'Watches that were cut off since they did not keep up.',
    ({ watchers }) => watchers.terminatedWatchers,
  );
}
