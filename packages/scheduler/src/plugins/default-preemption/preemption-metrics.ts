import { Counter, exponentialBuckets, Histogram, type Registry } from 'prom-client';

/** The metrics of preemption, under upstream's names. */
export class PreemptionMetrics {
  readonly #attempts: Counter;
  readonly #victims: Histogram;

  constructor(registry: Registry) {
    this.#attempts = new Counter({
      name: 'scheduler_preemption_attempts_total',
      help: 'Number of preemption attempts in the cluster until now.',
      registers: [registry],
    });
    this.#victims = new Histogram({
      name: 'scheduler_preemption_victims',
      help: 'Number of selected preemption victims.',
      buckets: exponentialBuckets(1, 2, 7),
      registers: [registry],
    });
  }

  countAttempt(): void {
    this.#attempts.inc();
  }
  observeVictims(count: number): void {
    this.#victims.observe(count);
  }
}
