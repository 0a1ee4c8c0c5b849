import { chmod, lstat, mkdir, mkdtemp, rename, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { withOpenedEntry, type OpenedEntry } from '../../src/os/opened-entry.ts';

describe.skipIf(process.platform !== 'linux')('opened entries', () => {
  let root: string;
  let outside: string;
  beforeEach(async () => {
    [root, outside] = [await mkdtemp(join(tmpdir(), 'tree-')), await mkdtemp(join(tmpdir(), 'outside-'))];
    await writeFile(join(outside, 'secret'), '');
  });
  afterEach(async () => {
    await rm(root, { recursive: true });
    await rm(outside, { recursive: true });
  });

  async function namesIn(entry: OpenedEntry): Promise<string[]> {
    const names: string[] = [];
    await entry.forEach(async (child, name) => {
      names.push(name.toString());
      if (child.stats.isDirectory()) names.push(...(await namesIn(child)));
    });
    return names.sort();
  }

  it('visits a tree and follows no link', async () => {
    await mkdir(join(root, 'a'));
    await writeFile(join(root, 'a', 'b'), '');
    await symlink(outside, join(root, 'c'));
    expect(await withOpenedEntry(root, namesIn)).toEqual(['a', 'b', 'c']);
  });

  it('visits a tree by its names on platforms without /proc', async () => {
    const platform = vi.spyOn(process, 'platform', 'get').mockReturnValue('darwin');
    try {
      await mkdir(join(root, 'a'));
      await writeFile(join(root, 'a', 'b'), '');
      await symlink(outside, join(root, 'c'));
      expect(await withOpenedEntry(root, async (entry) => [entry.path, ...(await namesIn(entry))])).toEqual([root, 'a', 'b', 'c']);
    } finally {
      platform.mockRestore();
    }
  });

  it('stays in a directory whose name another process gives to a link', async () => {
    await mkdir(join(root, 'a'));
    await writeFile(join(root, 'a', 'b'), '');
    const visited: string[] = [];
    await withOpenedEntry(root, (entry) =>
      entry.forEach(async (child) => {
        await rename(join(root, 'a'), join(root, 'moved'));
        await symlink(outside, join(root, 'a'));
        visited.push(...(await namesIn(child)));
        await chmod(child.path, 0o711);
      }),
    );
    expect(visited).toEqual(['b']);
    expect((await stat(join(root, 'moved'))).mode & 0o777).toBe(0o711);
    expect((await stat(outside)).mode & 0o777).toBe(0o700);
  });

  it('ignores an entry that is removed, and reports other errors', async () => {
    for (const name of ['a', 'b']) await writeFile(join(root, name), '');
    const visited: string[] = [];
    await withOpenedEntry(root, (entry) =>
      entry.forEach(async (_child, name) => {
        visited.push(name.toString());
        for (const each of ['a', 'b']) await rm(join(root, each), { force: true });
      }),
    );
    expect(visited).toHaveLength(1);
    await writeFile(join(root, 'a'), '');
    const missing = () => lstat(join(root, 'missing')).then(() => {});
    await expect(withOpenedEntry(root, (entry) => entry.forEach(missing))).rejects.toThrow('ENOENT');
  });

  it('visits names that are no text', async () => {
    const name = Buffer.from([0x61, 0xff]);
    await writeFile(Buffer.concat([Buffer.from(`${root}/`), name]), '');
    const names: Buffer[] = [];
    await withOpenedEntry(root, (entry) =>
      entry.forEach(async (_child, each) => {
        names.push(each);
      }),
    );
    expect(names).toEqual([name]);
  });

  it('has a bound on the levels, each of which has an open file', async () => {
    // relative to the opened directory, a tree can be deeper than PATH_MAX allows
    await mkdir(join(root, 'a/'.repeat(600)), { recursive: true });
    await expect(withOpenedEntry(root, namesIn)).rejects.toThrow('a directory tree has more than 512 levels');
  });
});
