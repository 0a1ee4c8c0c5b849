import { stringifyExact } from '@oarlock/api/json/exact-json';
import type { Clock } from '@oarlock/primitives/clock';
import type { AuditEvent, AuditSink } from '@oarlock/spi/audit';
import { LineBuffer } from './line-buffer.ts';

export interface EventWriterOptions {
  readonly mode: 'blocking' | 'blocking-strict' | 'batch';
  readonly bufferSize: number;
  /** Maximum size of all buffered events in `batch` mode, in bytes; further ones are dropped. */
  readonly maxBufferedBytes?: number;
  /** In `batch` mode, how long a write waits for further events. Absent or 0: not at all. */
  readonly batchMaxWaitMs?: number;
  /** Required with `batchMaxWaitMs`. */
  readonly clock?: Clock;
  /** Appends lines. The bytes are valid until the promise settles. */
  append(lines: Uint8Array): Promise<void>;
  /** Called for lost events; without error if the buffer is full. */
  onLost(events: number, error?: unknown): void;
}

/** Default bound of the buffered events: events of level RequestResponse contain whole objects. */
const defaultMaxBufferedBytes = 64 * 1024 * 1024;
/** Events that are written without waiting for further ones in `batch` mode. */
const batchMaxSize = 1000;

/** Writes events in order. Events that arrive during a write, or in `batch` mode within `batchMaxWaitMs`, are combined in the next write. */
export class EventWriter implements AuditSink {
  readonly #options: EventWriterOptions;
  #lines = new LineBuffer();
  /** The lines of the current write; the buffers take turns. */
  #writing = new LineBuffer();
  #inFlight = 0;
  #open = false;
  /** Ends the wait for further events. */
  #endWait: (() => void) | undefined;
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
    const { mode, bufferSize, maxBufferedBytes = defaultMaxBufferedBytes, onLost: lost } = this.#options;
    // in the blocking modes, the requests that wait bound the buffer
    const isFull = this.#lines.lines + this.#inFlight >= bufferSize || this.#lines.size + this.#writing.size >= maxBufferedBytes;
    if (!this.#open || (mode === 'batch' && isFull)) {
      lost(1);
      return;
    }
    this.#lines.add(stringifyExact(event));
    if (this.#next === undefined) {
      const next = Promise.all([this.#current, this.#waitForEvents()]).then(() => this.#write());
      this.#next = next;
      this.#current = next.catch(() => undefined); // errors are reported by onLost
    }
    if (this.#lines.lines >= batchMaxSize) this.#endWait?.();
    if (mode === 'blocking') return this.#current;
    if (mode === 'blocking-strict') return this.#next;
  }

  async stop(): Promise<void> {
    this.#open = false;
    this.#endWait?.();
    await this.#current;
  }

  #waitForEvents(): Promise<void> | undefined {
    const { mode, batchMaxWaitMs = 0, clock } = this.#options;
    if (mode !== 'batch' || batchMaxWaitMs === 0 || clock === undefined) return undefined;
    return new Promise((resolve) => {
      const timer = clock.after(batchMaxWaitMs, resolve);
      this.#endWait = () => {
        timer.cancel();
        resolve();
      };
    });
  }

  async #write(): Promise<void> {
    const lines = this.#lines;
    this.#lines = this.#writing;
    this.#writing = lines;
    this.#next = undefined;
    this.#inFlight = lines.lines;
    try {
      await this.#options.append(lines.bytes);
    } catch (error) {
      this.#options.onLost(lines.lines, error);
      throw error;
    } finally {
      lines.clear();
      this.#inFlight = 0;
    }
  }
}
