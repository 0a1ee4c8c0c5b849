import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { oarlock } from '../support/plugins-command.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'detached-failure-'));
});
afterEach(() => rm(directory, { recursive: true }));

// the output of a detached process goes to a file in the data directory
it.skipIf(!existsSync('/dev/full'))(
  'a detached process that fails on a full disk states why',
  async () => {
    await mkdir(join(directory, '.oarlock'));
    await symlink('/dev/full', join(directory, '.oarlock', 'oarlock.log.out'));
    const args = ['up', '--detach', '-f', 'embedded', '--roles', 'controllers'];
    expect(await oarlock(args, directory)).toMatchObject({ code: 2, stderr: expect.stringContaining('requires --kubeconfig FILE') });
  },
  60_000,
);
