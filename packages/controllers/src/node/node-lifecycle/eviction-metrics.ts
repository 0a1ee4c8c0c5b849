import { Counter, type Registry } from 'prom-client';

/** Counts evicted nodes, under upstream's name. */
export class EvictionMetrics {
  readonly #evictions: Counter<'zone'>;

  constructor(registry: Registry) {
    this.#evictions = new Counter({
      name: 'node_collector_evictions_total',
      help: 'Number of node evictions that happened since the start of the node controller.',
      labelNames: ['zone'],
      registers: [registry],
    });
  }

  /** @param zone region and zone of the node, as `region:\x00:zone` upstream */
  countEviction(zone: string): void {
    this.#evictions.inc({ zone });
  }
}
