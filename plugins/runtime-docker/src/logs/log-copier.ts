import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { RuntimeError } from '@oarlock/spi/runtime';
import type { EngineClient } from '../engine/engine-client.ts';
import { hasCode } from '../engine/engine-errors.ts';
import type { EngineContainer } from '../engine/engine-types.ts';
import { LogFile } from './log-file.ts';
import { criLine, LogCursor, LogReader, sinceOf } from './log-records.ts';

interface Context {
  readonly clock: Clock;
  readonly log: Logger;
}
export interface LogSource {
  readonly id: string;
  readonly path: string;
  readonly tty: boolean;
}

const initialRetryDelayMs = 50;
const maxRetryDelayMs = 5_000;

/** Where the log is read from and written to. */
export interface LogCopierOptions {
  readonly source: LogSource;
  readonly context: Context;
  readonly file: LogFile;
}

/**
 * Copies the log of one container from the Docker engine to a CRI log file. A copy resumes where the file of an earlier copy ends.
 * The copy ends when the container has exited and the file contains the complete log.
 */
class LogCopier {
  readonly #engine: EngineClient;
  readonly #context: Context;
  readonly #source: LogSource;
  readonly #stop = new AbortController();
  readonly #started: Promise<void>;
  /** Starts the copy. The caller calls `begin` after the start of the container, whether the start succeeded or failed. */
  begin!: () => void;
  /** Aborts when the container has exited. The copier then reads the rest of the log once more. */
  readonly #following = new AbortController();
  #exited = false;
  #file: LogFile | undefined;
  #work: Promise<void> = Promise.resolve();
  /** Resolves when the file contains the complete log, or when the copy was stopped. */
  readonly complete: Promise<void>;

  constructor(engine: EngineClient, { source, context, file }: LogCopierOptions) {
    this.#engine = engine;
    this.#source = source;
    this.#context = context;
    this.#file = file;
    this.#started = new Promise((resolve) => {
      this.begin = resolve;
    });
    this.complete = this.#run(file);
  }

  get open(): boolean {
    return this.#file !== undefined && !this.#exited;
  }
  finish(): void {
    this.#exited = true;
    this.#following.abort();
  }
  async stop(): Promise<void> {
    this.#stop.abort();
    this.#following.abort();
    this.begin();
    await this.complete;
  }
  reopen(): Promise<void> {
    return this.#exclusive(async () => {
      if (!this.#file) throw new RuntimeError('FailedPrecondition', `container ${this.#source.id} is not running`);
      await this.#file.reopen();
    });
  }

  async #run(file: LogFile): Promise<void> {
    const { clock, log } = this.#context;
    const { signal } = this.#stop;
    try {
      await this.#started;
      const cursor = new LogCursor(await file.position());
      for (let retryDelayMs = initialRetryDelayMs; !signal.aborted; ) {
        const last = this.#exited || !(await this.#isRunning(signal));
        try {
          await this.#copyOnce(cursor, !last, last ? signal : this.#following.signal);
          if (last) return;
          retryDelayMs = initialRetryDelayMs;
        } catch (error) {
          if (signal.aborted || hasCode(error, 'NotFound')) return;
          if (this.#exited && !last) continue;
          log.debug({ container: this.#source.id, error: (error as Error).message }, 'cannot read the log of a container, retrying');
          await clock.sleep(retryDelayMs, this.#following.signal).catch(() => undefined); // the container's exit ends the wait
          retryDelayMs = Math.min(retryDelayMs * 2, maxRetryDelayMs);
        }
      }
    } catch (error) {
      if (!signal.aborted) log.warn({ container: this.#source.id, error: (error as Error).message }, 'cannot write the log of a container');
    } finally {
      await this.#exclusive(async () => {
        this.#file = undefined;
        await file.close();
      });
    }
  }

  /** Returns whether the container runs: false if it was removed, true if the engine does not answer. */
  async #isRunning(signal: AbortSignal): Promise<boolean> {
    try {
      return (await this.#engine.call<EngineContainer>('GET', `/containers/${this.#source.id}/json`, { signal })).State.Running;
    } catch (error) {
      return !hasCode(error, 'NotFound');
    }
  }

  async #copyOnce(cursor: LogCursor, follow: boolean, signal: AbortSignal): Promise<void> {
    cursor.rewind();
    const { position } = cursor;
    const response = await this.#engine.open('GET', `/containers/${this.#source.id}/logs`, {
      query: { stdout: true, stderr: true, timestamps: true, follow, ...(position && { since: sinceOf(position) }) },
      signal,
    });
    const reader = new LogReader(this.#source.tty);
    const write = async (records: Iterable<Parameters<typeof criLine>[0]>) => {
      const lines: Buffer[] = [];
      for (const record of records) if (cursor.isNew(record)) lines.push(...criLine(record));
      if (lines.length > 0) await this.#exclusive(() => this.#file?.append(Buffer.concat(lines)));
    };
    try {
      for await (const chunk of response) await write(reader.push(chunk as Buffer));
      await write(reader.end());
    } finally {
      response.destroy();
    }
  }

  #exclusive<T>(work: () => Promise<T> | T): Promise<T> {
    const done = this.#work.then(work);
    this.#work = done.then(
      () => undefined,
      () => undefined,
    );
    return done;
  }
}

/** Copies the logs of all containers that this node started. */
export class LogCopiers {
  readonly #engine: EngineClient;
  readonly #context: Context;
  readonly #copies = new Map<string, LogCopier>();

  constructor(engine: EngineClient, context: Context) {
    this.#engine = engine;
    this.#context = context;
  }

  /** Creates the log file of a container. The copy starts when `begin` is called, and continues until the container exits. */
  async prepare(source: LogSource): Promise<void> {
    if (this.#copies.has(source.id)) return;
    const file = await LogFile.open(source.path);
    this.#copies.set(source.id, new LogCopier(this.#engine, { source, context: this.#context, file }));
  }
  begin(id: string): void {
    this.#copies.get(id)?.begin();
  }

  /** Ends the copy after a container has exited. Resolves when the container's log is complete. */
  async finish(id: string): Promise<void> {
    this.#copies.get(id)?.finish();
    await this.complete(id);
  }
  async complete(id: string): Promise<void> {
    await this.#copies.get(id)?.complete;
  }

  /** Continues the log in a new file after a rotation. @throws RuntimeError `FailedPrecondition` if the container is not running */
  async reopen(id: string): Promise<void> {
    const copy = this.#copies.get(id);
    if (!copy?.open) throw new RuntimeError('FailedPrecondition', `container ${id} is not running`);
    await copy.reopen();
  }

  async forget(id: string): Promise<void> {
    const copy = this.#copies.get(id);
    this.#copies.delete(id);
    await copy?.stop();
  }
  async stop(): Promise<void> {
    await Promise.all([...this.#copies.values()].map((copy) => copy.stop()));
    this.#copies.clear();
  }
}
