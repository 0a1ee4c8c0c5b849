import { chmod, lstat, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { hasGroupOwnership, setGroupOwnership } from '@oarlock/primitives/os/group-ownership';
import { canChangeOwner } from '@oarlock/primitives/os/user-namespace';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

const group = 4321;
const ownership = async (path: string) => {
  const { uid, gid, mode } = await lstat(path);
  return [uid, gid, (mode & 0o7777).toString(8)];
};

describe.skipIf(!canChangeOwner())('setGroupOwnership', () => {
  let root: string;
  let outside: string;
  const at = (name: string) => join(root, name);
  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), 'group-'));
    outside = await mkdtemp(join(tmpdir(), 'group-'));
    await chmod(root, 0o700);
    await mkdir(at('directory'), { mode: 0o700 });
    await writeFile(at('directory/file'), '', { mode: 0o600 });
    await writeFile(at('program'), '', { mode: 0o700 });
    await writeFile(join(outside, 'file'), '', { mode: 0o600 });
    await symlink(outside, at('link'));
  });
  afterEach(() => Promise.all([root, outside].map((each) => rm(each, { recursive: true }))));

  it('lets the group read and write files, and enter directories', async () => {
    await setGroupOwnership(root, group);
    expect(await ownership(root)).toEqual([0, group, '2770']);
    expect(await ownership(at('directory'))).toEqual([0, group, '2770']);
    expect(await ownership(at('directory/file'))).toEqual([0, group, '660']);
    expect(await ownership(at('program'))).toEqual([0, group, '760']);
  });

  it('lets the group only read files', async () => {
    await setGroupOwnership(root, group, { readonly: true });
    expect(await ownership(at('directory'))).toEqual([0, group, '2750']);
    expect(await ownership(at('directory/file'))).toEqual([0, group, '640']);
  });

  it('changes links, and not what they lead to', async () => {
    await setGroupOwnership(root, group);
    expect((await lstat(at('link'))).gid).toBe(group);
    expect((await lstat(outside)).gid).toBe(0);
    expect(await ownership(join(outside, 'file'))).toEqual([0, 0, '600']);
  });

  it('is recognized by the group and the mode of the directory', async () => {
    expect(await hasGroupOwnership(root, group)).toBe(false);
    await setGroupOwnership(root, group);
    expect(await hasGroupOwnership(root, group)).toBe(true);
    expect(await hasGroupOwnership(root, group + 1)).toBe(false);
    await chmod(root, 0o2750);
    expect(await hasGroupOwnership(root, group)).toBe(false);
  });
});
