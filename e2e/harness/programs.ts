import { spawn, type ChildProcess } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { readdir, readFile } from 'node:fs/promises';
import { constants } from 'node:os';
import { patienceMs, until } from './until.ts';

export interface Finished {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
  /** In milliseconds. */
  readonly took: number;
}

export interface RunOptions {
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly cwd?: string;
  /** Written to stdin, which is then closed. If absent, the program has no stdin. */
  readonly input?: string | Buffer;
  /** The program is killed after this time. Default: slightly more than `patienceMs`, so that the program reports its own timeout first. */
  readonly timeoutMs?: number;
  readonly uid?: number;
  readonly gid?: number;
}

const maxOutput = 16 << 20;

/** The exit code that a shell reports: 128 + the number of a signal. */
const exitCodeOf = (code: number | null, signal: NodeJS.Signals | null): number =>
  code ?? 128 + (signal === null ? 0 : constants.signals[signal]);

/** Runs a program until it exits. A signal yields exit code 128 + its number: 137 for a timeout. */
export async function runProgram(file: string, args: readonly string[], options: RunOptions = {}): Promise<Finished> {
  const { input, timeoutMs = patienceMs + 60_000, env, cwd, uid, gid } = options;
  const began = performance.now();
  const child = spawn(file, args, {
    stdio: [input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
    timeout: timeoutMs,
    killSignal: 'SIGKILL',
    ...(env && { env: { ...process.env, ...env } }),
    ...(cwd !== undefined && { cwd }),
    ...(uid !== undefined && { uid }),
    ...(gid !== undefined && { gid }),
  });
  const output = { stdout: [] as Buffer[], stderr: [] as Buffer[] };
  let size = 0;
  for (const name of ['stdout', 'stderr'] as const) {
    child[name]?.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size <= maxOutput) output[name].push(chunk);
    });
  }
  child.stdin?.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
  });
  child.stdin?.end(input);
  const [code, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null];
  const text = (name: 'stdout' | 'stderr') => Buffer.concat(output[name]).toString('utf8');
  return {
    code: exitCodeOf(code, signal),
    stdout: text('stdout'),
    stderr: text('stderr'),
    took: performance.now() - began,
  };
}

/** @throws Error with the output if the exit code is not 0 */
export async function mustRun(file: string, args: readonly string[], options: RunOptions = {}): Promise<string> {
  const done = await runProgram(file, args, options);
  if (done.code !== 0)
    throw new Error(
      `${file} ${args.join(' ')} ended with ${done.code} after ${Math.round(done.took)} ms: ${(done.stderr || done.stdout).slice(-4000)}`,
    );
  return done.stdout;
}

/** A long-running program whose output is available as lines. */
export class Daemon {
  readonly child: ChildProcess;
  readonly #lines: string[] = [];
  readonly #waiting = new Set<() => void>();
  readonly #exit: Promise<number>;
  #ended = false;

  /** Starts it in its own process group, so that all of its children can be killed. */
  constructor(file: string, args: readonly string[], options: Pick<RunOptions, 'env' | 'cwd' | 'uid' | 'gid'> = {}) {
    const { env, cwd, uid, gid } = options;
    this.child = spawn(file, args, {
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
      ...(env && { env: { ...process.env, ...env } }),
      ...(cwd !== undefined && { cwd }),
      ...(uid !== undefined && { uid }),
      ...(gid !== undefined && { gid }),
    });
    daemons.add(this);
    for (const name of ['stdout', 'stderr'] as const) {
      let rest = '';
      this.child[name]
        ?.setEncoding('utf8')
        .on('data', (text: string) => {
          const lines = `${rest}${text}`.split('\n');
          rest = (lines.pop() ?? '').slice(-100_000);
          this.#lines.push(...lines);
          if (this.#lines.length > 5000) this.#lines.splice(0, this.#lines.length - 5000);
          for (const wake of this.#waiting) wake();
        })
        .on('end', () => {
          if (rest !== '') this.#lines.push(rest);
          for (const wake of this.#waiting) wake();
        });
    }
    this.#exit = new Promise((resolve) => {
      const done = (code: number) => {
        this.#ended = true;
        daemons.delete(this);
        resolve(code);
        for (const wake of this.#waiting) wake();
      };
      this.child.once('close', (code, signal) => done(exitCodeOf(code, signal)));
      this.child.once('error', (error) => {
        this.#lines.push(error.message);
        done(127);
      });
    });
  }

  get pid(): number {
    return this.child.pid ?? -1;
  }
  get ended(): boolean {
    return this.#ended;
  }
  /** The exit code, once the program has exited. */
  get exit(): Promise<number> {
    return this.#exit;
  }
  get output(): string {
    return this.#lines.join('\n');
  }

  /** Returns the first line, past or future, that matches. @throws Error with the output if the program exits before, or after the deadline */
  async line(pattern: RegExp, timeoutMs = patienceMs): Promise<RegExpExecArray> {
    const find = () => {
      for (const line of this.#lines) {
        const found = pattern.exec(line);
        if (found) return found;
      }
      return undefined;
    };
    return new Promise((resolve, reject) => {
      const settle = (then: () => void) => {
        this.#waiting.delete(look);
        clearTimeout(timer);
        then();
      };
      const look = () => {
        const found = find();
        if (found) settle(() => resolve(found));
        else if (this.#ended)
          settle(() =>
            reject(new Error(`${this.child.spawnfile} exited before its output matched ${pattern}:\n${this.output.slice(-4000)}`)),
          );
      };
      const timer = setTimeout(
        () =>
          settle(() =>
            reject(new Error(`${this.child.spawnfile} did not print ${pattern} within ${timeoutMs} ms:\n${this.output.slice(-4000)}`)),
          ),
        timeoutMs,
      );
      this.#waiting.add(look);
      look();
    });
  }

  signal(name: NodeJS.Signals): void {
    if (!this.#ended) killPid(this.pid, name);
  }

  /** Sends SIGTERM, and SIGKILL after `graceMs`. Returns the exit code. */
  async stop(name: NodeJS.Signals = 'SIGTERM', graceMs = 120_000): Promise<number> {
    this.signal(name);
    const timer = setTimeout(() => killGroup(this.pid), graceMs);
    try {
      return await this.#exit;
    } finally {
      clearTimeout(timer);
    }
  }
}

const daemons = new Set<Daemon>();
// daemons must not outlive the test process, however it ends
process.on('exit', () => {
  for (const { pid } of daemons) killGroup(pid);
});

export function killPid(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
function killGroup(pid: number): void {
  if (pid > 1) killPid(-pid, 'SIGKILL');
}

/** Returns the processes whose command line or environment contains a path below a directory. */
export async function processesBelow(directory: string): Promise<readonly number[]> {
  const text = `${directory}/`;
  const pids = (await readdir('/proc'))
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => pid !== process.pid);
  const read = (file: string) => readFile(file, 'latin1').catch(() => '');
  const named = await Promise.all(
    pids.map(async (pid) => (await read(`/proc/${pid}/cmdline`)).includes(text) || (await read(`/proc/${pid}/environ`)).includes(text)),
  );
  return pids.filter((_, index) => named[index]);
}

/** Kills every process that names a path below a directory and resolves when none is left. */
export async function endProcessesBelow(directory: string): Promise<void> {
  await until(`processes of ${directory} ended`, async () => {
    const left = await processesBelow(directory);
    for (const pid of left) killPid(pid, 'SIGKILL');
    return left.length === 0;
  });
}

const portsGiven = new Set<number>();

/**
 * Returns a port that was free a moment ago and that this process does not return again. It is below the ephemeral range of the kernel
 * and below the NodePort range, so that no connection or Service takes it first.
 */
export async function freePort(host = '127.0.0.1'): Promise<number> {
  for (;;) {
    const port = randomInt(20_000, 30_000);
    if (portsGiven.has(port)) continue;
    portsGiven.add(port);
    const server = createServer().listen({ host, port, exclusive: true });
    try {
      await once(server, 'listening');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EADDRINUSE') continue;
      throw error;
    }
    server.close();
    await once(server, 'close');
    return port;
  }
}
