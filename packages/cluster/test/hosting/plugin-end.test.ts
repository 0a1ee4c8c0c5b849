import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PluginHealth, type PluginHealthView } from '@oarlock/kernel/plugin-health';
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { guardOwner } from '../../src/hosting/guard-process.ts';
import { pluginEndFile } from '../../src/hosting/plugin-end.ts';
import { runCleanups, type Cleanup } from '../../src/process/cleanups.ts';

describe('the start after a process that a plugin ended', () => {
  let dataDir = '';
  const changes: PluginHealthView[] = [];
  const { signal } = new AbortController();
  const healthOf = (name: string) =>
    new PluginHealth({
      name,
      slot: 'audit',
      clock: systemClock,
      log: silentLogger,
      stopping: signal,
      onChange: (view) => changes.push(view),
    });
  beforeEach(async () => {
    changes.length = 0;
    dataDir = await mkdtemp(join(tmpdir(), 'oarlock-plugin-end-'));
  });
  afterEach(() => rm(dataDir, { recursive: true }));

  /** Guards a process with the plugins `audit-a` and `audit-b`. Returns its warnings about the previous one. */
  async function start(): Promise<readonly string[]> {
    const hosted = ['audit-a', 'audit-b'].map((name) => ({ name, health: healthOf(name) }) as never);
    const cleanups: Cleanup[] = [];
    const planned = [{ name: 'audit-a', limits: { startMs: 1, stopMs: 1 } }];
    const options = { planned, hosted: () => hosted, log: silentLogger, signal, drainSeconds: undefined, dataDir, cleanups };
    const watch = vi.fn(() => () => {});
    const report = await guardOwner(options, watch);
    expect(watch).toHaveBeenCalledWith([{ name: 'audit-a', modules: [] }], { endFile: pluginEndFile(dataDir) });
    const warnings = report();
    await runCleanups(cleanups);
    return warnings;
  }

  it('makes the plugin unhealthy and warns of it, once', async () => {
    await writeFile(
      pluginEndFile(dataDir),
      JSON.stringify({ plugins: ['audit-a'], reason: 'it blocked the process for 8 s, which ended' }),
    );
    expect(await start()).toEqual([
      'the previous process was ended by plugin "audit-a": it blocked the process for 8 s, which ended. ' +
        'Correct it, or give it a thread of its own with `placement: thread`',
    ]);
    expect(changes).toMatchObject([
      {
        name: 'audit-a',
        healthy: false,
        reason: 'in the previous process, it blocked the process for 8 s, which ended',
        faults: { ended: 1 },
      },
    ]);
    expect(await readdir(dataDir)).toEqual([]);
    expect(await start()).toEqual([]);
    expect(changes).toHaveLength(1);
  });

  it.each(['', '\0'.repeat(64), '{"plugins":["audit-a"', '{"plugins":"audit-a"}'])(
    'ignores a file that is not intact: %j',
    async (content) => {
      await writeFile(pluginEndFile(dataDir), content);
      expect(await start()).toEqual([]);
      expect(await readdir(dataDir)).toEqual([]);
    },
  );
});
