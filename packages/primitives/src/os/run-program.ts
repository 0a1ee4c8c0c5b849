import { spawn } from 'node:child_process';
import type { Clock, Timer } from '../clock.ts';
import { fitsShell, maxTrailerBytes, ProgramShell, type ProgramRequest, type StreamName } from './program-shell.ts';

/** PATH of programs that receive no environment. CNI plugins find iptables in this PATH. */
export const defaultPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
const defaultMaxOutputBytes = 1024 * 1024;
/** How long output is read after the program has ended. A descendant in another process group may hold the pipes open for ever. */
const outputGraceMs = 1_000;

export interface ProgramOptions {
  readonly stdin?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  /** Kills the program when it aborts. */
  readonly signal?: AbortSignal | undefined;
  /** Maximum size of stdout and stderr together in bytes. Default 1 MiB. */
  readonly maxOutputBytes?: number;
}
export interface ProgramResult {
  /** Exit code, or 128 and the number of the signal that ended the program; absent if `killed` is present. */
  readonly exitCode?: number;
  readonly stdout: string;
  readonly stderr: string;
  /** The reason why the program was killed. */
  readonly killed?: string;
}

/**
 * Runs a program with the given environment only. The program and its descendants form a process group, which is killed as
 * a whole when the timeout expires, the signal aborts or the output exceeds its limit. Does not wait for descendants that left the group.
 * @throws the system error if the program cannot be started
 */
export async function runProgram(clock: Clock, file: string, args: readonly string[], options: ProgramOptions): Promise<ProgramResult> {
  const { stdin = '', env = {} } = options;
  const request = { file, args, env: { PATH: defaultPath, ...env }, stdin };
  const inShell = fitsShell(request) ? await runInShell(clock, request, options) : undefined;
  return inShell ?? runDirectly(clock, request, options);
}

/** Returns undefined if the shell cannot start the program. */
function runInShell(clock: Clock, request: ProgramRequest, options: ProgramOptions): Promise<ProgramResult | undefined> {
  return new Promise((resolve, reject) => {
    const shell = ProgramShell.take({ PATH: defaultPath });
    const limits = new ProgramLimits(clock, options, { kill: () => shell.kill(), reject, extraBytes: maxTrailerBytes });
    const settle = (result: ProgramResult | undefined) => {
      limits.end();
      resolve(result);
    };
    shell.run(request, {
      output: (stream, chunk) => limits.output(stream, chunk),
      ended: (exitCode, trailer) => settle({ exitCode, ...limits.result(trailer) }),
      killed: () => settle(limits.result()),
      notStarted: () => settle(undefined),
    });
  });
}

function runDirectly(clock: Clock, { file, args, env, stdin }: ProgramRequest, options: ProgramOptions): Promise<ProgramResult> {
  return new Promise((resolve, reject) => {
    const child = spawn(file, args, { detached: true, env, stdio: ['pipe', 'pipe', 'pipe'], cwd: '/' });
    const kill = () => {
      if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
    };
    const limits = new ProgramLimits(clock, options, { kill, reject });
    for (const stream of ['stdout', 'stderr'] as const) child[stream].on('data', (chunk: Buffer) => limits.output(stream, chunk));
    child.once('error', (error) => {
      limits.end();
      reject(error);
    });
    let grace: Timer | undefined;
    child.once('exit', () => {
      limits.end();
      grace = clock.after(outputGraceMs, () => {
        for (const stream of [child.stdin, child.stdout, child.stderr]) stream.destroy();
      });
    });
    child.once('close', (code) => {
      grace?.cancel();
      resolve({ ...limits.result(), ...(code !== null && { exitCode: code }) });
    });
    child.stdin.on('error', () => {}); // a program that does not read its input reports a problem by its exit code
    child.stdin.end(stdin);
  });
}

/** Collects the output of a program, and kills it at its limits. */
class ProgramLimits {
  readonly #output: Record<StreamName, Buffer[]> = { stdout: [], stderr: [] };
  readonly #maxOutputBytes: number;
  readonly #kill: (why: string) => void;
  readonly #timer: Timer;
  readonly #signal: AbortSignal | undefined;
  readonly #abort: () => void;
  /** Negative for bytes that are not the program's. */
  #size: number;
  #killed: string | undefined;

  constructor(
    clock: Clock,
    { timeoutMs, signal, maxOutputBytes = defaultMaxOutputBytes }: ProgramOptions,
    { kill, reject, extraBytes = 0 }: { readonly kill: () => void; readonly reject: (error: Error) => void; readonly extraBytes?: number },
  ) {
    this.#maxOutputBytes = maxOutputBytes;
    this.#size = -extraBytes;
    this.#kill = (why) => {
      this.#killed ??= why;
      try {
        kill();
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ESRCH') reject(error as Error);
      }
    };
    this.#timer = clock.after(timeoutMs, () => this.#kill(`it did not end within ${timeoutMs} ms`));
    this.#signal = signal;
    this.#abort = () => this.#kill('it was interrupted');
    signal?.addEventListener('abort', this.#abort, { once: true });
    if (signal?.aborted === true) this.#abort();
  }

  output(stream: StreamName, chunk: Buffer): void {
    this.#size += chunk.length;
    if (this.#size > this.#maxOutputBytes) this.#kill(`it printed more than ${this.#maxOutputBytes / 1024 / 1024} MiB`);
    else this.#output[stream].push(chunk);
  }

  end(): void {
    this.#timer.cancel();
    this.#signal?.removeEventListener('abort', this.#abort);
  }

  /** Returns the output without its last `trailer` bytes. */
  result(trailer: Readonly<Record<StreamName, number>> = { stdout: 0, stderr: 0 }): ProgramResult {
    const text = (stream: StreamName) => {
      const all = Buffer.concat(this.#output[stream]);
      return all.toString('utf8', 0, all.length - trailer[stream]);
    };
    return { stdout: text('stdout'), stderr: text('stderr'), ...(this.#killed !== undefined && { killed: this.#killed }) };
  }
}
