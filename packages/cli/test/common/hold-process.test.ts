import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, expect, it } from 'vitest';
import { loaderArguments, moduleUrl } from '../support/plugins-command.ts';

const module = moduleUrl('common/hold-process');

/** Runs a program that imports `holdProcess`, and returns its exit code and output. */
async function run(program: string): Promise<readonly [code: number, stdout: string, stderr: string]> {
  const child = spawn(process.execPath, [
    ...loaderArguments,
    '--input-type=module',
    '-e',
    `const { holdProcess } = await import(${JSON.stringify(module)});\n${program}`,
  ]);
  const output = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const)
    child[name].on('data', (chunk: Buffer) => {
      output[name] += String(chunk);
    });
  const [code] = (await once(child, 'close')) as [number];
  return [code, output.stdout, output.stderr];
}

describe('holdProcess', () => {
  it('keeps the process alive for unreferenced timers, until the command has finished', async () => {
    const wait = (ms: number) => `await new Promise((resolve) => setTimeout(resolve, ${ms}).unref()); console.log('done');`;
    expect(await run(`const finished = holdProcess(); ${wait(20)} finished();`)).toEqual([0, 'done\n', '']);
    // without it, the process ends while the command is awaited
    const [code, stdout] = await run(wait(600_000));
    expect([code, stdout]).toEqual([13, '']);
  });

  it('reports a process that ends before the command has finished', async () => {
    const program = `globalThis.setInterval = () => undefined; holdProcess(); await new Promise(() => {});`;
    expect(await run(program)).toEqual([1, '', expect.stringContaining('the process ended before the command was finished')]);
  });

  it('does not change the exit code of a command that ends the process', async () => {
    expect(await run(`holdProcess(); process.exit(0);`)).toEqual([0, '', '']);
  });
});
