import { spawn } from 'node:child_process';
import type { Clock, Timer } from '../clock.ts';

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
  /** Exit code; absent if the program was killed. */
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
export function runProgram(
  clock: Clock,
  file: string,
  args: readonly string[],
  { stdin = '', env = {}, timeoutMs, signal, maxOutputBytes = defaultMaxOutputBytes }: ProgramOptions,
): Promise<ProgramResult> {
  return new Promise((resolve, reject) => {
    const child = spawn(file, args, { detached: true, env: { PATH: defaultPath, ...env }, stdio: ['pipe', 'pipe', 'pipe'], cwd: '/' });
    const output: Record<'stdout' | 'stderr', Buffer[]> = { stdout: [], stderr: [] };
    let size = 0;
    let killed: string | undefined;
    const kill = (why: string) => {
      killed ??= why;
      try {
        if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ESRCH') reject(error as Error);
      }
    };
    const timer = clock.after(timeoutMs, () => kill(`it did not end within ${timeoutMs} ms`));
    const abort = () => kill('it was interrupted');
    signal?.addEventListener('abort', abort, { once: true });
    if (signal?.aborted === true) abort();
    for (const stream of ['stdout', 'stderr'] as const) {
      child[stream].on('data', (chunk: Buffer) => {
        size += chunk.length;
        if (size > maxOutputBytes) kill(`it printed more than ${maxOutputBytes / 1024 / 1024} MiB`);
        else output[stream].push(chunk);
      });
    }
    child.once('error', (error) => {
      timer.cancel();
      signal?.removeEventListener('abort', abort);
      reject(error);
    });
    let grace: Timer | undefined;
    child.once('exit', () => {
      timer.cancel();
      signal?.removeEventListener('abort', abort);
      grace = clock.after(outputGraceMs, () => {
        for (const stream of [child.stdin, child.stdout, child.stderr]) stream.destroy();
      });
    });
    child.once('close', (code) => {
      grace?.cancel();
      resolve({
        stdout: Buffer.concat(output.stdout).toString(),
        stderr: Buffer.concat(output.stderr).toString(),
        ...(code !== null && { exitCode: code }),
        ...(killed !== undefined && { killed }),
      });
    });
    child.stdin.on('error', () => {}); // a program that does not read its input reports a problem by its exit code
    child.stdin.end(stdin);
  });
}
