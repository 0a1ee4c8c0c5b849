import { mkdirSync, openSync } from 'node:fs';
import { close, write } from 'node:fs';
import { dirname } from 'node:path';

export type OutputName = 'stdout' | 'stderr';

/** The maximum content of one record, in bytes. A longer line becomes several records tagged P and a last one tagged F. */
const maxRecordBytes = 16 * 1024;
const newline = 10;

/** Formats a time for the CRI log: `2026-01-02T03:04:05.678901234Z`. */
export function criTime(milliseconds: number, nanoseconds = 0): string {
  return `${new Date(milliseconds).toISOString().slice(0, -1)}${String(nanoseconds % 1_000_000).padStart(6, '0')}Z`;
}

/** Converts the output of a program to records of a CRI log: time, stream, tag, content (kubernetes/design-proposals, CRI logging). */
export class RecordFormat {
  readonly #full: string;
  readonly #partial: string;
  #open: Buffer[] = [];
  #length = 0;

  constructor(stream: OutputName) {
    this.#full = ` ${stream} F `;
    this.#partial = ` ${stream} P `;
  }

  /** Returns the records that the chunk completes. */
  push(chunk: Buffer, time: string): Buffer[] {
    const out: Buffer[] = [];
    let start = 0;
    while (start < chunk.length) {
      const found = chunk.indexOf(newline, start);
      const end = found < 0 ? chunk.length : found;
      this.#take(chunk, { from: start, end, time, out });
      if (found >= 0) this.#emit(this.#full, time, out);
      start = end + 1;
    }
    return out;
  }

  /** Returns the record of a last line without a newline. */
  end(time: string): Buffer[] {
    const out: Buffer[] = [];
    if (this.#length > 0) this.#emit(this.#partial, time, out);
    return out;
  }

  #take(
    chunk: Buffer,
    { from, end, time, out }: { readonly from: number; readonly end: number; readonly time: string; readonly out: Buffer[] },
  ): void {
    let start = from;
    while (this.#length + end - start > maxRecordBytes) {
      const cut = start + maxRecordBytes - this.#length;
      this.#open.push(chunk.subarray(start, cut));
      this.#emit(this.#partial, time, out);
      start = cut;
    }
    if (end > start) {
      this.#open.push(chunk.subarray(start, end));
      this.#length += end - start;
    }
  }

  #emit(tag: string, time: string, out: Buffer[]): void {
    out.push(Buffer.from(time + tag), ...this.#open, newlineBytes);
    this.#open = [];
    this.#length = 0;
  }
}
const newlineBytes = Buffer.from('\n');

/** How many bytes may wait for the disk before the source is paused. */
const highWaterMark = 1024 * 1024;

/** A container's log file. It writes sequentially, in batches; a failed write loses its batch and is reported. */
export class LogFile {
  readonly #path: string;
  readonly #onError: (error: Error) => void;
  #fd: number;
  #pending: Buffer[] = [];
  #size = 0;
  #busy = false;
  #reopen: (() => void)[] = [];
  #idle: (() => void)[] = [];
  #drained: (() => void)[] = [];

  constructor(path: string, onError: (error: Error) => void) {
    this.#path = path;
    this.#onError = onError;
    this.#fd = LogFile.#open(path);
  }
  static #open(path: string): number {
    mkdirSync(dirname(path), { recursive: true, mode: 0o755 });
    return openSync(path, 'a', 0o600);
  }

  /** Appends records. Returns false if the source should wait for `drained`. */
  append(records: readonly Buffer[]): boolean {
    for (const record of records) {
      this.#pending.push(record);
      this.#size += record.length;
    }
    if (!this.#busy) this.#next();
    return this.#size < highWaterMark;
  }
  drained(then: () => void): void {
    if (this.#size < highWaterMark) then();
    else this.#drained.push(then);
  }

  /** Continues in a new file of the same name. */
  reopen(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#reopen.push(() => {
        try {
          const fresh = LogFile.#open(this.#path);
          close(this.#fd, () => {});
          this.#fd = fresh;
          resolve();
        } catch (error) {
          reject(error as Error);
        }
      });
      if (!this.#busy) this.#next();
    });
  }

  /** Resolves when all records are written. */
  flushed(): Promise<void> {
    return new Promise((resolve) => {
      if (!this.#busy && this.#pending.length === 0) resolve();
      else this.#idle.push(resolve);
    });
  }

  async close(): Promise<void> {
    await this.flushed();
    await new Promise<void>((resolve) => {
      close(this.#fd, () => resolve());
    });
  }

  #next(): void {
    for (const swap of this.#reopen.splice(0)) swap();
    if (this.#pending.length === 0) {
      this.#busy = false;
      for (const done of this.#idle.splice(0)) done();
      return;
    }
    this.#busy = true;
    const batch = Buffer.concat(this.#pending);
    this.#pending = [];
    this.#write(batch, 0);
  }

  #write(batch: Buffer, from: number): void {
    write(this.#fd, batch, from, batch.length - from, null, (error, bytesWritten) => {
      if (!error && from + bytesWritten < batch.length) {
        this.#write(batch, from + bytesWritten);
        return;
      }
      if (error) this.#onError(error);
      this.#size -= batch.length;
      if (this.#size < highWaterMark) for (const resume of this.#drained.splice(0)) resume();
      this.#next();
    });
  }
}
