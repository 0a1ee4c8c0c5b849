import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { otherStorageMembers, writeStorageState } from '../../src/servers/storage-state.ts';

describe('the other members', () => {
  it('are those that the member knew at last', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'storage-state-'));
    try {
      expect(await otherStorageMembers(dir, 'p')).toEqual([]);
      await mkdir(join(dir, 'plugins', 'p'), { recursive: true });
      const write = (state: object) => writeFile(join(dir, 'plugins', 'p', 'member.json'), JSON.stringify(state));
      await write({ state: 'member', name: 'a', endpoints: ['https://a:2379', 'https://b:2379'] });
      expect(await otherStorageMembers(dir, 'p')).toEqual(['https://b:2379']);
      await write({ state: 'resetting', name: 'a' });
      expect(await otherStorageMembers(dir, 'p')).toEqual([]);
    } finally {
      await rm(dir, { recursive: true });
    }
  });
});

describe('the state that a failed command leaves', () => {
  let dir: string;
  const file = () => join(dir, 'plugins', 'storage-etcd', 'member.json');
  const member = '{"state":"member","name":"a","endpoints":[]}\n';
  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'storage-state-'));
    await mkdir(join(dir, 'plugins', 'storage-etcd'), { recursive: true });
    await writeFile(file(), member);
  });
  afterEach(() => rm(dir, { recursive: true }));

  it('is the former one if the plugin has not begun', async () => {
    const restore = await writeStorageState(dir, 'storage-etcd', { state: 'restoring', name: 'a', snapshot: '/damaged' });
    expect(await restore()).toBe(true);
    expect(await readFile(file(), 'utf8')).toBe(member);
  });

  it('is that of the plugin if it has begun what cannot be undone', async () => {
    const restore = await writeStorageState(dir, 'storage-etcd', { state: 'resetting', name: 'a' });
    const changed = '{"state":"resetting","name":"a","begun":true}\n';
    await writeFile(file(), changed);
    expect(await restore()).toBe(false);
    expect(await readFile(file(), 'utf8')).toBe(changed);
  });

  it('is none in a new data directory', async () => {
    await rm(file());
    const restore = await writeStorageState(dir, 'storage-etcd', { state: 'restoring', name: 'a', snapshot: '/damaged' });
    expect(await restore()).toBe(true);
    await expect(readFile(file())).rejects.toThrow('ENOENT');
  });
});
