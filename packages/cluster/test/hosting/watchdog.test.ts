import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const watchdog = fileURLToPath(new URL('../../src/hosting/watchdog/watchdog.ts', import.meta.url));
const runningCall = fileURLToPath(new URL('../../src/hosting/watchdog/running-call.ts', import.meta.url));
const loader = fileURLToPath(import.meta.resolve('@oxc-node/core/register'));

describe('the watchdog', () => {
  let folder = '';
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'oarlock-watchdog-'));
  });
  afterAll(() => rm(folder, { recursive: true }));

  /** Runs a process whose module `plugin.mjs` belongs to the plugin `mine`, and imports `main`. */
  async function run(plugin: string): Promise<{ readonly signal: string | undefined; readonly stdout: string; readonly stderr: string }> {
    await writeFile(join(folder, 'plugin.mjs'), plugin);
    const program = [
      `const { startWatchdog } = await import(${JSON.stringify(pathToFileURL(watchdog).href)});`,
      `const url = ${JSON.stringify(pathToFileURL(join(folder, 'plugin.mjs')).href)};`,
      `startWatchdog([{ name: 'mine', modules: [url] }], { cpuSeconds: 1, checks: 60 });`,
      `const { enterPlugin, numberOf } = await import(${JSON.stringify(pathToFileURL(runningCall).href)});`,
      `const call = (work) => enterPlugin(numberOf('called'), work);`,
      // reading the times is not cheap either
      `const busy = (ms) => { const { user } = process.cpuUsage(); while (process.cpuUsage().user - user < ms * 1000) for (let i = 0; i < 1e6; i++); };`,
      `await (await import(url)).default({ busy, call });`,
      `console.log('done');`,
    ].join('\n');
    return new Promise((resolve) => {
      execFile(process.execPath, ['--import', pathToFileURL(loader).href, '--input-type=module', '-e', program], (error, stdout, stderr) =>
        resolve({ signal: error?.signal ?? undefined, stdout, stderr }),
      );
    });
  }

  it('ends a process in which a call of a plugin loops', async () => {
    const { signal, stderr } = await run('export default ({ call }) => call(() => { for (;;); });');
    expect({ signal, stderr }).toEqual({
      signal: 'SIGKILL',
      stderr: expect.stringMatching(/^plugin "called" has blocked the process for \d+ s/m),
    });
  });

  it('ends a process in which a plugin loops after an await', async () => {
    const { signal, stderr } = await run('export default async () => { await null; for (;;); };');
    expect({ signal, stderr }).toEqual({
      signal: 'SIGKILL',
      stderr: expect.stringMatching(/^plugin "mine" has blocked the process for \d+ s/m),
    });
  });

  it('does not end a process in which other code works for as long', async () => {
    const { signal, stdout, stderr } = await run('export default async ({ busy }) => { await null; setTimeout(busy, 0, 2_500); };');
    expect({ signal, stdout, stderr }).toEqual({ signal: undefined, stdout: 'done\n', stderr: '' });
  });
});
