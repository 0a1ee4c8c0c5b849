import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { gzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { imageArchive, type BuiltImage } from '../../../../e2e/fixtures/test-image.ts';
import { layerTar, sha256, testImage, type RawEntry } from '../fixtures/layer-tar.ts';
import { temporaryStore, type TemporaryStore } from '../fixtures/temporary-store.ts';

const base = layerTar([{ path: 'base', bytes: 'base' }]);
const one = testImage('oarlock.test/one:1', { layers: [base, layerTar([{ path: 'one', bytes: 'one' }])], config: { User: '1000:1000' } });
const two = testImage('oarlock.test/two:1', { layers: [base, layerTar([{ path: 'two', bytes: 'two' }])], config: { User: 'web' } });
const code = (expected: string, message?: RegExp) =>
  expect.objectContaining({ name: 'OciError', code: expected, ...(message && { message: expect.stringMatching(message) }) });

let store: TemporaryStore;
beforeEach(async () => {
  store = await temporaryStore();
});
afterEach(() => store.remove());
const load = (archive: Buffer, name?: string) => store.images.load({ archive: Readable.from(archive), name });

/** The format of `docker save` before version 25: no manifests, and a link for a layer that occurs twice. */
function dockerArchive({ config, reference }: BuiltImage, layers: readonly Buffer[]): Buffer {
  const entries: RawEntry[] = [{ path: `${config.digest.slice(7)}.json`, bytes: config.bytes }];
  layers.forEach((bytes, index) => {
    if (layers.indexOf(bytes) === index) entries.push({ path: `l${index}/layer.tar`, bytes });
    else entries.push({ path: `l${index}/layer.tar`, type: '2', target: `../l${layers.indexOf(bytes)}/layer.tar` });
  });
  const manifest = [
    { Config: `${config.digest.slice(7)}.json`, RepoTags: [reference], Layers: layers.map((_, index) => `l${index}/layer.tar`) },
  ];
  return layerTar([...entries, { path: 'manifest.json', bytes: JSON.stringify(manifest) }]);
}

describe('load', () => {
  it('adds all images of an archive, compressed or not', async () => {
    const records = await load(gzipSync(imageArchive([one, two])));
    expect(records).toEqual(store.images.list());
    expect(records).toMatchObject([
      { id: one.config.digest, repoTags: ['oarlock.test/one:1'], repoDigests: [`oarlock.test/one@${one.manifest.digest}`], uid: 1000 },
      { id: two.config.digest, repoTags: ['oarlock.test/two:1'], username: 'web' },
    ]);
    expect(readdirSync(join(store.directory, 'layers'))).toHaveLength(3);
    expect(readdirSync(join(store.directory, 'partial'))).toEqual([]);
  });

  it('adds archives of docker save without manifests', async () => {
    const layers = [base, layerTar([{ path: 'x', bytes: 'x' }]), base];
    const image = testImage('oarlock.test/docker:1', { layers });
    const [record] = await load(dockerArchive(image, layers));
    expect(record).toMatchObject({ id: image.config.digest, repoTags: ['oarlock.test/docker:1'], repoDigests: [] });
    expect(record?.chainIds).toHaveLength(3);
  });

  it('names an image without a name', async () => {
    const entries: RawEntry[] = [one.manifest, one.config, ...one.layers].map(({ digest, bytes }) => ({
      path: `blobs/sha256/${digest.slice(7)}`,
      bytes,
    }));
    const index = {
      schemaVersion: 2,
      manifests: [{ mediaType: one.manifest.mediaType, digest: one.manifest.digest, size: one.manifest.bytes.length }],
    };
    const [record] = await load(layerTar([...entries, { path: 'index.json', bytes: JSON.stringify(index) }]), 'given');
    expect(record?.repoTags).toEqual(['docker.io/library/given:latest']);
  });

  it.each<[string, Buffer]>([
    ['a blob with another digest', layerTar([{ path: `blobs/sha256/${'0'.repeat(64)}`, bytes: 'x' }])],
    ['no image', layerTar([{ path: 'file', bytes: 'x' }])],
    ['a path above the root', layerTar([{ path: '../x', bytes: 'x' }])],
    ['no archive', Buffer.from('x'.repeat(2000))],
    ['a missing layer', layerTar([{ path: 'manifest.json', bytes: JSON.stringify([{ Config: 'c', RepoTags: [], Layers: ['l'] }]) }])],
  ])('rejects %s and keeps nothing', async (_, archive) => {
    await expect(load(archive)).rejects.toEqual(code('InvalidContent'));
    expect(store.images.list()).toEqual([]);
    expect(readdirSync(join(store.directory, 'partial'))).toEqual([]);
    expect(readdirSync(join(store.directory, 'blobs/sha256'))).toEqual([]);
  });
});

describe('names', () => {
  beforeEach(() => load(imageArchive([one, two])));

  it('are found normalized, by digest, id and prefix of the id', () => {
    const { id } = store.images.status('oarlock.test/one:1') ?? {};
    expect(id).toBe(one.config.digest);
    for (const name of [
      one.config.digest,
      one.config.digest.slice(7),
      one.config.digest.slice(7, 19),
      `oarlock.test/one@${one.manifest.digest}`,
    ])
      expect(store.images.status(name)?.id).toBe(id);
    expect(store.images.status('oarlock.test/one:2')).toBeUndefined();
    expect(store.images.status('0'.repeat(64))).toBeUndefined();
    expect(() => store.images.status('Not A Name')).toThrow(code('InvalidReference'));
  });

  it('move from image to image, and are removed one by one', async () => {
    await store.images.tag(one.config.digest, 'oarlock.test/two:1');
    expect(store.images.status(two.config.digest)?.repoTags).toEqual([]);
    expect(store.images.status('oarlock.test/two:1')?.id).toBe(one.config.digest);
    await store.images.remove('oarlock.test/one:1');
    expect(store.images.status(one.config.digest)).toMatchObject({ repoTags: ['oarlock.test/two:1'], repoDigests: [] });
    await store.images.remove('oarlock.test/two:1');
    expect(store.images.status(one.config.digest)).toBeUndefined();
    await expect(store.images.tag('oarlock.test/none:1', 'x')).rejects.toEqual(code('NotFound'));
  });

  it('and pins survive a restart', async () => {
    await store.images.pin('oarlock.test/one:1', true);
    const before = store.images.list();
    store = await store.reopen();
    expect(store.images.list()).toEqual(before);
    expect(store.images.status('oarlock.test/one:1')?.pinned).toBe(true);
  });
});

describe('garbage collection', () => {
  beforeEach(() => load(imageArchive([one, two])));

  it('keeps shared layers, and gives back the space of the last image', async () => {
    const full = await store.images.fsInfo();
    expect(full.mountpoint).toBe(store.directory);
    await store.images.remove(one.config.digest);
    await store.images.remove(one.config.digest);
    expect(readdirSync(join(store.directory, 'layers'))).toHaveLength(2);
    expect((await store.images.fsInfo()).usedBytes).toBeLessThan(full.usedBytes);
    await store.images.remove('oarlock.test/two:1');
    for (const folder of ['layers', 'blobs/sha256', 'trash', 'ingest']) expect(readdirSync(join(store.directory, folder))).toEqual([]);
  });

  it('removes what crashes left, when the store opens', async () => {
    const { directory } = store;
    for (const left of ['ingest/half', 'trash/half', 'layers/zz']) {
      execFileSync('mkdir', ['-p', join(directory, left, 'files/closed')]);
      writeFileSync(join(directory, left, 'files/x'), 'x');
    }
    writeFileSync(join(directory, 'partial/new-0011'), 'x');
    writeFileSync(join(directory, 'blobs/sha256/not-a-digest'), 'x');
    store = await store.reopen();
    for (const left of ['ingest/half', 'trash/half', 'layers/zz', 'partial/new-0011', 'blobs/sha256/not-a-digest'])
      expect(existsSync(join(directory, left))).toBe(false);
    expect(store.images.list()).toHaveLength(2);
  });

  it('synchronizes new layers once, and trusts them after another boot', async () => {
    const { directory } = store;
    const synced: string[] = [];
    const syncFileSystem = async (path: string) => {
      synced.push(path);
    };
    store = await store.reopen({ syncFileSystem });
    for (const name of readdirSync(join(directory, 'layers'))) {
      const file = join(directory, 'layers', name, 'layer.json');
      writeFileSync(file, JSON.stringify({ ...(JSON.parse(readFileSync(file, 'utf8')) as object), bootId: 'earlier' }));
    }
    store = await store.reopen();
    expect(store.images.list()).toHaveLength(2);
    expect(synced).toEqual([]);
    await load(imageArchive([testImage('oarlock.test/three:1', { layers: [layerTar([{ path: 'three' }])] })]));
    store = await store.reopen();
    expect(synced).toEqual([directory]);
  });

  it('does not trust layers of an earlier boot that are not synchronized, and images whose layers are gone', async () => {
    const { directory } = store;
    store = await store.reopen();
    const layers = readdirSync(join(directory, 'layers'));
    const shared =
      layers.find((name) => readFileSync(join(directory, 'layers', name, 'layer.json'), 'utf8').includes(`"chainId":"${sha256(base)}"`)) ??
      '';
    execFileSync('rm', ['-r', join(directory, 'layers', shared)]);
    const other = layers.find((name) => name !== shared) ?? '';
    const record = JSON.parse(readFileSync(join(directory, 'layers', other, 'layer.json'), 'utf8')) as Record<string, unknown>;
    writeFileSync(
      join(directory, 'layers', other, 'layer.json'),
      JSON.stringify({ ...record, chainId: sha256('unused'), bootId: 'earlier' }),
    );
    rmSync(join(directory, 'layers', other, 'synced'));
    store = await store.reopen();
    expect(store.images.list()).toEqual([]);
    expect(existsSync(join(directory, 'layers', other))).toBe(false);
    await load(imageArchive([one, two]));
    expect(store.images.list()).toHaveLength(2);
  });
});
