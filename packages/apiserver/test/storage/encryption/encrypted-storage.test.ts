import { randomBytes } from 'node:crypto';
import { chmod, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { KubeObject } from '@oarlock/api/object';
import { silentLogger, type Logger } from '@oarlock/primitives/logger';
import { storageContract } from '@oarlock/spi/storage/contract';
import { MemoryStorage } from '@oarlock/storage-memory/memory-storage';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { encryptionSchema, loadEncryption } from '../../../src/storage/encryption/encryption-config.ts';
import { EncryptedStorage, type EncryptionRule } from '../../../src/storage/encryption/encrypted-storage.ts';
import { aesCbc, aesGcm, identity } from '../../../src/storage/encryption/transformers.ts';
import { TestServer } from '../../support/pipeline-fixture.ts';

const key = (byte: number) => Buffer.alloc(32, byte);
const [one, two] = [aesGcm('one', key(1)), aesGcm('two', key(2))];
const text = (value: Uint8Array | undefined) => value && Buffer.from(value).toString();
const put = (storage: EncryptedStorage | MemoryStorage, name: string, value: string) =>
  storage.commit([{ key: name, value: Buffer.from(value) }], []);

function encrypted(storage: MemoryStorage, rules: readonly EncryptionRule[], log: Logger = silentLogger): EncryptedStorage {
  const wrapped = new EncryptedStorage(storage, log);
  wrapped.setRules(rules);
  return wrapped;
}

// the keys of the contract belong to no resource; this fixture assigns one, so that every value is encrypted
storageContract('encryption over storage-memory', async () => {
  const clock = new FakeClock();
  const lagBytes = 4 * 1024 * 1024;
  const driver = new MemoryStorage({ clock, watchBytes: lagBytes });
  const wrapped = new EncryptedStorage(driver, silentLogger, () => 'things');
  wrapped.setRules([{ resources: ['things'], transformers: [one] }]);
  return {
    driver: wrapped,
    dispose: () => driver.stop(),
    tick: (ms: number) => clock.advance(ms),
    cost: () => driver.stats.steps,
    lagBytes,
  };
});

describe('EncryptedStorage', () => {
  const secret = '/registry/secrets/default/a';

  it('encrypts the values of the configured resources and decrypts them in get, range, commit and watch', async () => {
    const inner = new MemoryStorage();
    const storage = encrypted(inner, [{ resources: ['secrets'], transformers: [one, identity] }]);
    const batches = storage.watch('/registry/', { after: 0, signal: new AbortController().signal })[Symbol.asyncIterator]();
    await batches.next();
    await put(storage, secret, 'first');
    await put(storage, secret, 'second');
    await put(storage, '/registry/configmaps/default/a', 'plain');
    const stored = (await inner.get(secret)).entry?.value as Uint8Array;
    expect(text(stored)).toMatch(/^k8s:enc:aesgcm:v1:one:/);
    expect(text(stored)).not.toContain('second');
    expect(text((await inner.get('/registry/configmaps/default/a')).entry?.value)).toBe('plain');
    expect(text((await storage.get(secret)).entry?.value)).toBe('second');
    expect((await storage.range({ prefix: '/registry/' })).entries.map(({ value }) => text(value))).toEqual(['plain', 'second']);
    const { changes } = (await batches.next()).value as { readonly changes: readonly unknown[] };
    expect(changes).toHaveLength(1);
    const later = (await batches.next()).value?.changes[0];
    expect(later?.type === 'put' && [text(later.entry.value), text(later.previous?.value)]).toEqual(['second', 'first']);
    const rejected = await storage.commit([{ key: secret, value: null }], [{ key: secret, revision: 1 }]);
    expect(!rejected.ok && text(rejected.current?.value)).toBe('second');
  });

  it('returns written values without decrypting them again', async () => {
    const storage = encrypted(new MemoryStorage(), [{ resources: ['secrets'], transformers: [one] }]);
    const value = Buffer.from('mine');
    await storage.commit([{ key: secret, value }], []);
    expect((await storage.get(secret)).entry?.value).toBe(value);
  });

  it('supports key rotation: the first key writes, all keys read', async () => {
    const inner = new MemoryStorage();
    await put(inner, secret, 'before encryption');
    const first = encrypted(inner, [{ resources: ['secrets'], transformers: [one, identity] }]);
    expect(text((await first.get(secret)).entry?.value)).toBe('before encryption');
    await put(first, secret, 'with one');
    const both = encrypted(inner, [{ resources: ['secrets'], transformers: [two, one, identity] }]);
    expect(text((await both.get(secret)).entry?.value)).toBe('with one');
    const { entry } = await both.get(secret);
    expect(both.isStale(entry?.value as Uint8Array)).toBe(true);
    await put(both, secret, 'with two');
    expect(both.isStale((await both.get(secret)).entry?.value as Uint8Array)).toBe(false);
    const last = encrypted(inner, [{ resources: ['secrets'], transformers: [two] }]);
    expect(text((await last.get(secret)).entry?.value)).toBe('with two');
    const off = encrypted(inner, [{ resources: ['secrets'], transformers: [identity, two] }]);
    await put(off, secret, 'plain again');
    expect(text((await inner.get(secret)).entry?.value)).toBe('plain again');
  });

  it('rewrites an unchanged object whose stored value is stale', async () => {
    const inner = new MemoryStorage();
    const prefixes = async (transformers: EncryptionRule['transformers'], replaced: number) => {
      const storage = encrypted(inner, [{ resources: ['secrets'], transformers }]);
      const server = await TestServer.start({ storage, stale: (value) => storage.isStale(value) });
      if (replaced === 0)
        await server.create('secrets', { metadata: { name: 'a', namespace: 'default' }, data: { a: 'Yg==' } } as KubeObject);
      for (let times = 0; times < replaced; times += 1) {
        const body = await server.object('get', 'secrets', { namespace: 'default', name: 'a' });
        await server.handle('update', 'secrets', { namespace: 'default', name: 'a', body });
      }
      await server.stop();
      const { entry } = await inner.get(secret);
      return [/^(k8s:enc:aesgcm:v1:\w+:)?/.exec(Buffer.from(entry?.value ?? []).toString('latin1'))?.[0], entry?.revision];
    };
    const [plain, created] = await prefixes([identity], 0);
    expect(plain).toBe('');
    const [encryptedNow, first] = await prefixes([one, identity], 2);
    expect([encryptedNow, first]).toEqual([one.prefix, Number(created) + 1]);
    expect(await prefixes([two, one], 2)).toEqual([two.prefix, Number(first) + 1]);
  });

  it('returns values that it cannot decrypt unchanged and logs their keys: unknown key, moved value, modified value', async () => {
    const inner = new MemoryStorage();
    const logged: unknown[] = [];
    const log: Logger = { ...silentLogger, error: (fields: object) => void logged.push(fields) } as Logger;
    const storage = encrypted(inner, [{ resources: ['*.*'], transformers: [one] }], log);
    await put(storage, secret, 'mine');
    const sealed = Buffer.from((await inner.get(secret)).entry?.value as Uint8Array);
    await inner.commit([{ key: '/registry/secrets/other/a', value: sealed }], []);
    const changed = Buffer.from(sealed);
    changed[changed.length - 1] = (changed[changed.length - 1] ?? 0) ^ 1;
    await inner.commit([{ key: secret, value: changed }], []);
    await inner.commit([{ key: '/registry/secrets/third/a', value: two.transformToStorage(Buffer.from('x'), 'y') }], []);
    const { entries } = await storage.range({ prefix: '/registry/' });
    expect(entries.every(({ value }) => text(value)?.startsWith('k8s:enc:aesgcm:v1:'))).toBe(true);
    expect(logged).toMatchObject([{ key: secret }, { key: '/registry/secrets/other/a' }, { key: '/registry/secrets/third/a' }]);
  });

  it('matches resources by group patterns', async () => {
    const inner = new MemoryStorage();
    const storage = encrypted(inner, [
      { resources: ['deployments.apps'], transformers: [identity] },
      { resources: ['*.apps', '*.'], transformers: [one] },
    ]);
    const of = async (resource: string) => {
      await put(storage, `/registry/${resource}/default/a`, 'plain');
      return text((await inner.get(`/registry/${resource}/default/a`)).entry?.value) !== 'plain';
    };
    expect(await Promise.all(['pods', 'replicasets.apps', 'deployments.apps', 'jobs.batch', 'things.my.apps'].map(of))).toEqual([
      true,
      true,
      false,
      false,
      false,
    ]);
    await put(storage, '/registry/other', 'plain');
    expect(text((await inner.get('/registry/other')).entry?.value)).toBe('plain');
  });

  it.each([16, 24, 32])('encrypts with keys of %i bytes and a new nonce each time, and rejects modified values', (bytes) => {
    const secretKey = randomBytes(bytes);
    for (const { prefix, transformToStorage: seal, transformFromStorage: open } of [aesGcm('k', secretKey), aesCbc('k', secretKey)]) {
      for (const length of [0, 1, 15, 16, 17, 5000]) {
        const value = randomBytes(length);
        const sealed = seal(value, '/registry/a');
        expect(open(sealed.subarray(prefix.length), '/registry/a')).toEqual(value);
        expect(seal(value, '/registry/a')).not.toEqual(sealed);
      }
    }
    const { prefix, transformToStorage: seal, transformFromStorage: open } = aesGcm('k', secretKey);
    const sealed = seal(Buffer.from('value'), 'a').subarray(prefix.length);
    expect(() => open(sealed, 'b')).toThrow();
    expect(() => open(sealed.subarray(0, 20), 'a')).toThrow();
    for (let at = 0; at < sealed.length; at += 1) {
      const touched = Buffer.from(sealed);
      touched[at] = (touched[at] ?? 0) ^ 0x10;
      expect(() => open(touched, 'a')).toThrow();
    }
  });
});

describe('encryption keys', () => {
  let dir: string;
  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'encryption-'));
  });
  afterEach(() => rm(dir, { recursive: true, force: true }));
  const load = (settings: object) => loadEncryption(encryptionSchema.parse(settings), join(dir, 'made'));
  const write = async (name: string, content: string, mode = 0o600) => {
    await writeFile(join(dir, name), content);
    await chmod(join(dir, name), mode);
    return join(dir, name);
  };

  it('are generated once if none is configured, readable by their owner only', async () => {
    const [rule] = await load({});
    expect(rule?.resources).toEqual(['secrets']);
    expect(rule?.transformers.map(({ prefix }) => prefix)).toEqual(['k8s:enc:aesgcm:v1:generated:', '']);
    expect((await stat(join(dir, 'made/generated.key'))).mode & 0o777).toBe(0o600);
    expect((await stat(join(dir, 'made'))).mode & 0o777).toBe(0o700);
    const content = await readFile(join(dir, 'made/generated.key'), 'utf8');
    const [again] = await load({});
    expect(await readFile(join(dir, 'made/generated.key'), 'utf8')).toBe(content);
    const sealed = rule?.transformers[0]
      .transformToStorage(Buffer.from('x'), 'a')
      .subarray('k8s:enc:aesgcm:v1:generated:'.length) as Buffer;
    expect(String(again?.transformers[0].transformFromStorage(sealed, 'a'))).toBe('x');
  });

  it('are read from files, and rejected if other users can read the file or the content is invalid', async () => {
    const good = await write('good', `${key(1).toString('base64')}\n`);
    const [rule] = await load({ resources: ['configmaps'], keys: [{ name: 'k', file: good }] });
    expect(rule).toMatchObject({ resources: ['configmaps'], transformers: [{ prefix: 'k8s:enc:aesgcm:v1:k:' }, identity] });
    await expect(load({ keys: [{ name: 'k', file: await write('open', key(1).toString('base64'), 0o644) }] })).rejects.toThrow(/chmod 600/);
    await expect(load({ keys: [{ name: 'k', file: await write('short', 'AAAA') }] })).rejects.toThrow(
      /short is not a valid key: expected 16, 24 or 32 bytes/,
    );
    await expect(load({ keys: [{ name: 'k', file: join(dir, 'none') }] })).rejects.toThrow(/ENOENT.*none/);
    expect(() => encryptionSchema.parse({ keys: [{ name: 'a:b', file: 'x' }] })).toThrow();
    expect(() =>
      encryptionSchema.parse({
        keys: [
          { name: 'a', file: 'x' },
          { name: 'a', file: 'y' },
        ],
      }),
    ).toThrow(/key names must be unique/);
  });

  it("come from upstream's EncryptionConfiguration", async () => {
    const configuration = (providers: string) =>
      `kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\nresources:\n- resources: [secrets, "*.apps"]\n  providers:\n${providers}`;
    const secretText = key(7).toString('base64');
    const [rule] = await load({
      file: await write(
        'good.yaml',
        configuration(
          `  - aescbc: { keys: [{ name: old, secret: ${secretText} }] }\n  - aesgcm: { keys: [{ name: a, secret: ${secretText} }, { name: b, secret: ${secretText} }] }\n  - identity: {}\n`,
        ),
      ),
    });
    expect(rule).toMatchObject({ resources: ['secrets', '*.apps'] });
    expect(rule?.transformers.map(({ prefix }) => prefix)).toEqual([
      'k8s:enc:aescbc:v1:old:',
      'k8s:enc:aesgcm:v1:a:',
      'k8s:enc:aesgcm:v1:b:',
      '',
    ]);
    await expect(load({ file: await write('kms.yaml', configuration('  - kms: { name: x, endpoint: y }\n')) })).rejects.toThrow(
      /kms\.yaml is not a valid EncryptionConfiguration/,
    );
    await expect(load({ file: await write('other.yaml', 'kind: Pod\n') })).rejects.toThrow(/other\.yaml is not a valid/);
  });
});
