import { spawn } from 'node:child_process';
import type { Clock } from '@oarlock/kernel/clock';

/** Where CNI plugins look for iptables and the like. */
export const searchPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
const outputLimit = 1024 * 1024;

export interface ProgramCall {
  readonly stdin?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
}
export interface ProgramOutcome {
  /** Absent when it was killed. */
  readonly exitCode?: number;
  readonly stdout: string;
  readonly stderr: string;
  /** Why it was killed. */
  readonly killed?: string;
}

/**
 * Runs a program with an environment of its own. It and what it starts are one process group, killed together when the time
 * is up or the output passes 1 MiB. @throws the system's error when it cannot be started
 */
export function runProgram(
  clock: Clock,
  file: string,
  args: readonly string[],
  { stdin = '', env = {}, timeoutMs }: ProgramCall,
): Promise<ProgramOutcome> {
  return new Promise((resolve, reject) => {
    const child = spawn(file, args, { detached: true, env: { PATH: searchPath, ...env }, stdio: ['pipe', 'pipe', 'pipe'], cwd: '/' });
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
    for (const stream of ['stdout', 'stderr'] as const) {
      child[stream].on('data', (chunk: Buffer) => {
        size += chunk.length;
        if (size > outputLimit) kill('it printed more than 1 MiB');
        else output[stream].push(chunk);
      });
    }
    child.once('error', (error) => {
      timer.cancel();
      reject(error);
    });
    child.once('close', (code) => {
      timer.cancel();
      resolve({
        stdout: Buffer.concat(output.stdout).toString(),
        stderr: Buffer.concat(output.stderr).toString(),
        ...(code !== null && { exitCode: code }),
        ...(killed !== undefined && { killed }),
      });
    });
    child.stdin.on('error', () => {}); // a plugin that does not read its input says so by its exit
    child.stdin.end(stdin);
  });
}
