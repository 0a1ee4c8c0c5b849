import { chmod, chown, lstat, mkdir, mkdtemp, readdir, readFile, readlink, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { whileFlipping } from '@oarlock/testing/flipping-link';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { copy } from '../../src/store/content.ts';

const isRoot = process.getuid?.() === 0;

describe('copy', () => {
  let root: string;
  const content = (id: string) => join(root, id);
  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), 'content-'));
    await mkdir(content('from'));
  });
  afterEach(() => rm(root, { recursive: true }));

  it('keeps modes, times, targets of links and owners', async () => {
    const [directory, file] = [join(content('from'), 'd'), join(content('from'), 'd', 'f')];
    await mkdir(directory);
    await writeFile(file, 'text');
    await symlink('../none', join(content('from'), 'l'));
    await utimes(file, 1_700_000_000, 1_700_000_000);
    if (isRoot) for (const each of [file, directory]) await chown(each, 1234, 2345);
    await chmod(file, 0o4750);
    await chmod(directory, 0o1711);
    await copy({ content }, 'from', 'to');
    const copied = await lstat(join(content('to'), 'd', 'f'));
    // another user than root cannot keep the owner, and a setuid file would run as that user
    expect([copied.mode & 0o7777, copied.mtimeMs]).toEqual([isRoot ? 0o4750 : 0o750, 1_700_000_000_000]);
    expect((await lstat(join(content('to'), 'd'))).mode & 0o7777).toBe(0o1711);
    expect(await readlink(join(content('to'), 'l'))).toBe('../none');
    expect(await readFile(join(content('to'), 'd', 'f'), 'utf8')).toBe('text');
    if (isRoot) expect([copied.uid, copied.gid]).toEqual([1234, 2345]);
  });

  it('has no file from outside of the volume, whatever a pod does in it meanwhile', async () => {
    await mkdir(content('outside'));
    await writeFile(join(content('outside'), 'secret'), '');
    const name = join(content('from'), 'd');
    const paths = { name, link: `${name}-link`, spare: `${name}-spare` };
    await mkdir(name);
    await symlink(content('outside'), paths.link);
    await whileFlipping(paths, async () => {
      for (let turn = 0; turn < 300; turn++) {
        await copy({ content }, 'from', 'to');
        const entries = await readdir(content('to'), { recursive: true, withFileTypes: true });
        expect(entries.filter((entry) => entry.isFile()).map((entry) => entry.name)).toEqual([]);
        await rm(content('to'), { recursive: true });
      }
    });
  });
});
