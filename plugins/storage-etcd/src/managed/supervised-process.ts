import { spawn, type ChildProcess } from 'node:child_process';
import { open, rename, stat } from 'node:fs/promises';
import { Backoff } from '@oarlock/primitives/backoff';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { defaultPath } from '@oarlock/primitives/os/run-program';
import { permanentFailure } from './permanent-failure.ts';
import { findProcess, startTimeOf, type FoundProcess } from './process-table.ts';

export interface SupervisedProcessOptions {
  readonly program: string;
  /** Returns the arguments. Called for each start. */
  readonly arguments: () => readonly string[];
  /** The argument that only this process has on this machine. */
  readonly identity: string;
  /** Returns false for arguments that a process may lack: one with other values of them is adopted. */
  readonly isRelevant: (argument: string) => boolean;
  readonly env: Readonly<Record<string, string>>;
  readonly logFile: string;
  readonly clock: Clock;
  readonly log: Logger;
  readonly random: () => number;
}

interface RunningProcess extends FoundProcess {
  readonly ended: Promise<void>;
}

/** Interval in milliseconds at which an adopted process is checked: only the parent of a process receives its end. */
const adoptedCheckMs = 500;
/** Time in milliseconds after which a process that runs counts as started well, so that the next restart is immediate. */
const stableMs = 60_000;
const stopTimeoutMs = 10_000;
const maxLogBytes = 16 * 1024 * 1024;
const logTailBytes = 4096;

/**
 * A program in a process group and session of its own, which is started again when it ends. It survives the end of this process: the next one finds it by
 * its command line, and adopts it if its arguments have not changed.
 */
export class SupervisedProcess {
  readonly #options: SupervisedProcessOptions;
  readonly #backoff: Backoff;
  readonly #stopping = new AbortController();
  #current: RunningProcess | undefined;
  /** Called when the supervision has started the program again after `restart` has ended it. */
  #onReplaced: (() => void) | undefined;
  #supervision: Promise<void> = Promise.resolve();
  #restarts = 0;
  #failure: string | undefined;
  #lastEnd: string | undefined;
  /** Size of the log when the program started: earlier lines are those of former processes. */
  #logStart = 0;

  constructor(options: SupervisedProcessOptions) {
    this.#options = options;
    this.#backoff = new Backoff({ firstMs: 500, longestMs: 30_000, jitter: 0.2, random: options.random });
  }

  /** Number of restarts after an unexpected end. */
  get restarts(): number {
    return this.#restarts;
  }
  /** The reason of the last unexpected end, with the last line of the log; undefined while the program runs. */
  get failure(): string | undefined {
    return this.#failure;
  }
  /** The last line of the log at the last unexpected end, also while the program runs again; undefined if it has not ended. */
  get lastEnd(): string | undefined {
    return this.#lastEnd;
  }
  get pid(): number | undefined {
    return this.#current?.pid;
  }
  /** The command line of the program that runs. */
  get command(): readonly string[] {
    return this.#current?.command ?? [];
  }

  /** Starts the program, or adopts the one that runs. @throws Error if it cannot be started */
  async start(): Promise<void> {
    const { identity, program, log, isRelevant } = this.#options;
    const found = await findProcess(identity);
    const wanted = [program, ...this.#options.arguments()];
    const comparable = (command: readonly string[]) => command.filter(isRelevant).join('\0');
    if (found !== undefined && comparable(wanted) === comparable(found.command)) {
      log.info({ pid: found.pid }, 'adopted the running etcd member');
      this.#current = { ...found, ended: this.#endOf(found) };
    } else {
      if (found !== undefined) await this.#end(found);
      this.#current = await this.#spawn();
    }
    this.#supervision = this.#supervise();
  }

  /** Ends a program that a former process has left. */
  async endLeftover(): Promise<void> {
    const found = await findProcess(this.#options.identity);
    if (found !== undefined) await this.#end(found);
  }

  /** Ends the program and starts it with its current arguments. Resolves when the new one has been started, or could not be. */
  async restart(): Promise<void> {
    const { signal } = this.#stopping;
    // a program that does not run is started by the supervision, with its current arguments
    if (this.#current === undefined || signal.aborted) return;
    const replaced = new Promise<void>((resolve) => {
      this.#onReplaced = resolve;
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
    await this.#end(this.#current);
    await replaced;
  }

  /** Ends the program and its supervision. */
  async stop(): Promise<void> {
    this.#stopping.abort(new Error('the process is stopping'));
    if (this.#current !== undefined) await this.#end(this.#current);
    await this.#supervision;
    // a restart may have been under way
    if (this.#current !== undefined) await this.#end(this.#current);
  }

  async #supervise(): Promise<void> {
    const { clock, log } = this.#options;
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      const startedAt = clock.monotonic();
      await this.#current?.ended;
      if (signal.aborted) return;
      if (this.#onReplaced !== undefined) {
        await this.#replace();
        continue;
      }
      this.#lastEnd = await this.#lastLine();
      this.#failure = `etcd has ended: ${this.#lastEnd}`;
      if (clock.monotonic() - startedAt >= stableMs) this.#backoff.reset();
      const delayMs = Math.round(this.#backoff.next());
      log.error({ reason: this.#failure, delayMs }, 'the etcd member has ended and is started again');
      await clock.sleep(delayMs, signal).catch(() => undefined); // aborted: the loop ends
      if (signal.aborted) return;
      this.#restarts += 1;
      await this.#spawnAgain();
    }
  }

  async #replace(): Promise<void> {
    await this.#spawnAgain();
    this.#onReplaced?.();
    this.#onReplaced = undefined;
  }

  async #spawnAgain(): Promise<void> {
    try {
      this.#current = await this.#spawn();
      this.#failure = undefined;
    } catch (error) {
      this.#failure = (error as Error).message;
      this.#current = undefined;
    }
  }

  async #spawn(): Promise<RunningProcess> {
    const { program, env, logFile } = this.#options;
    await rotate(logFile);
    const output = await open(logFile, 'a', 0o600);
    let child: ChildProcess;
    let ended: Promise<void>;
    const args = this.#options.arguments();
    try {
      this.#logStart = (await output.stat()).size;
      child = spawn(program, args, {
        detached: true,
        env: { PATH: defaultPath, ...env },
        stdio: ['ignore', output.fd, output.fd],
        cwd: '/',
      });
      // before any wait: a program may end at once
      ended = new Promise((resolve) => {
        child.once('exit', () => resolve());
      });
      await new Promise<void>((resolve, reject) => {
        child.once('spawn', resolve);
        child.once('error', reject);
      });
    } finally {
      await output.close();
    }
    // the supervision must not keep the process alive
    child.unref();
    const pid = child.pid ?? 0;
    return { pid, startTime: (await startTimeOf(pid)) ?? '', command: [program, ...args], ended };
  }

  /** Resolves when a process that this process did not start has ended. */
  async #endOf({ pid, startTime }: FoundProcess): Promise<void> {
    while ((await startTimeOf(pid)) === startTime)
      if (
        await this.#options.clock.sleep(adoptedCheckMs, this.#stopping.signal).then(
          () => false,
          () => true,
        )
      )
        return;
  }

  async #end({ pid, startTime }: { readonly pid: number; readonly startTime: string }): Promise<void> {
    const { clock, log } = this.#options;
    const deadline = clock.monotonic() + stopTimeoutMs;
    const runs = async () => (await startTimeOf(pid)) === startTime;
    if (await runs()) sendSignal(pid, 'SIGTERM');
    while (await runs()) {
      if (clock.monotonic() > deadline) {
        log.warn({ pid }, `the etcd member did not end within ${stopTimeoutMs} ms and is killed`);
        sendSignal(pid, 'SIGKILL');
      }
      await clock.sleep(20);
    }
  }

  /** Returns the last line of the log, or why the log cannot be written: its last line is then an older one, which has nothing to do with the end. */
  async #lastLine(): Promise<string> {
    const lines = (await this.recentLog()).trimEnd().split('\n');
    const permanent = lines.find((line) => permanentFailure(line) !== undefined);
    if (permanent !== undefined) return readable(permanent);
    const failed = await appendLine(this.#options.logFile, 'the program has ended').catch((error: Error) => error);
    return failed === undefined ? readable(lines.at(-1) ?? '') : `its log cannot be written: ${failed.message}`;
  }

  /** Returns the end of the log of the program, or why the log cannot be read. */
  async recentLog(): Promise<string> {
    try {
      const file = await open(this.#options.logFile);
      try {
        const { size } = await file.stat();
        const length = Math.min(size - Math.min(this.#logStart, size), logTailBytes);
        const { buffer } = await file.read(Buffer.alloc(length), 0, length, size - length);
        return buffer.toString('utf8');
      } finally {
        await file.close();
      }
    } catch (error) {
      return `its log cannot be read: ${(error as Error).message}`;
    }
  }
}

/** Writes a line to the disk. @throws the system error */
async function appendLine(path: string, line: string): Promise<undefined> {
  const file = await open(path, 'a', 0o600);
  try {
    await file.write(`${line}\n`);
    await file.datasync();
  } finally {
    await file.close();
  }
}

/** Returns the message and the error of a line of the log, which is JSON, without the stack trace. Returns a line of another form as it is. */
function readable(line: string): string {
  try {
    const { msg, error } = JSON.parse(line) as { readonly msg?: string; readonly error?: string };
    return [msg, error].filter((part) => part !== undefined).join(': ');
  } catch {
    return line; // such as a panic of Go
  }
}

function sendSignal(pid: number, signal: 'SIGTERM' | 'SIGKILL'): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

/** Keeps at most two log files of the maximum size. */
async function rotate(file: string): Promise<void> {
  try {
    if ((await stat(file)).size > maxLogBytes) await rename(file, `${file}.1`);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
}
