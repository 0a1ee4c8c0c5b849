import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { takePluginEnd } from '../../src/hosting/plugin-end.ts';

const watchdog = fileURLToPath(new URL('../../src/hosting/watchdog/watchdog.ts', import.meta.url));
const runningCall = fileURLToPath(new URL('../../src/hosting/watchdog/running-call.ts', import.meta.url));
const loader = fileURLToPath(import.meta.resolve('@oxc-node/core/register'));

describe('the watchdog', () => {
  let folder = '';
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'oarlock-watchdog-'));
  });
  afterAll(() => rm(folder, { recursive: true }));
  const endFile = () => join(folder, 'plugin-end.json');

  /** Runs a process whose module `plugin.mjs` belongs to the plugin `mine`, and imports `main`. */
  async function run(
    plugin: string,
    { nodeOptions = [], cpuSeconds = 1 }: { readonly nodeOptions?: readonly string[]; readonly cpuSeconds?: number } = {},
  ): Promise<{ readonly signal: string | undefined; readonly stdout: string; readonly stderr: string }> {
    await rm(endFile(), { force: true });
    await writeFile(join(folder, 'plugin.mjs'), plugin);
    const program = [
      `const { startWatchdog } = await import(${JSON.stringify(pathToFileURL(watchdog).href)});`,
      `const url = ${JSON.stringify(pathToFileURL(join(folder, 'plugin.mjs')).href)};`,
      `startWatchdog([{ name: 'mine', modules: [url] }], { limits: { cpuSeconds: ${cpuSeconds}, checks: 600 }, endFile: ${JSON.stringify(endFile())} });`,
      `const { enterPlugin, numberOf } = await import(${JSON.stringify(pathToFileURL(runningCall).href)});`,
      `const call = (work) => enterPlugin(numberOf('called'), work);`,
      // reading the times is not cheap either
      `const busy = (ms) => { const { user } = process.cpuUsage(); while (process.cpuUsage().user - user < ms * 1000) for (let i = 0; i < 1e6; i++); };`,
      `const kept = [];`,
      `const fill = () => { for (let i = 0; i < 10; i++) kept.push(Array.from({ length: 1_000 }, (_, index) => ({ index }))); };`,
      `await (await import(url)).default({ busy, call, fill });`,
      `console.log('done');`,
    ].join('\n');
    return new Promise((resolve) => {
      const args = [...nodeOptions, '--import', pathToFileURL(loader).href, '--input-type=module', '-e', program];
      execFile(process.execPath, args, (error, stdout, stderr) => resolve({ signal: error?.signal ?? undefined, stdout, stderr }));
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
    expect(await takePluginEnd(endFile())).toEqual({
      plugins: ['mine'],
      reason: expect.stringMatching(/^it blocked the process for \d+ s, which ended$/),
    });
    expect(existsSync(endFile())).toBe(false);
  });

  it('does not end a process in which other code works for as long', async () => {
    const { signal, stdout, stderr } = await run('export default async ({ busy }) => { await null; setTimeout(busy, 0, 2_500); };');
    expect({ signal, stdout, stderr }).toEqual({ signal: undefined, stdout: 'done\n', stderr: '' });
    expect(existsSync(endFile())).toBe(false);
  });

  describe('a heap of 160 MiB', () => {
    const limit = { nodeOptions: ['--max-old-space-size=160'], cpuSeconds: 600 };
    const keep = 'const kept = []; const fill = () => kept.push(Array.from({ length: 1_000 }, (_, index) => ({ index })));';
    const growsBetweenCalls = 'new Promise(() => setInterval(() => { for (let i = 0; i < 10; i++) fill(); }, 10))';

    it('names the plugin whose call fills it, before the process ends', async () => {
      const { signal, stderr } = await run(`${keep} export default ({ call }) => call(() => { for (;;) fill(); });`, limit);
      expect({ signal, stderr }).toEqual({
        signal: 'SIGABRT',
        stderr: expect.stringMatching(
          /^plugin "called" fills the heap .*: one of its calls was running\.[^]*JavaScript heap out of memory/m,
        ),
      });
      expect((await takePluginEnd(endFile()))?.plugins).toEqual(['called']);
    });

    it('names the plugin that fills it between calls', async () => {
      const { signal, stderr } = await run(`${keep} export default () => ${growsBetweenCalls};`, limit);
      expect({ signal, stderr }).toEqual({
        signal: 'SIGABRT',
        stderr: expect.stringMatching(/^plugin "mine" fills the heap .*: it kept \d+ % of [^]*JavaScript heap out of memory/m),
      });
      expect((await takePluginEnd(endFile()))?.plugins).toEqual(['mine']);
    });

    it('names no plugin if other code fills it', async () => {
      const { signal, stderr } = await run('export default ({ fill }) => new Promise(() => setInterval(fill, 10));', limit);
      expect({ signal, stderr }).toEqual({ signal: 'SIGABRT', stderr: expect.not.stringContaining('plugin "') });
      expect(existsSync(endFile())).toBe(false);
    });
  });
});
