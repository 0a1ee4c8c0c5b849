import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import { RuntimeError } from '@oarlock/spi/runtime';
import type { EngineClient } from './engine-client.ts';
import { hasCode } from './engine-errors.ts';
import type { EngineContainer } from './engine-shapes.ts';
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

const firstPauseMs = 50;
const longestPauseMs = 5_000;

/** Copies one container's log from the engine into a file in CRI format, from where an earlier copy ended to the end of the container. */
class LogCopy {
  readonly #engine: EngineClient;
  readonly #context: Context;
  readonly #source: LogSource;
  readonly #stop = new AbortController();
  readonly #begun: Promise<void>;
  /** The container has been started, or could not be: there is something to read, or nothing any more. */
  begin!: () => void;
  /** Aborts when the container has ended: what follows is a last look. */
  readonly #following = new AbortController();
  #ended = false;
  #file: LogFile | undefined;
  #work: Promise<void> = Promise.resolve();
  /** Resolves when all of the log is in the file, or the copy was stopped. */
  readonly complete: Promise<void>;

  constructor(engine: EngineClient, source: LogSource, context: Context, file: LogFile) {
    this.#engine = engine;
    this.#source = source;
    this.#context = context;
    this.#file = file;
    this.#begun = new Promise((resolve) => {
      this.begin = resolve;
    });
    this.complete = this.#run(file);
  }

  get open(): boolean {
    return this.#file !== undefined && !this.#ended;
  }
  ended(): void {
    this.#ended = true;
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
      if (!this.#file) throw new RuntimeError('FailedPrecondition', `container ${this.#source.id} does not run`);
      await this.#file.reopen();
    });
  }

  async #run(file: LogFile): Promise<void> {
    const { clock, log } = this.#context;
    const { signal } = this.#stop;
    try {
      await this.#begun;
      const cursor = new LogCursor(await file.position());
      for (let pause = firstPauseMs; !signal.aborted; ) {
        const last = this.#ended || !(await this.#runs(signal));
        try {
          await this.#pass(cursor, !last, last ? signal : this.#following.signal);
          if (last) return;
          pause = firstPauseMs;
        } catch (error) {
          if (signal.aborted || hasCode(error, 'NotFound')) return;
          if (this.#ended && !last) continue;
          log.debug({ container: this.#source.id, error: (error as Error).message }, 'a log could not be read on; trying again');
          await clock.sleep(pause, this.#following.signal).catch(() => undefined); // its end ends the wait
          pause = Math.min(pause * 2, longestPauseMs);
        }
      }
    } catch (error) {
      if (!signal.aborted) log.warn({ container: this.#source.id, error: (error as Error).message }, 'a log could not be written');
    } finally {
      await this.#exclusive(async () => {
        this.#file = undefined;
        await file.close();
      });
    }
  }

  /** False too when it is gone; true when the engine does not answer. */
  async #runs(signal: AbortSignal): Promise<boolean> {
    try {
      return (await this.#engine.call<EngineContainer>('GET', `/containers/${this.#source.id}/json`, { signal })).State.Running;
    } catch (error) {
      return !hasCode(error, 'NotFound');
    }
  }

  async #pass(cursor: LogCursor, follow: boolean, signal: AbortSignal): Promise<void> {
    cursor.rewind();
    const { position } = cursor;
    const answer = await this.#engine.open('GET', `/containers/${this.#source.id}/logs`, {
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
      for await (const chunk of answer) await write(reader.push(chunk as Buffer));
      await write(reader.end());
    } finally {
      answer.destroy();
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

/** The logs of the containers that this node started. */
export class LogCopies {
  readonly #engine: EngineClient;
  readonly #context: Context;
  readonly #copies = new Map<string, LogCopy>();

  constructor(engine: EngineClient, context: Context) {
    this.#engine = engine;
    this.#context = context;
  }

  /** The file is there when this resolves; `begin` lets the copy go on until the container's end. */
  async prepare(source: LogSource): Promise<void> {
    if (this.#copies.has(source.id)) return;
    const file = await LogFile.open(source.path);
    this.#copies.set(source.id, new LogCopy(this.#engine, source, this.#context, file));
  }
  begin(id: string): void {
    this.#copies.get(id)?.begin();
  }

  /** The container has ended. Resolves when its log is complete. */
  async ended(id: string): Promise<void> {
    this.#copies.get(id)?.ended();
    await this.complete(id);
  }
  async complete(id: string): Promise<void> {
    await this.#copies.get(id)?.complete;
  }

  /** @throws RuntimeError `FailedPrecondition` when it does not run */
  async reopen(id: string): Promise<void> {
    const copy = this.#copies.get(id);
    if (!copy?.open) throw new RuntimeError('FailedPrecondition', `container ${id} does not run`);
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
