import { Gauge, Histogram, type Registry } from 'prom-client';

/** One relist: its start on the wall clock and on the monotonic clock, and its duration. Milliseconds. */
export interface Relist {
  readonly startedAt: number;
  readonly monotonic: number;
  readonly took: number;
}

/** The metrics of the relists of all runtimes of the process. Events of the runtimes are not measured. */
export class PLEGMetrics {
  readonly #duration: Histogram;
  readonly #interval: Histogram;
  readonly #lastSeen: Gauge;

  constructor(registers: Registry[]) {
    this.#duration = new Histogram({
      name: 'kubelet_pleg_relist_duration_seconds',
      help: 'Duration in seconds for relisting pods in PLEG.',
      registers,
    });
    this.#interval = new Histogram({
      name: 'kubelet_pleg_relist_interval_seconds',
      help: 'Interval in seconds between relisting in PLEG.',
      registers,
    });
    this.#lastSeen = new Gauge({
      name: 'kubelet_pleg_last_seen_seconds',
      help: 'Timestamp in seconds when PLEG was last seen active.',
      registers,
    });
  }

  /** Observes a relist that succeeded. `previous` is the preceding relist of the same runtime. */
  relisted({ startedAt, monotonic, took }: Relist, previous: Relist | undefined): void {
    this.#duration.observe(took / 1000);
    if (previous !== undefined) this.#interval.observe((monotonic - previous.monotonic) / 1000);
    this.#lastSeen.set(Math.floor(startedAt / 1000));
  }
}
