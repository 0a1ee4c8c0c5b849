import { execFileSync, spawnSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { mkdtempSync, readdirSync, rmSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { layerTar, testImage } from '../fixtures/layer-tar.ts';
import { scriptedRegistry, type ScriptedRegistry } from '../fixtures/scripted-registry.ts';
import { temporaryStore } from '../fixtures/temporary-store.ts';

const megabyte = 1024 * 1024;
/** Text that compresses to about half of its size. */
const text = randomBytes(3 * megabyte).toString('hex');
const files = layerTar([
  { path: 'first', bytes: 'first' },
  { path: 'large', bytes: text },
]);

/** Mounts a file system of some megabytes, if this process may. */
function mountSmall(directory: string, size: number): string | undefined {
  const { status, stderr } = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${size}m`, 'tmpfs', directory], { encoding: 'utf8' });
  return status === 0 ? undefined : stderr;
}
function missingForMounts(): string | undefined {
  if (process.getuid?.() !== 0) return 'mounts need root';
  const directory = mkdtempSync(join(tmpdir(), 'oarlock-full-'));
  const failure = mountSmall(directory, 1);
  if (failure === undefined) execFileSync('umount', [directory]);
  rmSync(directory, { recursive: true });
  return failure;
}
const missing = missingForMounts();

describe.skipIf(missing !== undefined)(`a full disk${missing === undefined ? '' : ` (${missing})`}`, () => {
  let registry: ScriptedRegistry;
  beforeAll(async () => {
    registry = await scriptedRegistry();
    registry.add('plain:1', testImage('', { layers: [files], compress: 'none' }));
    registry.add('compressed:1', testImage('', { layers: [files], compress: 'gzip' }));
  });
  afterAll(() => registry.stop());

  // the archive does not fit; the compressed archive fits, but not its files
  it.each([
    ['while a layer is downloaded', 'plain:1', 2],
    ['while a layer is extracted', 'compressed:1', 5],
  ])('%s fails the pull, which gives the space back and succeeds later', async (_when, name, size) => {
    const directory = mkdtempSync(join(tmpdir(), 'oarlock-full-'));
    expect(mountSmall(directory, size)).toBeUndefined();
    try {
      const store = await temporaryStore({ directory });
      const free = () => {
        const { bavail, bsize } = statfsSync(directory);
        return bavail * bsize;
      };
      const before = free();
      const reference = `${registry.host}/${name}`;
      await expect(store.images.pull({ reference })).rejects.toMatchObject({
        code: 'NoSpace',
        message: expect.stringContaining('no space left on device'),
      });
      expect(store.images.list()).toEqual([]);
      expect(['ingest', 'layers', 'partial'].map((folder) => readdirSync(join(directory, folder)))).toEqual([[], [], []]);
      expect(free()).toBeGreaterThan(before - megabyte / 4);
      execFileSync('mount', ['-o', 'remount,size=64m', directory]);
      const pulled = await store.images.pull({ reference });
      const { path = '' } = await store.snapshots.prepare({ key: 'a', image: pulled.id });
      const hash = (value: string) => createHash('sha256').update(value).digest('hex');
      const [, found] = execFileSync('sha256sum', [join(path, 'large')], { encoding: 'utf8' }).match(/^([0-9a-f]{64})/) ?? [];
      expect(found).toBe(hash(text));
      await store.images.close();
    } finally {
      execFileSync('umount', ['--lazy', directory]);
      rmSync(directory, { recursive: true });
    }
  });
});
