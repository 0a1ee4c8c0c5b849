import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';
import { joinLog, parseLog } from './container-log.ts';
import type { RuntimeHarness, Suite } from './harness.ts';

export function logContract({ needs }: Suite): void {
  needs('logs', 'have a record per line, with time, stream and tag', async (harness) => {
    const sandbox = await harness.sandbox();
    const before = Date.now();
    const status = await harness.runToExit(sandbox, 'echo', ['one', '', '  two  ', 'drei ü']);
    const records = await harness.log(status.id);
    expect(records.map(({ stream, full, text }) => ({ stream, full, text }))).toEqual(
      ['one', '', '  two  ', 'drei ü'].map((text) => ({ stream: 'stdout', full: true, text })),
    );
    for (const { time } of records) {
      expect(time).toBeGreaterThan(before - 5_000);
      expect(time).toBeLessThan(Date.now() + 5_000);
    }
    expect(records.map((record) => record.time)).toEqual(records.map((record) => record.time).sort((a, b) => a - b));
  });

  needs('logs', 'separate stderr from stdout', async (harness) => {
    const sandbox = await harness.sandbox();
    const status = await harness.runToExit(sandbox, 'complain', ['no']);
    expect(await harness.log(status.id)).toMatchObject([{ stream: 'stderr', full: true, text: 'no' }]);
  });

  needs('logs', 'mark output without a newline as partial', async (harness) => {
    const sandbox = await harness.sandbox();
    const status = await harness.runToExit(sandbox, 'print', ['no newline']);
    const records = await harness.log(status.id);
    expect(records.at(-1)?.full).toBe(false);
    expect(joinLog(records, 'stdout')).toBe('no newline');
  });

  needs('logs', 'split a very long line into partial records', async (harness) => {
    const sandbox = await harness.sandbox();
    const status = await harness.runToExit(sandbox, 'flood', ['200000']);
    const records = await harness.log(status.id);
    expect(joinLog(records, 'stdout')).toBe(`${'x'.repeat(200_000)}\n`);
    expect(records.at(-1)?.full).toBe(true);
  });

  const complete = (lines: number) => async (harness: RuntimeHarness) => {
    const sandbox = await harness.sandbox();
    const status = await harness.runToExit(sandbox, 'seq', [`${lines}`]);
    expect(status.state).toBe('EXITED');
    const records = await harness.log(status.id);
    expect(records).toHaveLength(lines);
    expect(records.every((record, index) => record.text === `${index + 1}`)).toBe(true);
  };
  needs('logs', 'are complete when the exit is reported', complete(5_000));
  needs(['logs', 'logBursts'], 'are complete when the exit is reported, also after a burst of output', complete(100_000));

  needs('logs', 'have one file per attempt', async (harness) => {
    const sandbox = await harness.sandbox();
    for (const attempt of [0, 1]) await harness.runToExit(sandbox, 'echo', [`attempt ${attempt}`], { name: 'main', attempt });
    for (const attempt of [0, 1]) {
      const file = join(sandbox.config.logDirectory, `main/${attempt}.log`);
      expect(parseLog(await readFile(file, 'utf8')).map((record) => record.text)).toEqual([`attempt ${attempt}`]);
    }
  });

  needs(['logs', 'signals'], 'continue in a new file after rotation and reopening', async (harness) => {
    const { driver } = harness;
    const sandbox = await harness.sandbox();
    const id = await harness.start(sandbox, 'stubborn');
    await harness.waitForLog(id, 'ready');
    const { logPath } = await driver.containerStatus(id);
    await rename(logPath, `${logPath}.1`);
    await driver.reopenContainerLog(id);
    expect(await readFile(logPath, 'utf8')).toBe('');
    expect(parseLog(await readFile(`${logPath}.1`, 'utf8')).map((record) => record.text)).toEqual(['ready']);
    await driver.stopContainer(id, 0);
    await expect(driver.reopenContainerLog(id)).rejects.toMatchObject({ name: 'RuntimeError' });
  });

  needs(['mounts', 'logs'], 'show that host files are mounted, also read-only', async (harness) => {
    const sandbox = await harness.sandbox();
    const hostPath = join(harness.directory, `volume-${sandbox.config.metadata.uid}`);
    await mkdir(hostPath);
    await writeFile(join(hostPath, 'greeting'), 'from the host\n');
    const status = await harness.runToExit(sandbox, 'read', ['/data/greeting'], {
      mounts: [{ containerPath: '/data', hostPath, readonly: true }],
    });
    expect((await harness.log(status.id)).map((record) => record.text)).toEqual(['from the host']);
    expect((await harness.driver.containerStatus(status.id)).mounts).toEqual([
      expect.objectContaining({ containerPath: '/data', hostPath, readonly: true }),
    ]);
  });
}
