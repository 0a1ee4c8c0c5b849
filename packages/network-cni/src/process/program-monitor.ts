import { spawn, type ChildProcess } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { defaultPath } from '@oarlock/primitives/os/run-program';

export interface ProgramMonitorOptions {
  readonly clock: Clock;
  readonly log: Logger;
  /** A program that prints one line per event, with its arguments. */
  readonly command: readonly [string, ...string[]];
  /** What the program monitors, for log messages. */
  readonly subject: string;
  onLine(text: string): void;
  /** Called when the program has started. Events from before the start may have been missed. */
  onStart(): void;
}
const retryMs = 2_000;
const longestRetryMs = 60_000;

/** Keeps a program that reports events running, and restarts it when it exits. */
export class ProgramMonitor {
  readonly #options: ProgramMonitorOptions;
  #child: ChildProcess | undefined;
  #timer: Timer | undefined;
  #retryMs = retryMs;
  #stopped = false;

  constructor(options: ProgramMonitorOptions) {
    this.#options = options;
  }

  /** Starts the program. Does nothing if it is already running. */
  start(): void {
    if (this.#child || this.#stopped) return;
    const { clock, log, command, subject: what, onLine: line, onStart: startedAt } = this.#options;
    // the program ends with this process, even if it is killed
    const child = spawn('setpriv', ['--pdeathsig', 'KILL', ...command], {
      env: { PATH: defaultPath },
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
      log.warn({ why, retryInMs: this.#retryMs }, `cannot watch ${what}`);
      this.#timer = clock.after(this.#retryMs, () => this.start());
      // a program that can never run is not logged repeatedly
      this.#retryMs = Math.min(longestRetryMs, this.#retryMs * 2);
    };
    child.once('spawn', startedAt);
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
