import type { Clock } from '@oarlock/primitives/clock';
import type { Registry } from 'prom-client';
import { PrecomputedHistogram, type Observer } from '@oarlock/kernel/precomputed-metrics';

/** The default buckets of Prometheus histograms, in seconds. */
const buckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/** The metrics of the compilation and evaluation times of validation rules. */
export class RuleMetrics {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #compilation: Observer;
  readonly #evaluation: Observer;

  constructor(registry: Registry, clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
    const of = (what: string, help: string) =>
      new PrecomputedHistogram({ name: `apiserver_cel_${what}_duration_seconds`, help, labelNames: [], buckets, registry }).series({});
    this.#compilation = of('compilation', 'CEL compilation time in seconds.');
    this.#evaluation = of('evaluation', 'CEL evaluation time in seconds.');
  }

  timeCompilation<T>(run: () => T): T {
    return this.#time(this.#compilation, run);
  }
  timeEvaluation<T>(run: () => T): T {
    return this.#time(this.#evaluation, run);
  }

  #time<T>(observer: Observer, run: () => T): T {
    const began = this.#clock.monotonic();
    try {
      return run();
    } finally {
      observer.observe((this.#clock.monotonic() - began) / 1000);
    }
  }
}
