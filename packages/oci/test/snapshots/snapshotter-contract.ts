import { chmodSync, existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { mountRoot, unmountRoot } from '@oarlock/oci/snapshots/mount-root';
import { imageArchive } from '../../../../e2e/fixtures/test-image.ts';
import type { RootFilesystem, SnapshotterKind } from '../../src/snapshotter.ts';
import { layerTar, testImage } from '../fixtures/layer-tar.ts';
import { temporaryStore, type TemporaryStore } from '../fixtures/temporary-store.ts';

const isRoot = process.geteuid?.() === 0;
const layers = [
  layerTar([
    { path: './', type: '5', mode: 0o755 },
    { path: 'etc/', type: '5', mode: 0o750, uid: 10, gid: 11, mtime: 1000 },
    { path: 'etc/kept', bytes: 'lower', mode: 0o640, uid: 10, gid: 11, mtime: 2000 },
    { path: 'etc/replaced', bytes: 'lower' },
    { path: 'etc/removed', bytes: 'lower' },
    { path: 'gone/', type: '5' },
    { path: 'gone/file', bytes: 'lower' },
    { path: 'opaque/', type: '5' },
    { path: 'opaque/old', bytes: 'lower' },
    { path: 'opaque/sub/', type: '5' },
    { path: 'opaque/sub/old', bytes: 'lower' },
    { path: 'becomes-file/', type: '5' },
    { path: 'becomes-file/x', bytes: 'lower' },
    { path: 'becomes-directory', bytes: 'lower' },
  ]),
  layerTar([
    { path: 'etc/.wh.removed' },
    { path: 'etc/replaced', bytes: 'upper' },
    { path: 'etc/linked', type: '1', target: 'etc/replaced' },
    { path: 'etc/symbolic', type: '2', target: '/etc/kept' },
    { path: '.wh.gone' },
    { path: 'opaque/', type: '5' },
    { path: 'opaque/.wh..wh..opq' },
    { path: 'opaque/new', bytes: 'upper' },
    { path: 'opaque/sub/', type: '5' },
    { path: 'becomes-file', bytes: 'upper' },
    { path: 'becomes-directory/', type: '5' },
    { path: 'becomes-directory/x', bytes: 'upper' },
  ]),
  layerTar([{ path: 'top', bytes: 'top', mode: 0o4755 }]),
];
export const contractImage = testImage('oarlock.test/contract:1', { layers });
const singleLayer = testImage('oarlock.test/single:1', { layers: layers.slice(0, 1) });
const withoutLayers = testImage('oarlock.test/scratch:1', { layers: [] });

/** Tests the guarantees of `Snapshotter` with mounts as the caller of a snapshotter makes them. */
export function snapshotterContract(kind: SnapshotterKind): void {
  describe(`snapshotter ${kind}`, () => {
    let store: TemporaryStore;
    const mounted: string[] = [];

    async function open(root: RootFilesystem): Promise<string> {
      if (root.path !== undefined) return root.path;
      const target = join(store.directory, `mount-${mounted.length}`);
      mkdirSync(target, { recursive: true });
      await mountRoot(root, target);
      mounted.push(target);
      return target;
    }
    beforeAll(async () => {
      store = await temporaryStore({ snapshotter: kind });
      await store.images.load({ archive: Readable.from(imageArchive([contractImage, singleLayer, withoutLayers])) });
    });
    afterEach(async () => {
      for (const target of mounted.splice(0)) await unmountRoot(target);
      for (const { key } of store.snapshots.list()) await store.snapshots.remove(key);
    });
    afterAll(() => store.remove());
    const image = contractImage.config.digest;

    function expectFiles(root: string): void {
      expect(readdirSync(root).sort()).toEqual(['becomes-directory', 'becomes-file', 'etc', 'opaque', 'top']);
      expect(readdirSync(join(root, 'etc')).sort()).toEqual(['kept', 'linked', 'replaced', 'symbolic']);
      expect(readFileSync(join(root, 'etc/kept'), 'utf8')).toBe('lower');
      expect(readFileSync(join(root, 'etc/replaced'), 'utf8')).toBe('upper');
      expect(lstatSync(join(root, 'etc/linked')).ino).toBe(lstatSync(join(root, 'etc/replaced')).ino);
      expect(readlinkSync(join(root, 'etc/symbolic'))).toBe('/etc/kept');
      expect(readdirSync(join(root, 'opaque')).sort()).toEqual(['new', 'sub']);
      expect(readdirSync(join(root, 'opaque/sub'))).toEqual([]);
      expect(readFileSync(join(root, 'becomes-file'), 'utf8')).toBe('upper');
      expect(readdirSync(join(root, 'becomes-directory'))).toEqual(['x']);
    }

    it('reports its kind', () => {
      expect(store.snapshots.kind).toBe(kind);
    });

    it('makes the files of all layers, with whiteouts and opaque directories', async () => {
      expectFiles(await open(await store.snapshots.prepare({ key: 'a', image })));
    });

    it('keeps modes, times and owners, also of directories without an entry in the upper layer', async () => {
      const root = await open(await store.snapshots.prepare({ key: 'a', image }));
      expect(lstatSync(root).mode & 0o7777).toBe(0o755);
      expect(lstatSync(join(root, 'etc')).mode & 0o7777).toBe(0o750);
      expect(lstatSync(join(root, 'etc/kept')).mode & 0o7777).toBe(0o640);
      expect(lstatSync(join(root, 'etc/kept')).mtimeMs).toBe(2_000_000);
      expect(lstatSync(join(root, 'top')).mode & 0o7777).toBe(0o4755);
      if (!isRoot) return;
      expect(lstatSync(join(root, 'etc'))).toMatchObject({ uid: 10, gid: 11 });
      expect(lstatSync(join(root, 'etc/kept'))).toMatchObject({ uid: 10, gid: 11 });
    });

    it('gives each container files of its own', async () => {
      const one = await open(await store.snapshots.prepare({ key: 'one', image }));
      const two = await open(await store.snapshots.prepare({ key: 'two', image }));
      writeFileSync(join(one, 'etc/kept'), 'changed');
      chmodSync(join(one, 'etc/replaced'), 0o600);
      rmSync(join(one, 'opaque'), { recursive: true });
      writeFileSync(join(one, 'new'), 'new');
      expectFiles(two);
      expectFiles(await open(await store.snapshots.prepare({ key: 'three', image })));
      expect(readFileSync(join(two, 'etc/kept'), 'utf8')).toBe('lower');
      expect(lstatSync(join(two, 'etc/replaced')).mode & 0o777).toBe(0o644);
    });

    it('returns an existing snapshot with its files, and rejects another image for its key', async () => {
      const first = await open(await store.snapshots.prepare({ key: 'a', image }));
      writeFileSync(join(first, 'written'), 'x');
      for (const target of mounted.splice(0)) await unmountRoot(target);
      store = await store.reopen();
      expect(store.snapshots.list()).toEqual([{ key: 'a', image, kind: 'container' }]);
      const again = await open(await store.snapshots.prepare({ key: 'a', image }));
      expect(readFileSync(join(again, 'written'), 'utf8')).toBe('x');
      expect(await store.snapshots.root('a')).toEqual(await store.snapshots.prepare({ key: 'a', image }));
      await expect(store.snapshots.prepare({ key: 'a', image: singleLayer.config.digest })).rejects.toMatchObject({ code: 'InUse' });
      await expect(store.snapshots.view({ key: 'a', image })).rejects.toMatchObject({ code: 'InUse' });
    });

    it('makes views, also of one layer and of none', async () => {
      expectFiles(await open(await store.snapshots.view({ key: 'view', image })));
      const single = await open(await store.snapshots.view({ key: 'single', image: singleLayer.config.digest }));
      expect(readdirSync(join(single, 'opaque')).sort()).toEqual(['old', 'sub']);
      expect(readdirSync(await open(await store.snapshots.view({ key: 'none', image: withoutLayers.config.digest })))).toEqual([]);
      const container = await open(await store.snapshots.prepare({ key: 'scratch', image: withoutLayers.config.digest }));
      writeFileSync(join(container, 'x'), 'x');
      expect(readdirSync(container)).toEqual(['x']);
    });

    it('removes snapshots with their files, repeatedly', async () => {
      await store.snapshots.prepare({ key: 'a', image });
      await store.snapshots.remove('a');
      await store.snapshots.remove('a');
      expect(store.snapshots.list()).toEqual([]);
      expect(existsSync(join(store.directory, 'snapshots/a'))).toBe(false);
      expect(readdirSync(join(store.directory, 'trash'))).toEqual([]);
      expect(await store.snapshots.root('a')).toBeUndefined();
    });

    it('reports what a container wrote', async () => {
      const root = await open(await store.snapshots.prepare({ key: 'a', image }));
      const before = await store.snapshots.usage('a');
      writeFileSync(join(root, 'large'), Buffer.alloc(1024 * 1024, 'x'));
      const after = await store.snapshots.usage('a');
      expect(after.usedBytes - before.usedBytes).toBeGreaterThanOrEqual(1024 * 1024);
      expect(after.inodesUsed - before.inodesUsed).toBe(1);
      await expect(store.snapshots.usage('other')).rejects.toMatchObject({ code: 'NotFound' });
    });

    it('rejects absent images and names that are paths', async () => {
      await expect(store.snapshots.prepare({ key: 'a', image: `sha256:${'0'.repeat(64)}` })).rejects.toMatchObject({ code: 'NotFound' });
      for (const key of ['..', 'a/b', '', '.hidden', 'x'.repeat(129)])
        await expect(async () => store.snapshots.prepare({ key, image })).rejects.toMatchObject({ code: 'InvalidReference' });
      expect(store.snapshots.list()).toEqual([]);
    });

    it('keeps the layers of a removed image for its snapshots', async () => {
      await store.snapshots.prepare({ key: 'a', image });
      await store.images.remove(image);
      store = await store.reopen();
      expect(store.images.status(image)).toBeUndefined();
      const root = await store.snapshots.root('a');
      if (!root) throw new Error('the snapshot is gone');
      expectFiles(await open(root));
      for (const target of mounted.splice(0)) await unmountRoot(target);
      await store.snapshots.remove('a');
      expect((await store.images.gc()).removedLayers).toBe(2);
      await store.images.load({ archive: Readable.from(imageArchive([contractImage])) });
    });
  });
}
