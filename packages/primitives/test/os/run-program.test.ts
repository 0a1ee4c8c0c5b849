import { systemClock } from '@oarlock/primitives/clock';
import { runProgram } from '@oarlock/primitives/os/run-program';
import { describe, expect, it } from 'vitest';

const run = (script: string, { timeoutMs = 60_000, maxOutputBytes = 1024 } = {}) =>
  runProgram(systemClock, '/bin/sh', ['-c', script], { timeoutMs, maxOutputBytes });

describe('a program', () => {
  it('is killed with its process group at the timeout', async () => {
    const { exitCode, killed } = await run('sleep 600 & wait', { timeoutMs: 100 });
    expect([exitCode, killed]).toEqual([undefined, 'it did not end within 100 ms']);
  });

  it('is killed with its process group when the signal aborts', async () => {
    const stop = new AbortController();
    const running = runProgram(systemClock, '/bin/sh', ['-c', 'sleep 600 & wait'], { timeoutMs: 60_000, signal: stop.signal });
    stop.abort();
    expect(await running).toEqual({ stdout: '', stderr: '', killed: 'it is no longer needed' });
    expect(await runProgram(systemClock, '/bin/sh', ['-c', 'wait'], { timeoutMs: 60_000, signal: stop.signal })).toMatchObject({
      killed: 'it is no longer needed',
    });
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
