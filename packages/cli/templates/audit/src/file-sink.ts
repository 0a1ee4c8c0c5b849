import { appendFile, mkdir, rename, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { AuditEvent, AuditSink } from '@oarlock/spi/audit';

export interface FileSinkOptions {
  readonly file: string;
  /** Maximum number of events that wait to be written. */
  readonly waiting: number;
  readonly maxBytes: number;
  /** Called for events that are lost, with the reason. */
  lost(events: number, reason: string): void;
}

/** Appends events to a file in order, one line each. */
export class FileSink implements AuditSink {
  readonly #options: FileSinkOptions;
  #waiting: string[] = [];
  #writing: Promise<void> | undefined;
  #inFlight = 0;
  #bytes = 0;
  #open = false;

  constructor(options: FileSinkOptions) {
    this.#options = options;
  }

  async start(): Promise<void> {
    await mkdir(dirname(this.#options.file), { recursive: true, mode: 0o700 });
    this.#bytes = await stat(this.#options.file).then(
      ({ size }) => size,
      () => 0,
    );
    this.#open = true;
  }

  record(event: AuditEvent): void {
    if (!this.#open) return this.#options.lost(1, 'the sink is not running');
    if (this.#waiting.length + this.#inFlight >= this.#options.waiting) return this.#options.lost(1, 'too many events are waiting');
    this.#waiting.push(`${JSON.stringify(event)}\n`);
    this.#writing ??= this.#write();
  }

  /** Resolves when all recorded events are written. */
  async flush(): Promise<void> {
    await this.#writing;
  }

  async stop(): Promise<void> {
    this.#open = false;
    await this.flush();
  }

  async #write(): Promise<void> {
    while (this.#waiting.length > 0) {
      const lines = this.#waiting;
      this.#waiting = [];
      this.#inFlight = lines.length;
      try {
        await this.#append(lines.join(''));
      } catch (error) {
        this.#options.lost(lines.length, (error as Error).message);
      }
      this.#inFlight = 0;
    }
    this.#writing = undefined;
  }

  async #append(text: string): Promise<void> {
    const { file, maxBytes } = this.#options;
    const size = Buffer.byteLength(text);
    if (this.#bytes > 0 && this.#bytes + size > maxBytes) {
      await rename(file, `${file}.1`);
      this.#bytes = 0;
    }
    await appendFile(file, text, { mode: 0o600 });
    this.#bytes += size;
  }
}
