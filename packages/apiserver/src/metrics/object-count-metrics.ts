import type { Kind } from '@oarlock/api/kinds';
import { groupResource } from '@oarlock/api/resource';
import { Gauge, type Registry } from 'prom-client';

/**
 * Registers the number of stored objects by resource, which is computed at each scrape: as `apiserver_resource_objects`, and under the former name,
 * which dashboards use.
 */
export function registerObjectCountMetrics(
  registry: Registry,
  served: () => readonly Kind[],
  count: (group: string, version: string, resource: string) => number,
): void {
  const listableKinds = () => served().filter(({ verbs }) => verbs.includes('list'));
  registry.registerMetric(
    new Gauge({
      name: 'apiserver_resource_objects',
      help: 'Number of stored objects of a resource.',
      labelNames: ['group', 'resource'],
      registers: [],
      collect() {
        this.reset();
        for (const { group, version, resource } of listableKinds()) this.set({ group, resource }, count(group, version, resource));
      },
    }),
  );
  registry.registerMetric(
    new Gauge({
      name: 'apiserver_storage_objects',
      help: 'Number of stored objects of a resource, by its full name.',
      labelNames: ['resource'],
      registers: [],
      collect() {
        this.reset();
        for (const { group, version, resource } of listableKinds())
          this.set({ resource: groupResource({ group, resource }) }, count(group, version, resource));
      },
    }),
  );
}
