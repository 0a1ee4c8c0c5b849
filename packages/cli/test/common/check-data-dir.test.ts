import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { checkDataDir } from '../../src/common/check-data-dir.ts';

describe('the data directory of a command', () => {
  let directory: string;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'check-data-dir-'));
  });
  afterEach(() => rm(directory, { recursive: true }));

  it('can be a directory, or not exist', async () => {
    await checkDataDir(directory);
    await checkDataDir(join(directory, 'none', 'below'));
  });

  it('is not a file, and not below a file', async () => {
    const file = join(directory, 'file');
    await writeFile(file, '');
    await expect(checkDataDir(file)).rejects.toMatchObject({
      message: `the data directory ${file} is a file; name another directory with \`--data-dir DIR\``,
      exitCode: 2,
    });
    await expect(checkDataDir(join(file, 'data'))).rejects.toMatchObject({
      message: expect.stringContaining('cannot be used: a part of its path is not a directory; name another'),
      exitCode: 2,
    });
  });

  it('is one that the user may read: the error names the owner', async () => {
    const dataDir = join(directory, 'data');
    await mkdir(dataDir);
    const denied = async (path: string) => {
      throw Object.assign(new Error(`EACCES: permission denied, access '${path}'`), { code: 'EACCES', syscall: 'access', path });
    };
    const uid = (process.geteuid?.() ?? 0) + 1;
    await expect(checkDataDir(dataDir, { uid, access: denied })).rejects.toMatchObject({
      message: expect.stringMatching(
        `${dataDir} cannot be read: permission denied, because it belongs to the user with id ${uid - 1} and this command runs with id ${uid}; run the command as its owner`,
      ),
      exitCode: 1,
    });
  });
});
