import type { Clock, Timer } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { RecordedSpan } from '@oarlock/spi/spans';

export interface ExporterOptions {
  readonly clock: Clock;
  readonly log: Logger;
  readonly send: (spans: readonly RecordedSpan[]) => Promise<void>;
  /** The maximum number of queued spans; further spans are dropped and counted. */
  readonly maxQueued?: number;
  readonly maxBatch?: number;
  readonly delayMs?: number;
}

/** Sends spans to a collector, one batch at a time, without blocking the code that ends a span. */
export class SpanExporter {
  readonly #options: Required<ExporterOptions>;
  #queue: RecordedSpan[] = [];
  #timer: Timer | undefined;
  #sending: Promise<void> | undefined;
  dropped = 0;

  constructor(options: ExporterOptions) {
    this.#options = { maxQueued: 10_000, maxBatch: 1_000, delayMs: 500, ...options };
  }

  add(span: RecordedSpan): void {
    if (this.#queue.length >= this.#options.maxQueued) {
      this.dropped += 1;
      return;
    }
    this.#queue.push(span);
    this.#arm();
  }

  /** Sends the queued spans. Never rejects: if the collector is unavailable, the spans are lost. */
  async flush(): Promise<void> {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#sending ??= this.#drain().finally(() => {
      this.#sending = undefined;
      if (this.#queue.length > 0) this.#arm(); // the rest after a failure
    });
    await this.#sending;
  }

  #arm(): void {
    if (this.#timer === undefined && this.#sending === undefined)
      this.#timer = this.#options.clock.after(this.#options.delayMs, () => {
        void this.flush();
      });
  }

  async #drain(): Promise<void> {
    while (this.#queue.length > 0) {
      const batch = this.#queue.splice(0, this.#options.maxBatch);
      try {
        await this.#options.send(batch);
      } catch (error) {
        this.dropped += batch.length;
        this.#options.log.warn({ error: (error as Error).message, dropped: this.dropped }, 'spans could not be exported');
        return;
      }
    }
  }
}
