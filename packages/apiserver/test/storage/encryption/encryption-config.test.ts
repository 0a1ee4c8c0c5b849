import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { StorageDriver } from '@oarlock/spi/storage';
import { MemoryStorage } from '@oarlock/storage-memory/memory-storage';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  addGeneratedKey,
  loadDefaultEncryption,
  loadEncryption,
  readGeneratedKeys,
  removeGeneratedKeys,
} from '../../../src/storage/encryption/encryption-config.ts';

let directory: string;
beforeEach(async () => {
  directory = join(await mkdtemp(join(tmpdir(), 'encryption-')), 'keys');
});
afterEach(() => rm(join(directory, '..'), { recursive: true }));

/** Storage in memory with the traits of another driver. */
function storageWith(traits: Partial<StorageDriver['traits']>): StorageDriver {
  const storage = new MemoryStorage();
  return Object.create(storage, {
    traits: { value: { ...storage.traits, durable: true, shared: false, ...traits } },
    range: { value: storage.range.bind(storage) },
  }) as StorageDriver;
}

describe('default encryption', () => {
  it('generates a key for an empty storage and writes Secrets with it', async () => {
    const rules = await loadDefaultEncryption(storageWith({}), directory);
    expect(rules.map(({ resources, transformers }) => [resources, transformers.map(({ prefix }) => prefix)])).toEqual([
      [['secrets'], ['k8s:enc:aesgcm:v1:generated:', '']],
    ]);
    expect(await readdir(directory)).toEqual(['generated.key']);
    expect((await stat(directory)).mode & 0o777).toBe(0o700);
    expect((await stat(join(directory, 'generated.key'))).mode & 0o777).toBe(0o600);
  });

  it('leaves a storage with content and without a key unencrypted', async () => {
    const storage = storageWith({});
    const inner = Object.getPrototypeOf(storage) as MemoryStorage;
    await inner.commit([{ key: '/registry/namespaces/default', value: Buffer.from('{}') }], []);
    expect(await loadDefaultEncryption(storage, directory)).toEqual([]);
    await expect(stat(directory)).rejects.toMatchObject({ code: 'ENOENT' });
    // the key of an earlier start is used whatever the storage contains
    await addGeneratedKey(directory, new Date());
    expect(await loadDefaultEncryption(storage, directory)).toHaveLength(1);
  });

  it.each([{ durable: false }, { shared: true }])('is off for storage with the traits %j', async (traits) => {
    expect(await loadDefaultEncryption(storageWith(traits), directory)).toEqual([]);
    await expect(stat(directory)).rejects.toMatchObject({ code: 'ENOENT' });
  });
});

it('a malformed configuration file is rejected without a quote of its keys', async () => {
  const file = join(directory, '..', 'encryption.yaml');
  for (const text of ['secret: marker: x', 'keys: [{ secret: marker', 'marker: 1\nmarker: 2']) {
    await writeFile(file, text, { mode: 0o600 });
    const error = await loadEncryption({ file, keys: [], resources: ['secrets'] }, directory).catch((cause: unknown) => cause);
    expect(String(error)).toContain('encryption.yaml is no YAML: ');
    expect(String(error)).not.toContain('marker');
  }
});

describe('generated keys', () => {
  it('are read with the newest first, which writes', async () => {
    expect(await addGeneratedKey(directory, new Date())).toBe('generated');
    expect(await addGeneratedKey(directory, new Date('2026-05-01T10:00:00.123Z'))).toBe('generated-20260501T100000123Z');
    expect(await addGeneratedKey(directory, new Date('2026-11-01T10:00:00Z'))).toBe('generated-20261101T100000000Z');
    const names = (await readGeneratedKeys(directory)).map(({ name }) => name);
    expect(names).toEqual(['generated-20261101T100000000Z', 'generated-20260501T100000123Z', 'generated']);
    const [rule] = await loadDefaultEncryption(storageWith({}), directory);
    expect(rule?.transformers[0].prefix).toBe('k8s:enc:aesgcm:v1:generated-20261101T100000000Z:');
    await removeGeneratedKeys(directory, names.slice(1));
    expect(await readdir(directory)).toEqual(['generated-20261101T100000000Z.key']);
    expect((await readFile(join(directory, 'generated-20261101T100000000Z.key'), 'utf8')).trim()).toMatch(/^[A-Za-z0-9+/]{43}=$/);
  });
});
