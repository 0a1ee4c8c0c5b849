import { chmod, lchown, mkdir, mkdtemp, readdir, rm, rmdir, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { driverSocket } from '../../src/driver/socket-directory.ts';

let temporary: string;
beforeEach(async () => {
  temporary = await mkdtemp(join(tmpdir(), 'socket-'));
  vi.stubEnv('TMPDIR', temporary);
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await rm(temporary, { recursive: true });
});

const long = `/data/${'x'.repeat(100)}`;
/** Returns the name of the directory, which every user can compute. */
async function knownName(): Promise<string> {
  const directory = dirname(await driverSocket(long));
  await rmdir(directory);
  return directory;
}

describe('the socket of a CSI driver', () => {
  it('is in the directory of the driver if the path is short', async () => {
    expect(await driverSocket('/data')).toBe('/data/csi.sock');
    expect(await readdir(temporary)).toEqual([]);
  });

  it('is in the same private directory each time if the path is long', async () => {
    expect(await driverSocket(long)).toBe(await driverSocket(long));
  });

  it.each([
    { made: 'with rights for others', make: (path: string) => mkdir(path).then(() => chmod(path, 0o777)) },
    { made: 'as a link', make: (path: string) => symlink('/', path) },
    ...(process.getuid?.() === 0
      ? [{ made: 'by another user', make: (path: string) => mkdir(path, { mode: 0o700 }).then(() => lchown(path, 1000, 1000)) }]
      : []),
  ])('is rejected in a directory that was made $made', async ({ make }) => {
    await make(await knownName());
    await expect(driverSocket(long)).rejects.toThrow('belongs to another user or is open to others');
  });
});
