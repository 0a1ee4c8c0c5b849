import { stringifyExact } from '@oarlock/api/json/exact-json';
import type { AuditEvent, AuditSink } from '@oarlock/spi/audit';

/** Default bound of the buffered events, in characters of JSON: events of level RequestResponse contain whole objects. */
const defaultMaxBufferedLength = 64 * 1024 * 1024;

export interface EventWriterOptions {
  readonly mode: 'blocking' | 'blocking-strict' | 'batch';
  readonly bufferSize: number;
  /** Maximum length of all buffered events in `batch` mode, in characters of JSON; further ones are dropped. */
  readonly maxBufferedLength?: number;
  append(text: string): Promise<void>;
  /** Called for lost events; without error if the buffer is full. */
  onLost(events: number, error?: unknown): void;
}

/** Writes events in order. Events that arrive during a write are combined in the next write. */
export class EventWriter implements AuditSink {
  readonly #options: EventWriterOptions;
  #lines: string[] = [];
  #inFlight = 0;
  #length = 0;
  #open = false;
  /** The write that will take the buffered events. */
  #next: Promise<void> | undefined;
  #current: Promise<void> = Promise.resolve();

  constructor(options: EventWriterOptions) {
    this.#options = options;
  }

  open(): void {
    this.#open = true;
  }

  record(event: AuditEvent): void | Promise<void> {
    const { mode, bufferSize, maxBufferedLength = defaultMaxBufferedLength, onLost } = this.#options;
    // in the blocking modes, the requests that wait bound the buffer
    if (!this.#open || (mode === 'batch' && (this.#lines.length + this.#inFlight >= bufferSize || this.#length >= maxBufferedLength))) {
      onLost(1);
      return;
    }
    const line = `${stringifyExact(event)}\n`;
    this.#lines.push(line);
    this.#length += line.length;
    if (this.#next === undefined) {
      const next = this.#current.then(() => this.#write());
      this.#next = next;
      this.#current = next.catch(() => undefined); // errors are reported by onLost
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
      this.#options.onLost(lines.length, error);
      throw error;
    } finally {
      this.#inFlight = 0;
      for (const { length } of lines) this.#length -= length;
    }
  }
}
