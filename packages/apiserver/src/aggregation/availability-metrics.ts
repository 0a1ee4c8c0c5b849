import { Counter, Gauge, type Registry } from 'prom-client';

/** The availability of APIServices, under upstream's names. */
export class AvailabilityMetrics {
  readonly #unavailable: Gauge<'name'>;
  readonly #outages: Counter<'name' | 'reason'>;
  readonly #available = new Map<string, boolean>();

  constructor(registry: Registry) {
    this.#unavailable = new Gauge({
      name: 'aggregator_unavailable_apiservice',
      help: 'APIServices that are marked as unavailable, by the name of the APIService: 1, others 0.',
      labelNames: ['name'],
      registers: [registry],
    });
    this.#outages = new Counter({
      name: 'aggregator_unavailable_apiservice_total',
      help: 'Number of times that an APIService became unavailable, by its name and the reason of the condition.',
      labelNames: ['name', 'reason'],
      registers: [registry],
    });
  }

  observe(name: string, { status, reason = '' }: { readonly status: string; readonly reason?: string | undefined }): void {
    const available = status === 'True';
    if (!available && this.#available.get(name) !== false) this.#outages.inc({ name, reason });
    this.#available.set(name, available);
    this.#unavailable.set({ name }, available ? 0 : 1);
  }

  /** Removes the series of a deleted APIService. */
  forget(name: string): void {
    this.#available.delete(name);
    this.#unavailable.remove({ name });
  }
}
