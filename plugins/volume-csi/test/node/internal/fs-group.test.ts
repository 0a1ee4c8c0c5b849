import { mkdir, mkdtemp, readdir, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { canChangeOwner } from '@oarlock/primitives/os/user-namespace';
import { whileFlipping } from '@oarlock/testing/flipping-link';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { setVolumeOwnership } from '../../../src/node/internal/fs-group.ts';

describe.skipIf(!canChangeOwner())('setVolumeOwnership', () => {
  let root: string;
  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), 'group-'));
  });
  afterEach(() => rm(root, { recursive: true }));

  it('changes nothing outside of the volume, whatever another pod does in it meanwhile', async () => {
    const [volume, outside] = [join(root, 'volume'), join(root, 'outside')];
    for (const each of [volume, outside, join(volume, 'd')]) await mkdir(each);
    for (const each of ['a', 'b', 'c']) for (const of of [outside, join(volume, 'd')]) await writeFile(join(of, each), '', { mode: 0o600 });
    const name = join(volume, 'd');
    const paths = { name, link: `${name}-link`, spare: `${name}-spare` };
    await symlink(outside, paths.link);
    await whileFlipping(paths, async () => {
      for (let turn = 0; turn < 300; turn++) await setVolumeOwnership(volume, 4321);
    });
    for (const each of await readdir(outside)) {
      const { gid, mode } = await stat(join(outside, each));
      expect([gid, mode & 0o777]).toEqual([0, 0o600]);
    }
    expect((await stat(join(volume, 'd', 'a'))).gid).toBe(4321);
  });
});
