import { execFile } from 'node:child_process';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { systemClock } from '@oarlock/primitives/clock';
import { loaderFlags, programPath } from '@oarlock/primitives/os/bundled-program';
import { defaultPath, runProgram } from '@oarlock/primitives/os/run-program';
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

  it('receives arguments, environment and input unchanged, and nothing else', async () => {
    const words = ["it's", '$HOME `id` $(id)', 'two\nlines\n\n', '', '--', 'ü', String.raw`\n \0101 \\ \c`, ' spaces ', '-n', 'A=b', '%s'];
    const script = 'process.stdin.pipe(process.stderr); console.log(JSON.stringify([process.argv.slice(1), process.env]))';
    const env = { PATH: defaultPath, WORDS: words.join(' '), count: '1', IFS: 'a' };
    const options = { env, stdin: "no newline at the end, 'quoted' \\n $(id)", timeoutMs: 60_000 };
    const { exitCode, stdout, stderr } = await runProgram(systemClock, process.execPath, ['-e', script, ...words], options);
    expect([exitCode, JSON.parse(stdout), stderr]).toEqual([0, [words, env], options.stdin]);
  });

  it('receives a request that is too long for a shell', async () => {
    const options = { stdin: 'x'.repeat(100_000), timeoutMs: 60_000 };
    expect((await runProgram(systemClock, 'wc', ['-c'], options)).stdout.trim()).toBe('100000');
  });

  it('is searched in the PATH of its environment', async () => {
    const options = { env: { PATH: '/nonexistent' }, timeoutMs: 60_000 };
    await expect(runProgram(systemClock, 'ls', [], options)).rejects.toMatchObject({ code: 'ENOENT' });
  });

  it('may print as much as its limit', async () => {
    expect(await run('printf %01024d 7')).toEqual({ exitCode: 0, stdout: '7'.padStart(1024, '0'), stderr: '' });
  });

  it('is a child of a shell that runs the next program too', async () => {
    const parents = [await run('echo $PPID; echo on stderr >&2; exit 127'), await run('echo $PPID; printf unfinished >&2')];
    expect(parents).toEqual([
      { exitCode: 127, stdout: parents[1]?.stdout, stderr: 'on stderr\n' },
      { exitCode: 0, stdout: parents[0]?.stdout, stderr: 'unfinished' },
    ]);
    expect(parents[0]?.stdout).not.toBe(`${process.pid}\n`);
  });

  it('rejects with the system error if it does not exist', async () => {
    await expect(runProgram(systemClock, 'oarlock-no-such-program', [], { timeoutMs: 60_000 })).rejects.toMatchObject({ code: 'ENOENT' });
    await expect(runProgram(systemClock, '/oarlock/no/such', [], { timeoutMs: 60_000 })).rejects.toMatchObject({ code: 'ENOENT' });
  });

  it('keeps this process alive only while it runs', async () => {
    const modules = [
      programPath('@oarlock/primitives/os/run-program', import.meta.url),
      programPath('@oarlock/primitives/clock', import.meta.url),
    ];
    const [runs = '', clock = ''] = modules.map((path) => pathToFileURL(path).href);
    const script = `import { runProgram } from '${runs}'; import { systemClock } from '${clock}';
      console.log((await runProgram(systemClock, 'sh', ['-c', 'sleep 0.1; echo ended'], { timeoutMs: 60_000 })).stdout);`;
    const flags = loaderFlags(fileURLToPath(runs));
    const { stdout } = await promisify(execFile)(process.execPath, [...flags, '--input-type=module', '-e', script]);
    expect(stdout.trim()).toBe('ended');
  });
});
