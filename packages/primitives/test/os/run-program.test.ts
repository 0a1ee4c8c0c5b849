import { systemClock } from '@oarlock/primitives/clock';
import { runProgram } from '@oarlock/primitives/os/run-program';
import { describe, expect, it } from 'vitest';

interface RunOptions {
  readonly timeoutMs?: number;
  readonly maxOutputBytes?: number;
  readonly signal?: AbortSignal;
}

const run = (script: string, { timeoutMs = 60_000, maxOutputBytes = 1024, signal }: RunOptions = {}) =>
  runProgram(systemClock, '/bin/sh', ['-c', script], { timeoutMs, maxOutputBytes, signal });

describe('a program', () => {
  it('is killed with its process group at the timeout', async () => {
    const { exitCode, killed } = await run('sleep 600 & wait', { timeoutMs: 100 });
    expect([exitCode, killed]).toEqual([undefined, 'it did not end within 100 ms']);
  });

  it('is killed when its signal aborts', async () => {
    const stop = new AbortController();
    const running = run('sleep 600', { signal: stop.signal });
    stop.abort();
    expect((await running).killed).toBe('it was interrupted');
    expect((await run('sleep 600', { signal: stop.signal })).killed).toBe('it was interrupted');
  });

  it('is killed if it prints without end', async () => {
    const { killed, stdout } = await run('yes');
    expect(killed).toContain('it printed more than');
    expect(stdout.length).toBeLessThanOrEqual(1024);
  });

  it('ends although a descendant that left its group holds its output', async () => {
    // the substitution ends when the descendant has its own session and only the outer output
    const { exitCode, stdout } = await run("exec 3>&1; pid=$(setsid sh -c 'echo $$; exec >&3; exec sleep 600' &); echo $pid; exit 3");
    const pid = Number(stdout.trim());
    expect(pid).toBeGreaterThan(1);
    process.kill(pid, 'SIGKILL');
    expect(exitCode).toBe(3);
  });
});
