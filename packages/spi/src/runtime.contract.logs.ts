import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';
import { type Bench, joinLog, parseLog } from './runtime.contract.bench.ts';
import type { Suite } from './runtime.contract.ts';

export function logContract({ needs }: Suite): void {
  needs('logs', 'writes a line per line, with time, stream and tag', async (bench) => {
    const sandbox = await bench.sandbox();
    const before = Date.now();
    const status = await bench.finish(sandbox, 'echo', ['one', '', '  two  ', 'drei ü']);
    const records = await bench.log(status.id);
    expect(records.map(({ stream, full, text }) => ({ stream, full, text }))).toEqual(
      ['one', '', '  two  ', 'drei ü'].map((text) => ({ stream: 'stdout', full: true, text })),
    );
    for (const { time } of records) {
      expect(time).toBeGreaterThan(before - 5_000);
      expect(time).toBeLessThan(Date.now() + 5_000);
    }
    expect(records.map((record) => record.time)).toEqual(records.map((record) => record.time).sort((a, b) => a - b));
  });

  needs('logs', 'tells stderr from stdout', async (bench) => {
    const sandbox = await bench.sandbox();
    const status = await bench.finish(sandbox, 'complain', ['no']);
    expect(await bench.log(status.id)).toMatchObject([{ stream: 'stderr', full: true, text: 'no' }]);
  });

  needs('logs', 'marks what had no newline as partial', async (bench) => {
    const sandbox = await bench.sandbox();
    const status = await bench.finish(sandbox, 'print', ['no newline']);
    const records = await bench.log(status.id);
    expect(records.at(-1)?.full).toBe(false);
    expect(joinLog(records, 'stdout')).toBe('no newline');
  });

  needs('logs', 'keeps a very long line whole over partial records', async (bench) => {
    const sandbox = await bench.sandbox();
    const status = await bench.finish(sandbox, 'flood', ['200000']);
    const records = await bench.log(status.id);
    expect(joinLog(records, 'stdout')).toBe(`${'x'.repeat(200_000)}\n`);
    expect(records.at(-1)?.full).toBe(true);
  });

  const complete = (lines: number) => async (bench: Bench) => {
    const sandbox = await bench.sandbox();
    const status = await bench.finish(sandbox, 'seq', [`${lines}`]);
    expect(status.state).toBe('EXITED');
    const records = await bench.log(status.id);
    expect(records).toHaveLength(lines);
    expect(records.every((record, index) => record.text === `${index + 1}`)).toBe(true);
  };
  needs('logs', 'is complete when the exit is reported', complete(5_000));
  needs(['logs', 'logBursts'], 'is complete when the exit is reported, however much was written at the end', complete(100_000));

  needs('logs', 'has one file per attempt', async (bench) => {
    const sandbox = await bench.sandbox();
    for (const attempt of [0, 1]) await bench.finish(sandbox, 'echo', [`attempt ${attempt}`], { name: 'main', attempt });
    for (const attempt of [0, 1]) {
      const file = join(sandbox.config.logDirectory, `main/${attempt}.log`);
      expect(parseLog(await readFile(file, 'utf8')).map((record) => record.text)).toEqual([`attempt ${attempt}`]);
    }
  });

  needs(['logs', 'signals'], 'goes on in a new file after it was moved away and reopened', async (bench) => {
    const { driver } = bench;
    const sandbox = await bench.sandbox();
    const id = await bench.start(sandbox, 'stubborn');
    await bench.logged(id, 'ready');
    const { logPath } = await driver.containerStatus(id);
    await rename(logPath, `${logPath}.1`);
    await driver.reopenContainerLog(id);
    expect(await readFile(logPath, 'utf8')).toBe('');
    expect(parseLog(await readFile(`${logPath}.1`, 'utf8')).map((record) => record.text)).toEqual(['ready']);
    await driver.stopContainer(id, 0);
    await expect(driver.reopenContainerLog(id)).rejects.toMatchObject({ name: 'RuntimeError' });
  });

  needs(['mounts', 'logs'], 'mounts files of the host, read-only where asked', async (bench) => {
    const sandbox = await bench.sandbox();
    const hostPath = join(bench.directory, `volume-${sandbox.config.metadata.uid}`);
    await mkdir(hostPath);
    await writeFile(join(hostPath, 'greeting'), 'from the host\n');
    const status = await bench.finish(sandbox, 'read', ['/data/greeting'], {
      mounts: [{ containerPath: '/data', hostPath, readonly: true }],
    });
    expect((await bench.log(status.id)).map((record) => record.text)).toEqual(['from the host']);
    expect((await bench.driver.containerStatus(status.id)).mounts).toEqual([
      expect.objectContaining({ containerPath: '/data', hostPath, readonly: true }),
    ]);
  });
}
