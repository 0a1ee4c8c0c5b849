import { stringifyExact } from '@oarlock/api/exact-json';
import type { AuditEvent, AuditSink } from '@oarlock/spi/audit';

export interface EventWriterOptions {
  readonly mode: 'blocking' | 'blocking-strict' | 'batch';
  readonly bufferSize: number;
  append(text: string): Promise<void>;
  /** Told of events that are lost; without an error, because too many wait. */
  lost(events: number, error?: unknown): void;
}

/** Writes events in order. What comes while a write is under way is written together in the next one. */
export class EventWriter implements AuditSink {
  readonly #options: EventWriterOptions;
  #lines: string[] = [];
  #inFlight = 0;
  #open = false;
  /** Of the write that takes what waits now. */
  #next: Promise<void> | undefined;
  #current: Promise<void> = Promise.resolve();

  constructor(options: EventWriterOptions) {
    this.#options = options;
  }

  open(): void {
    this.#open = true;
  }

  record(event: AuditEvent): void | Promise<void> {
    const { mode, bufferSize, lost } = this.#options;
    if (!this.#open || (mode === 'batch' && this.#lines.length + this.#inFlight >= bufferSize)) {
      lost(1);
      return;
    }
    this.#lines.push(`${stringifyExact(event)}\n`);
    if (this.#next === undefined) {
      const next = this.#current.then(() => this.#write());
      this.#next = next;
      this.#current = next.catch(() => undefined); // told of where it was lost
    }
    if (mode === 'blocking') return this.#current;
    if (mode === 'blocking-strict') return this.#next;
  }

  async stop(): Promise<void> {
    this.#open = false;
    await this.#current;
  }

  async #write(): Promise<void> {
    const lines = this.#lines;
    this.#lines = [];
    this.#next = undefined;
    this.#inFlight = lines.length;
    try {
      await this.#options.append(lines.join(''));
    } catch (error) {
      this.#options.lost(lines.length, error);
      throw error;
    } finally {
      this.#inFlight = 0;
    }
  }
}
