import { spawn, type ChildProcess } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { Clock, Timer } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import { searchPath } from './run-program.ts';

export interface LineWatchOptions {
  readonly clock: Clock;
  readonly log: Logger;
  /** A program that tells of events, a line for each, and its arguments. */
  readonly command: readonly [string, ...string[]];
  /** What is not seen without it, for the log. */
  readonly what: string;
  line(text: string): void;
  /** It listens from now on: what came before may have been missed. */
  begun(): void;
}
const retryMs = 2_000;
const longestRetryMs = 60_000;

/** Keeps a program running that tells of events. */
export class LineWatch {
  readonly #options: LineWatchOptions;
  #child: ChildProcess | undefined;
  #timer: Timer | undefined;
  #retryMs = retryMs;
  #stopped = false;

  constructor(options: LineWatchOptions) {
    this.#options = options;
  }

  /** Does nothing when it runs already. */
  start(): void {
    if (this.#child || this.#stopped) return;
    const { clock, log, command, what, line, begun } = this.#options;
    // it has nobody to tell when this process is killed
    const child = spawn('setpriv', ['--pdeathsig', 'KILL', ...command], {
      env: { PATH: searchPath },
      stdio: ['ignore', 'pipe', 'ignore'],
      cwd: '/',
    });
    this.#child = child;
    let ended = false;
    const end = (why: string) => {
      if (ended) return;
      ended = true;
      this.#child = undefined;
      if (this.#stopped) return;
      log.warn({ why, retryInMs: this.#retryMs }, `${what} cannot be watched`);
      this.#timer = clock.after(this.#retryMs, () => this.start());
      // where it can never run, nobody wants to read of it all the time
      this.#retryMs = Math.min(longestRetryMs, this.#retryMs * 2);
    };
    child.once('spawn', begun);
    child.once('error', (error) => end(error.message));
    child.once('close', (code, signal) => end(`${command.join(' ')} ended with ${code ?? signal}`));
    createInterface({ input: child.stdout }).on('line', (text) => {
      this.#retryMs = retryMs;
      line(text);
    });
  }

  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
    this.#child?.kill('SIGKILL');
  }
}
