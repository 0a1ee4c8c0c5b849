import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DataDirLock, readProcessState } from '@oarlock/cluster/process/process-state';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

let dataDir: string;
beforeEach(async () => {
  dataDir = join(await mkdtemp(join(tmpdir(), 'state-')), 'data');
});
afterEach(() => rm(join(dataDir, '..'), { recursive: true, force: true }));
const take = () => DataDirLock.acquire(dataDir, 'https://127.0.0.1:6443', ['apiserver']);
const stateFile = () => join(dataDir, 'process.json');

describe('the lock of a data directory', () => {
  it('records its holder and whether that is ready', async () => {
    const lock = await take();
    expect(await readProcessState(dataDir)).toMatchObject({
      pid: process.pid,
      server: 'https://127.0.0.1:6443',
      roles: ['apiserver'],
      ready: false,
    });
    await lock.ready();
    expect(await readProcessState(dataDir)).toMatchObject({ ready: true });
    expect((await stat(dataDir)).mode & 0o777).toBe(0o700);
    expect((await stat(stateFile())).mode & 0o777).toBe(0o600);
    await lock.release();
    expect(await readProcessState(dataDir)).toBeUndefined();
    expect(await readdir(dataDir)).toEqual([]);
  });

  it('is not acquired in a directory to which all users can write', async () => {
    await mkdir(dataDir);
    await chmod(dataDir, 0o777);
    await expect(take()).rejects.toThrow(
      `${dataDir} can be written by all users, who could replace its keys: run \`chmod o-w ${dataDir}\``,
    );
    expect(await readdir(dataDir)).toEqual([]);
    await chmod(dataDir, 0o775);
    await (await take()).release();
  });

  it('is not acquired where the directory cannot be created', async () => {
    const file = join(dataDir, '..', 'file');
    await writeFile(file, '');
    const acquire = (path: string) => DataDirLock.acquire(path, 'https://127.0.0.1:6443', ['apiserver']);
    await expect(acquire(file)).rejects.toThrow(
      `${file} cannot be created: a file has this name. Name another data directory with \`--data-dir DIR\``,
    );
    await expect(acquire(join(file, 'data'))).rejects.toThrow('a part of its path is a file');
    const link = join(dataDir, '..', 'link');
    await symlink('/nonexistent/data', link);
    await expect(acquire(link)).rejects.toThrow(`${link} cannot be created: it is a link to /nonexistent/data, which does not exist`);
  });

  it('is held by one process at a time', async () => {
    const lock = await take();
    const inUse = /is in use by process \d+: stop it with `oarlock down/;
    await expect(take()).rejects.toThrow(inUse);
    await expect(DataDirLock.check(dataDir)).rejects.toThrow(inUse);
    await lock.release();
    await (await take()).release();
  });

  it('is acquired by one of many concurrent callers', async () => {
    const outcomes = await Promise.allSettled(Array.from({ length: 10 }, take));
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    expect(await readProcessState(dataDir)).toMatchObject({ pid: process.pid });
    expect(await readdir(dataDir)).toEqual(['process.json']);
  });

  it('can be acquired after its holder was killed', async () => {
    const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore' });
    await once(child, 'spawn');
    const lock = await take();
    const born = (await readFile(`/proc/${child.pid}/stat`, 'utf8')).split(') ')[1]?.split(' ')[19];
    await writeFile(stateFile(), JSON.stringify({ ...(await readProcessState(dataDir)), pid: child.pid, born }));
    expect(await readProcessState(dataDir)).toMatchObject({ pid: child.pid });
    await expect(take()).rejects.toThrow(`process ${child.pid}`);
    child.kill('SIGKILL');
    await once(child, 'exit');
    expect(await readProcessState(dataDir)).toBeUndefined();
    await (await take()).release();
    await lock.release();
  });

  it('is not held by a new process with the same pid', async () => {
    const lock = await take();
    const state = await readProcessState(dataDir);
    await writeFile(stateFile(), JSON.stringify({ ...state, born: '1' }));
    expect(await readProcessState(dataDir)).toBeUndefined();
    await lock.release();
  });

  it('is acquired by one of many processes after its holder died', async () => {
    const lock = await take();
    const dead = JSON.stringify({ ...(await readProcessState(dataDir)), born: '1' });
    await lock.release();
    for (let round = 0; round < 20; round++) {
      await writeFile(stateFile(), dead);
      const outcomes = await Promise.allSettled(Array.from({ length: 10 }, take));
      const successes = outcomes.filter((outcome) => outcome.status === 'fulfilled');
      expect(successes).toHaveLength(1);
      expect(await readdir(dataDir)).toEqual(['process.json']);
      await successes[0]?.value.release();
    }
  });

  it('can be acquired if its file is truncated', async () => {
    const lock = await take();
    await writeFile(stateFile(), '{"pid":12');
    expect(await readProcessState(dataDir)).toBeUndefined();
    await (await take()).release();
    await lock.release();
  });
});
