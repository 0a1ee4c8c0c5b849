import { mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readIfExists, writeAtomic } from '@oarlock/primitives/os/atomic-file';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

describe('writeAtomic', () => {
  let directory: string;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'atomic-file-'));
  });
  afterEach(() => rm(directory, { recursive: true }));

  it('creates and replaces a file with its mode, and leaves no temporary file', async () => {
    const file = join(directory, 'a');
    await writeAtomic(file, 'one');
    expect([await readFile(file, 'utf8'), (await stat(file)).mode & 0o777]).toEqual(['one', 0o600]);
    await writeAtomic(file, 'two', { mode: 0o755, sync: true });
    expect([await readFile(file, 'utf8'), (await stat(file)).mode & 0o777]).toEqual(['two', 0o755]);
    expect(await readdir(directory)).toEqual(['a']);
  });

  it('replaces what a crash left at a fixed temporary path', async () => {
    const [file, temporary] = [join(directory, 'a'), join(directory, 'a.next')];
    await writeFile(temporary, 'a partial content that is longer than the new one');
    await writeAtomic(file, 'new', { temporary });
    expect([await readFile(file, 'utf8'), await readdir(directory)]).toEqual(['new', ['a']]);
  });

  it.skipIf(process.platform !== 'linux')('names the file and leaves no temporary file if the disk is full', async () => {
    const [file, temporary] = [join(directory, 'a'), join(directory, 'a.next')];
    // a device on which every write fails with ENOSPC
    await symlink('/dev/full', temporary);
    await expect(writeAtomic(file, 'new', { temporary })).rejects.toMatchObject({
      code: 'ENOSPC',
      message: expect.stringMatching(/a cannot be written: ENOSPC: no space left on device/),
    });
    expect(await readdir(directory)).toEqual([]);
  });

  it('keeps the old content if the write fails', async () => {
    const file = join(directory, 'a');
    await writeAtomic(file, 'old');
    await expect(writeAtomic(file, 'new', { temporary: join(directory, 'missing', 'a.next') })).rejects.toMatchObject({ code: 'ENOENT' });
    expect(await readIfExists(file)).toBe('old');
    expect(await readIfExists(join(directory, 'b'))).toBeUndefined();
  });
});
