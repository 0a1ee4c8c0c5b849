import type { AuditEvent, AuditSink } from '@oarlock/spi/audit';

/** Keeps what a destination takes; at most `bound` events wait for it. */
export class BufferedSink implements AuditSink {
  readonly #take: (events: readonly AuditEvent[]) => Promise<void>;
  readonly #bound: number;
  #waiting: AuditEvent[] = [];
  #giving: Promise<void> | undefined;
  #stopped = false;
  dropped = 0;

  constructor(bound: number, take: (events: readonly AuditEvent[]) => Promise<void>) {
    this.#bound = bound;
    this.#take = take;
  }

  record(event: AuditEvent): void {
    if (this.#stopped || this.#waiting.length >= this.#bound) {
      this.dropped += 1;
      return;
    }
    this.#waiting.push(event);
    this.#giving ??= this.#give();
  }

  async flush(): Promise<void> {
    while (this.#giving !== undefined) await this.#giving;
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.flush();
  }

  async #give(): Promise<void> {
    // in the next turn, with what has come together until then
    await Promise.resolve();
    while (this.#waiting.length > 0) await this.#take(this.#waiting.splice(0));
    this.#giving = undefined;
  }
}
