import { stringifyExact } from '@oarlock/api/json/exact-json';
import type { Clock } from '@oarlock/primitives/clock';
import type { AuditEvent, AuditSink } from '@oarlock/spi/audit';
import { LineBuffer } from './line-buffer.ts';

export interface EventWriterOptions {
  readonly mode: 'blocking' | 'blocking-strict' | 'batch';
  readonly bufferSize: number;
  /** The maximum size of all buffered events in mode `batch`, in bytes. Events beyond the limit are dropped. */
  readonly maxBufferedBytes?: number;
  /** How long a write waits for further events in mode `batch`. With undefined or 0, a write does not wait. */
  readonly batchMaxWaitMs?: number;
  /** The clock, which `batchMaxWaitMs` requires. */
  readonly clock?: Clock;
  /** Appends lines to the file. The caller keeps the bytes unchanged until the promise settles. */
  append(lines: Uint8Array): Promise<void>;
  /** Called when events are lost. `error` is undefined if they were dropped because the buffer is full. */
  onLost(events: number, error?: unknown): void;
}

/** The default limit of the buffered events in bytes. Events of level RequestResponse contain whole objects. */
const defaultMaxBufferedBytes = 64 * 1024 * 1024;
/** The number of buffered events at which a write in mode `batch` starts without waiting for more. */
const batchMaxSize = 1000;

/** Writes events in order. Events that arrive during a write, or in mode `batch` within `batchMaxWaitMs`, are combined in the next write. */
export class EventWriter implements AuditSink {
  readonly #options: EventWriterOptions;
  #lines = new LineBuffer();
  /** The lines of the current write. After the write, this buffer and the buffer of new lines are swapped. */
  #writing = new LineBuffer();
  #inFlight = 0;
  #open = false;
  /** Ends the current wait for further events; undefined if no write waits. */
  #endWait: (() => void) | undefined;
  /** The pending write that will contain the buffered events; undefined if there is none. */
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
