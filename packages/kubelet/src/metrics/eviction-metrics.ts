import { Counter, type Registry } from 'prom-client';

/** The metrics of evictions by the kubelet. Evictions through the API are not counted. */
export class EvictionMetrics {
  readonly #evictions: Counter<'eviction_signal'>;

  constructor(registers: Registry[]) {
    this.#evictions = new Counter({
      name: 'kubelet_evictions',
      help: 'Cumulative number of pod evictions by eviction signal',
      registers,
      labelNames: ['eviction_signal'],
    });
  }

  evicted(signal: string): void {
    this.#evictions.inc({ eviction_signal: signal });
  }
}
