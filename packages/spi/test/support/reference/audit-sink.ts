import type { AuditEvent, AuditSink } from '@oarlock/spi/audit';

/** A sink that passes events to a destination and buffers at most `bound`. */
export class BufferedSink implements AuditSink {
  readonly #take: (events: readonly AuditEvent[]) => Promise<void>;
  readonly #bound: number;
  #buffer: AuditEvent[] = [];
  #flushing: Promise<void> | undefined;
  #stopped = false;
  dropped = 0;

  constructor(bound: number, take: (events: readonly AuditEvent[]) => Promise<void>) {
    this.#bound = bound;
    this.#take = take;
  }

  record(event: AuditEvent): void {
    if (this.#stopped || this.#buffer.length >= this.#bound) {
      this.dropped += 1;
      return;
    }
    this.#buffer.push(event);
    this.#flushing ??= this.#flushBuffer();
  }

  async flush(): Promise<void> {
    while (this.#flushing !== undefined) await this.#flushing;
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.flush();
  }

  async #flushBuffer(): Promise<void> {
    // one microtask later, so that events recorded together are passed together
    await Promise.resolve();
    while (this.#buffer.length > 0) await this.#take(this.#buffer.splice(0));
    this.#flushing = undefined;
  }
}
