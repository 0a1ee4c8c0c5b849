import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { SupervisedProcess } from '../../src/managed/supervised-process.ts';

describe('a supervised process', () => {
  let dir: string;
  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'supervised-'));
  });
  afterEach(() => rm(dir, { recursive: true, force: true }));

  const supervise = (name: string) =>
    new SupervisedProcess({
      program: '/bin/echo',
      arguments: () => [`--data-dir=${dir}/${name}`],
      identity: `--data-dir=${dir}/${name}`,
      isRelevant: () => true,
      env: {},
      logFile: join(dir, `${name}.log`),
      clock: systemClock,
      log: silentLogger,
      random: () => 0,
    });

  it('is started again if it ends before its start has been noticed', async () => {
    const processes = Array.from({ length: 50 }, (_, index) => supervise(`etcd-${index}`));
    try {
      for (const one of processes) await one.start();
      await expect.poll(() => processes.filter(({ lastEnd }) => lastEnd === undefined).length).toBe(0);
      await expect.poll(() => processes.filter(({ restarts }) => restarts === 0).length).toBe(0);
    } finally {
      await Promise.all(processes.map((one) => one.stop()));
    }
  });
});
