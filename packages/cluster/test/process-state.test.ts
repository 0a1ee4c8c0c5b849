import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DataDirLock, readState } from '@oarlock/cluster/process-state';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

let dataDir: string;
beforeEach(async () => {
  dataDir = join(await mkdtemp(join(tmpdir(), 'state-')), 'data');
});
afterEach(() => rm(join(dataDir, '..'), { recursive: true, force: true }));
const take = () => DataDirLock.take(dataDir, 'https://127.0.0.1:6443', ['apiserver']);
const stateFile = () => join(dataDir, 'process.json');

describe('the lock of a data directory', () => {
  it('says who has it, and when that is ready', async () => {
    const lock = await take();
    expect(await readState(dataDir)).toMatchObject({
      pid: process.pid,
      server: 'https://127.0.0.1:6443',
      roles: ['apiserver'],
      ready: false,
    });
    await lock.ready();
    expect(await readState(dataDir)).toMatchObject({ ready: true });
    expect((await stat(dataDir)).mode & 0o777).toBe(0o700);
    expect((await stat(stateFile())).mode & 0o777).toBe(0o600);
    await lock.release();
    expect(await readState(dataDir)).toBeUndefined();
    expect(await readdir(dataDir)).toEqual([]);
  });

  it('is held by one process', async () => {
    const lock = await take();
    await expect(take()).rejects.toThrow(/is in use by process \d+: stop it with `oarlock down/);
    await lock.release();
    await (await take()).release();
  });

  it('is given to one of many that want it at the same moment', async () => {
    const outcomes = await Promise.allSettled(Array.from({ length: 10 }, take));
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    expect(await readState(dataDir)).toMatchObject({ pid: process.pid });
    expect(await readdir(dataDir)).toEqual(['process.json']);
  });

  it('falls to the next when its holder was killed', async () => {
    const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore' });
    await once(child, 'spawn');
    const lock = await take();
    const born = (await readFile(`/proc/${child.pid}/stat`, 'utf8')).split(') ')[1]?.split(' ')[19];
    await writeFile(stateFile(), JSON.stringify({ ...(await readState(dataDir)), pid: child.pid, born }));
    expect(await readState(dataDir)).toMatchObject({ pid: child.pid });
    await expect(take()).rejects.toThrow(`process ${child.pid}`);
    child.kill('SIGKILL');
    await once(child, 'exit');
    expect(await readState(dataDir)).toBeUndefined();
    await (await take()).release();
    await lock.release();
  });

  it('is not kept by another process that has the number of its holder', async () => {
    const lock = await take();
    const state = await readState(dataDir);
    await writeFile(stateFile(), JSON.stringify({ ...state, born: '1' }));
    expect(await readState(dataDir)).toBeUndefined();
    await lock.release();
  });

  it("is given to one of many processes that find a dead one's", async () => {
    const lock = await take();
    const dead = JSON.stringify({ ...(await readState(dataDir)), born: '1' });
    await lock.release();
    for (let round = 0; round < 20; round++) {
      await writeFile(stateFile(), dead);
      const outcomes = await Promise.allSettled(Array.from({ length: 10 }, take));
      const taken = outcomes.filter((outcome) => outcome.status === 'fulfilled');
      expect(taken).toHaveLength(1);
      expect(await readdir(dataDir)).toEqual(['process.json']);
      await taken[0]?.value.release();
    }
  });

  it('is taken although what was written down is cut off', async () => {
    const lock = await take();
    await writeFile(stateFile(), '{"pid":12');
    expect(await readState(dataDir)).toBeUndefined();
    await (await take()).release();
    await lock.release();
  });
});
