import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { findProcess } from '../../src/managed/process-table.ts';
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

  it('is restarted with other arguments, which is no failure, also when it was adopted', async () => {
    let seconds = 1000;
    const identity = `oarlock-supervised-${randomUUID()}`;
    const args = () => ['-c', 'sleep "$1"; :', identity, String(seconds)];
    const former = spawn('/bin/sh', args(), { detached: true, stdio: 'ignore' });
    await once(former, 'spawn');
    const adopted = new SupervisedProcess({
      program: '/bin/sh',
      arguments: args,
      identity,
      isRelevant: () => true,
      env: {},
      logFile: join(dir, 'restarted.log'),
      clock: systemClock,
      log: silentLogger,
      random: () => 0,
    });
    await adopted.start();
    try {
      expect(adopted.pid).toBe(former.pid);
      seconds = 1001;
      await adopted.restart();
      expect(adopted.command.at(-1)).toBe('1001');
      expect((await findProcess(identity))?.pid).toBe(adopted.pid);
      seconds = 1002;
      await adopted.restart();
      expect((await findProcess(identity))?.command.at(-1)).toBe('1002');
      expect([adopted.restarts, adopted.failure, adopted.lastEnd]).toEqual([0, undefined, undefined]);
    } finally {
      await adopted.stop();
    }
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

  it('reports the error of a log that cannot be written instead of an older line of it', async () => {
    const path = join(dir, 'failed.log');
    await symlink('/dev/full', path);
    const failed = supervise('failed');
    await failed.start();
    try {
      await expect.poll(() => failed.lastEnd).toMatch(/^its log cannot be written: ENOSPC: no space left on device, write$/);
    } finally {
      await failed.stop();
    }
  });
});
