import { execFile } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';
import { PassThrough, type Readable, type Writable } from 'node:stream';
import type { Clock } from '@oarlock/primitives/clock';
import type { ContainerProcess } from '@oarlock/process-supervisor/containers/container-process';
import { openInput, openOutput } from '@oarlock/process-supervisor/containers/pipes';
import { startTime } from '@oarlock/process-supervisor/host/process-table';
import { awaitFile } from './await-file.ts';

export interface ProcessStreams {
  readonly stdin: Writable | undefined;
  readonly stdout: Readable;
  readonly stderr: Readable | undefined;
}
export interface OciProcessOptions extends ProcessStreams {
  /** The first process of the command, as the supervisor sees it. */
  readonly pid: number;
  readonly started: string | undefined;
  readonly tty: boolean;
  readonly exited: Promise<number | undefined>;
  /** util-linux's stty. */
  readonly stty: string | undefined;
}

const sttyTimeoutMs = 5_000;
const isSize = (value: number) => Number.isInteger(value) && value >= 0 && value <= 65_535;

/** A command in a container of an OCI runtime. It is signaled directly, not through the program that waits for it. */
export class OciProcess implements ContainerProcess {
  readonly #options: OciProcessOptions;
  readonly exited: Promise<number | undefined>;

  constructor(options: OciProcessOptions) {
    this.#options = options;
    this.exited = options.exited;
    for (const stream of [options.stdin, options.stdout, options.stderr]) stream?.on('error', () => {}); // handled by 'close'
  }

  get pid(): number {
    return this.#options.pid;
  }
  get stdin(): Writable | undefined {
    return this.#options.stdin;
  }
  get stdout(): Readable {
    return this.#options.stdout;
  }
  get stderr(): Readable | undefined {
    return this.#options.stderr;
  }

  signal(signal: number): void {
    if (isSame(this.#options)) send(this.pid, signal);
  }

  /** Kills the process and its group. A control group kills processes that left the group. */
  kill(): void {
    if (!isSame(this.#options)) return;
    send(-this.pid, constants.signals.SIGKILL);
    send(this.pid, constants.signals.SIGKILL);
  }

  async resize({ width, height }: { readonly width: number; readonly height: number }): Promise<void> {
    const { stty, tty } = this.#options;
    if (!tty || stty === undefined || !isSize(width) || !isSize(height) || !isSame(this.#options)) return;
    // the descriptor leads to the terminal inside the container
    const size = ['-F', `/proc/${this.pid}/fd/0`, 'rows', String(height), 'cols', String(width)];
    await new Promise<void>((resolve) => {
      execFile(stty, size, { timeout: sttyTimeoutMs }, () => resolve());
    });
  }
}

interface ProcessIdentity {
  readonly pid: number;
  readonly started: string | undefined;
}

/** Returns true if the process with this pid is still the one that was started. */
export const isSame = ({ pid, started }: ProcessIdentity): boolean => started !== undefined && startTime(pid) === started;

function send(pid: number, signal: number): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (!['ESRCH', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
  }
}

/** Names of the files in a container's directory that outlive a supervisor. */
export const exitFile = 'exit';
export const pidFile = 'pid';

/** Returns the exit code that the container's holder wrote, and when; undefined if it has not. */
export function readExit(directory: string): { readonly exitCode: number; readonly finishedAt: number } | undefined {
  try {
    const path = join(directory, exitFile);
    const text = /^(\d{1,3})\n$/.exec(readFileSync(path, 'latin1'))?.[1];
    return text === undefined ? undefined : { exitCode: Number(text), finishedAt: Math.floor(statSync(path).mtimeMs) };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** How often the process of an adopted container is looked at: its exit is an event only for its parent. */
const livenessIntervalMs = 500;
/** How long after the end of the process its holder may take to write the exit code. */
const holderGraceMs = 2_000;

/** Waits for the end of a container that is not a child of this process. Resolves with undefined if the exit code is lost. */
export async function adoptedExit(identity: ProcessIdentity, directory: string, clock: Clock): Promise<number | undefined> {
  const stop = new AbortController();
  const exitWrite = awaitFile(join(directory, exitFile), () => readExit(directory), stop.signal);
  const dead = (async () => {
    while (!stop.signal.aborted && isSame(identity)) await clock.sleep(livenessIntervalMs);
    await clock.sleep(holderGraceMs, stop.signal).catch(() => {});
  })();
  try {
    await Promise.race([exitWrite, dead]);
    // a holder that was killed alone writes the signal's code while the container runs on
    while (isSame(identity)) await clock.sleep(livenessIntervalMs);
    return readExit(directory)?.exitCode;
  } finally {
    stop.abort();
  }
}

/** Opens the pipes of a container again that an earlier supervisor started. */
export function adoptedStreams(directory: string, { stdin, tty }: { readonly stdin: boolean; readonly tty: boolean }): ProcessStreams {
  return {
    stdin: stdin ? openInput(join(directory, 'stdin')) : undefined,
    stdout: reopen(join(directory, 'stdout')),
    stderr: tty ? undefined : reopen(join(directory, 'stderr')),
  };
}

/** Opens an output pipe; an ended stream if it is lost. */
function reopen(path: string): Readable {
  try {
    return openOutput(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    const ended = new PassThrough();
    ended.destroy();
    return ended;
  }
}
