import { spawn, type ChildProcess } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { readClusterFile } from '@oarlock/cluster/composition/read-cluster-file';
import { openStorage } from '@oarlock/cluster/composition/open-storage';
import { run } from '@oarlock/cluster/run';
import { addGeneratedKey, loadDefaultEncryption, readGeneratedKeys } from '@oarlock/apiserver/storage/encryption/encryption-config';
import { EncryptedStorage } from '@oarlock/apiserver/storage/encryption/encrypted-storage';
import { aesGcm } from '@oarlock/apiserver/storage/encryption/transformers';
import { silentLogger } from '@oarlock/primitives/logger';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { rotateEncryptionKey } from '../../src/keys/encryption-keys.ts';
import { backup } from '../../src/backup/backup.ts';
import { restore } from '../../src/backup/restore.ts';
import { loaderArguments } from '../support/plugins-command.ts';

let dir: string;
let file: string;
const children: ChildProcess[] = [];
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'backup-'));
  file = join(dir, 'cluster.yaml');
  await writeFile(file, 'apiVersion: oarlock.dev/v1\nkind: Cluster\nmetadata: { name: kept }\nspec:\n  roles: [apiserver]\n');
});
afterEach(async () => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
  await rm(dir, { recursive: true, force: true });
});

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
const path = (name: string) => join(dir, name);
const saved = (name = 'backup') => ({ dataDir: path('d'), output: path(name), file, keys: true });
const into = (name: string, more: { readonly keys?: boolean; readonly file?: string } = {}) => ({
  dataDir: path(name),
  input: path('backup'),
  file,
  keys: true,
  ...more,
});

/** Creates a data directory with keys and stored entries. */
async function fill(): Promise<void> {
  const { driver, close } = await openStorage(await readClusterFile(file), path('d'));
  for (let at = 0; at < 700; at += 1)
    await driver.commit([{ key: `/registry/configmaps/default/c${at}`, value: Buffer.from(`{"n":${at}}`) }], []);
  await driver.commit([{ key: '/registry/secrets/default/😀', value: Buffer.from([0, 255, 10, 13]) }], []);
  await driver.commit([{ key: '/registry/masterleases/127.0.0.1', value: Buffer.from('{}'), ttlSeconds: 15 }], []);
  await driver.commit([{ key: '/registry/events/default/e', value: Buffer.from('{}'), ttlSeconds: 3600 }], []);
  await close();
  await mkdir(path('d/pki/issued'), { recursive: true });
  await writeFile(path('d/pki/ca.key'), 'the key of the CA');
  await writeFile(path('d/pki/issued/a.json'), '{}');
}

async function stored(name: string) {
  const { driver, close } = await openStorage(await readClusterFile(file), path(name));
  const page = await driver.range({ prefix: '' });
  const old = await driver.get('/a', { revision: 703 }).catch((error: unknown) => error);
  await close();
  return { ...page, old, values: new Map(page.entries.map(({ key, value }) => [key, Buffer.from(value).toString('hex')])) };
}

const keysOf = (name: string) => path(`${name}/plugins/apiserver/encryption`);

/** Writes a Secret as the API server of a data directory does. */
async function writeSecret(name: string, secret: string): Promise<void> {
  const { driver, close } = await openStorage(await readClusterFile(file), path(name));
  const storage = new EncryptedStorage(driver, silentLogger);
  storage.setRules(await loadDefaultEncryption(driver, keysOf(name)));
  await storage.commit([{ key: `/registry/secrets/default/${secret}`, value: Buffer.from('{"secret":true}') }], []);
  await close();
}
async function readSecret(name: string, secret: string): Promise<string | undefined> {
  const { driver, close } = await openStorage(await readClusterFile(file), path(name));
  const storage = new EncryptedStorage(driver, silentLogger);
  storage.setRules(await loadDefaultEncryption(driver, keysOf(name)));
  const { entry } = await storage.get(`/registry/secrets/default/${secret}`);
  await close();
  return entry && Buffer.from(entry.value).toString();
}
/** Returns what a command prints. */
async function printed(command: () => Promise<void>): Promise<string> {
  const lines: string[] = [];
  const spies = (['log', 'error'] as const).map((name) =>
    vi.spyOn(console, name).mockImplementation((line: string) => void lines.push(line)),
  );
  try {
    await command();
  } finally {
    for (const spy of spies) spy.mockRestore();
  }
  return lines.join('\n');
}
/** Creates a data directory with an encrypted Secret. */
async function fillEncrypted(): Promise<void> {
  await writeSecret('d', 'first');
  await mkdir(path('d/pki'), { recursive: true });
  await writeFile(path('d/pki/ca.key'), 'the key of the CA');
}

describe('a backup with encrypted Secrets', () => {
  it('holds ciphertext and the key, and is restored with it', async () => {
    await fillEncrypted();
    await backup(saved());
    const text = gunzipSync(await readFile(path('backup'))).toString();
    const value = /"key":"\/registry\/secrets\/default\/first","value":"([^"]+)"/.exec(text)?.[1] ?? '';
    expect(Buffer.from(value, 'base64').toString('latin1')).toMatch(/^k8s:enc:aesgcm:v1:generated:/);
    await restore(into('new'));
    expect(await readSecret('new', 'first')).toBe('{"secret":true}');
    expect((await stat(path('new/plugins/apiserver/encryption/generated.key'))).mode & 0o777).toBe(0o600);
  });

  it('is rejected without the key, without changes, and restored once the key is there', async () => {
    await fillEncrypted();
    await backup({ ...saved(), keys: false });
    const problem = 'the value of /registry/secrets/default/first is encrypted, and no key decrypts it: restore a backup with keys, copy';
    await expect(restore(into('new'))).rejects.toThrow(problem);
    await addGeneratedKey(keysOf('new'), new Date());
    await expect(restore(into('new'))).rejects.toThrow(problem); // another key of the same name
    expect((await stored('new')).entries).toEqual([]);
    await writeFile(join(keysOf('new'), 'generated.key'), await readFile(join(keysOf('d'), 'generated.key')), { mode: 0o600 });
    await restore(into('new'));
    expect(await readSecret('new', 'first')).toBe('{"secret":true}');
  });
});

describe('a backup of a cluster whose file names the encryption keys', () => {
  const encryption = (name: string, spec: object) =>
    writeFile(
      path(name),
      JSON.stringify({
        apiVersion: 'oarlock.dev/v1',
        kind: 'Cluster',
        metadata: { name: 'kept' },
        spec: { roles: ['apiserver'], encryption: spec },
      }),
    );
  const keyFile = async (name: string, byte: number) => {
    await mkdir(path('keys'), { recursive: true });
    await writeFile(path(`keys/${name}`), Buffer.alloc(32, byte).toString('base64'), { mode: 0o600 });
  };
  /** Writes a Secret with the key `may`, of 32 bytes with value 1. */
  const writeWithMay = async () => {
    const { driver, close } = await openStorage(await readClusterFile(file), path('d'));
    const sealed = aesGcm('may', Buffer.alloc(32, 1)).transformToStorage(Buffer.from('{"secret":true}'), '/registry/secrets/default/first');
    await driver.commit([{ key: '/registry/secrets/default/first', value: sealed }], []);
    await close();
    await mkdir(path('d/pki'), { recursive: true });
    await writeFile(path('d/pki/ca.key'), 'the key of the CA');
  };
  beforeEach(async () => {
    await keyFile('may', 1);
    await encryption('keys.yaml', { keys: [{ name: 'may', file: './keys/may' }] });
    await writeWithMay();
  });

  it('contains the keys, and a restore writes them to the files that the cluster file names', async () => {
    await backup({ ...saved(), file: path('keys.yaml') });
    await rm(path('keys'), { recursive: true });
    await restore(into('new', { file: path('keys.yaml') }));
    expect(await readFile(path('keys/may'), 'utf8')).toBe(Buffer.alloc(32, 1).toString('base64'));
    expect((await stat(path('keys/may'))).mode & 0o777).toBe(0o600);
  });

  it('keeps a key that the cluster file of the restore does not name, and prints its path', async () => {
    await keyFile('november', 2);
    await encryption('both.yaml', {
      keys: [
        { name: 'november', file: './keys/november' },
        { name: 'may', file: './keys/may' },
      ],
    });
    await backup({ ...saved(), file: path('both.yaml') });
    const lines = await printed(() => restore(into('new', { file: path('keys.yaml') })));
    expect(lines).toContain(
      `${path('new/restored-encryption/key-november')} is an encryption key of the backup that the cluster.yaml does not name`,
    );
    expect(await readFile(path('new/restored-encryption/key-november'), 'utf8')).toBe(Buffer.alloc(32, 2).toString('base64'));
  });

  it('contains an EncryptionConfiguration', async () => {
    const secret = Buffer.alloc(32, 1).toString('base64');
    const resources = [{ resources: ['secrets'], providers: [{ aesgcm: { keys: [{ name: 'may', secret }] } }] }];
    await writeFile(
      path('upstream.yaml'),
      JSON.stringify({ apiVersion: 'apiserver.config.k8s.io/v1', kind: 'EncryptionConfiguration', resources }),
      {
        mode: 0o600,
      },
    );
    await encryption('upstream-cluster.yaml', { file: './upstream.yaml' });
    expect(await printed(() => backup({ ...saved(), file: path('upstream-cluster.yaml') }))).not.toContain('lacks');
    await rm(path('upstream.yaml'));
    await restore(into('new', { file: path('upstream-cluster.yaml') }));
    expect(await readFile(path('upstream.yaml'), 'utf8')).toContain(secret);
  });

  it('names the keys that it lacks if it is made without the cluster file', async () => {
    expect(await printed(() => backup({ ...saved() }))).toContain(
      'The backup lacks encryption keys that its values need: may. Name the cluster.yaml with -f',
    );
  });

  it('is not restored over another key', async () => {
    await backup({ ...saved(), file: path('keys.yaml') });
    await keyFile('may', 3);
    await expect(restore(into('new', { file: path('keys.yaml') }))).rejects.toThrow(
      `${path('keys/may')} differs from the key in the backup`,
    );
  });
});

describe('a rotation of the encryption key', () => {
  const options = () => ({ dataDir: path('d'), file, timeout: 30 });
  it('adds a key that writes, and deletes the former one when no value uses it', async () => {
    await fillEncrypted();
    await rotateEncryptionKey('add', options());
    const [newest, former] = await readGeneratedKeys(keysOf('d'));
    expect(former?.name).toBe('generated');
    await writeSecret('d', 'second');
    await expect(rotateEncryptionKey('end', options())).rejects.toThrow(
      '/registry/secrets/default/first is still encrypted with a former key: run `kubectl get secrets -A -o json | kubectl replace -f -` first',
    );
    await writeSecret('d', 'first');
    await rotateEncryptionKey('end', options());
    expect((await readGeneratedKeys(keysOf('d'))).map(({ name }) => name)).toEqual([newest?.name]);
    expect(await readSecret('d', 'first')).toBe('{"secret":true}');
    await expect(rotateEncryptionKey('end', options())).rejects.toThrow('there is no former encryption key');
  });

  it('requires a generated key', async () => {
    await fill();
    await expect(rotateEncryptionKey('add', options())).rejects.toThrow('has no generated key');
  });
});

/** Compresses lines as a backup with a valid checksum. */
function craftedBackup(lines: readonly (object | string)[], head: object = {}): Buffer {
  const first = { format: 'oarlock-backup', version: 1, cluster: 'x', createdAt: '2026-01-01T00:00:00Z', revision: 7, ...head };
  const body = [first, ...lines].map((line) => `${typeof line === 'string' ? line : JSON.stringify(line)}\n`).join('');
  const entries = lines.filter((line) => typeof line === 'object' && 'key' in line).length;
  const end = JSON.stringify({ entries, sha256: createHash('sha256').update(body).digest('hex') });
  return gzipSync(`${body}${end}\n`);
}

describe('a hostile backup', () => {
  const rejected = async (content: Buffer, message: RegExp) => {
    await writeFile(path('backup'), content);
    await expect(restore(into('new'))).rejects.toThrow(message);
    await expect(stat(path('new/pki'))).rejects.toMatchObject({ code: 'ENOENT' });
  };
  it.each([
    ['a value that is not base64', [{ key: '/registry/a', value: '!' }]],
    ['a value that is not text', [{ key: '/registry/a', value: { length: 4 } }]],
    ['an empty key', [{ key: '', value: '' }]],
    ['a key with NUL', [{ key: '/registry/\0', value: '' }]],
    ['a file with NUL in its path', [{ file: 'pki/ca.key\0.txt', content: '' }]],
    ['a line that is both a file and an entry', [{ file: 'pki/a', content: '', key: '/registry/a', value: '' }]],
    ['an unknown field', [{ key: '/registry/a', value: '', link: '/etc/passwd' }]],
    ['an own __proto__', ['{"key":"/registry/a","value":"","__proto__":{"polluted":true}}']],
    ['a list', ['[]']],
    ['null', ['null']],
  ] as const)('is rejected for %s', async (_, lines) => {
    await rejected(craftedBackup(lines), /cannot be restored/);
    expect(({} as { readonly polluted?: boolean }).polluted).toBeUndefined();
  });

  it.each([1e300, -1, 0.5, '7', null])('is rejected for the revision %j', async (revision) => {
    await rejected(craftedBackup([], { revision }), /its first line is not valid/);
  });

  it.each([undefined, 7, ''])('is rejected for the time %j', async (createdAt) => {
    await rejected(craftedBackup([], { createdAt }), /its first line is not valid/);
  });

  it('is restored without its control characters in the output', async () => {
    const printed = vi.spyOn(console, 'log').mockImplementation(() => {});
    const escape = String.fromCharCode(0x1b);
    await writeFile(path('backup'), craftedBackup([], { cluster: `x${escape}[2J`, createdAt: `now${escape}]0;title` }));
    await restore(into('new'));
    const output = printed.mock.calls.join('\n');
    printed.mockRestore();
    expect([output.includes('restored 0 entries of x'), output.includes(escape)]).toEqual([true, false]);
  });

  it.each([
    ['a first line', (text: string) => `null${text.slice(text.indexOf('\n'))}`, /it is not a backup/],
    ['a last line', (text: string) => `${text.slice(0, text.trimEnd().lastIndexOf('\n'))}\nnull\n`, /the file is truncated/],
  ] as const)('is rejected for %s that is null', async (_, change, message) => {
    await rejected(gzipSync(change(gunzipSync(craftedBackup([{ key: '/registry/a', value: '' }])).toString())), message);
  });

  it('is rejected for an encryption key whose name is not encoded', async () => {
    await rejected(craftedBackup([{ file: 'encryption/keys/%zz', content: '' }]), /which is not the name of a key/);
  });

  it('is restored whatever the form of its last line, which is not read as an entry', async () => {
    const text = gunzipSync(craftedBackup([{ key: '/registry/a', value: '' }])).toString();
    await writeFile(path('backup'), gzipSync(text.replace('{"entries":', '{ "entries": ')));
    await restore(into('new'));
  });

  it('is rejected for a line that inflates beyond the limit, before it is in memory', async () => {
    const part = gzipSync(Buffer.alloc(32 * 1024 * 1024, 0x61));
    await rejected(Buffer.concat(Array.from({ length: 64 }, () => part)), /a line is longer than 16777216 bytes/);
  });

  it('is not written through a symbolic link of the data directory that leaves it', async () => {
    await mkdir(path('new'), { recursive: true });
    await mkdir(path('elsewhere'));
    await symlink(path('elsewhere'), path('new/pki'));
    await writeFile(path('backup'), craftedBackup([{ file: 'pki/ca.key', content: '' }]));
    await expect(restore(into('new'))).rejects.toThrow(/leaves the data directory/);
    expect(await readdir(path('elsewhere'))).toEqual([]);
  });
});

describe('a backup', () => {
  it('is restored into an empty storage, with keys, at revisions above those of the old cluster', async () => {
    await fill();
    await backup(saved());
    expect((await stat(path('backup'))).mode & 0o777).toBe(0o600);
    expect((await readdir(dir)).filter((name) => name.endsWith('.tmp'))).toEqual([]);
    await restore(into('new'));
    const [before, after] = [await stored('d'), await stored('new')];
    before.values.delete('/registry/masterleases/127.0.0.1');
    expect(after.values).toEqual(before.values);
    expect(after.revision).toBeGreaterThan(before.revision + 1_000_000);
    expect(after.old).toMatchObject({ code: 'Compacted' });
    expect(await readFile(path('new/pki/ca.key'), 'utf8')).toBe('the key of the CA');
    expect((await stat(path('new/pki/ca.key'))).mode & 0o777).toBe(0o600);
    expect((await stat(path('new/pki'))).mode & 0o777).toBe(0o700);
    // and again, from the restored one
    await backup({ ...saved('second'), dataDir: path('new') });
    await restore({ ...into('newer'), input: path('second') });
    expect((await stored('newer')).values).toEqual(before.values);
  });

  it('fails for a data directory without a cluster', async () => {
    await expect(backup(saved())).rejects.toThrow(`no API server has run in ${path('d')}`);
    await expect(backup({ dataDir: path('d'), output: path('backup'), keys: false })).rejects.toThrow('no API server has run');
    expect(await readdir(dir)).toEqual(['cluster.yaml']);
  });

  it('leaves keys out on request', async () => {
    await fill();
    await backup({ ...saved(), keys: false });
    expect(gunzipSync(await readFile(path('backup'))).toString()).not.toContain('pki');
    await restore(into('new'));
    await expect(stat(path('new/pki'))).rejects.toMatchObject({ code: 'ENOENT' });
  });

  it('is not restored over existing data or other keys', async () => {
    await fill();
    await backup(saved());
    await expect(restore(into('d'))).rejects.toThrow('storage-embedded is not empty: restore into an empty storage');
    await mkdir(path('new/pki'), { recursive: true });
    await writeFile(path('new/pki/ca.key'), 'another');
    await expect(restore(into('new'))).rejects.toThrow(/new\/pki\/ca\.key differs from the key in the backup/);
    expect((await stored('new')).entries).toEqual([]);
    await restore(into('new', { keys: false }));
    expect((await stored('new')).entries).toHaveLength(702);
    expect(await readFile(path('new/pki/ca.key'), 'utf8')).toBe('another');
  });

  it('is restored from the start after an interrupted restore', async () => {
    await fill();
    await backup(saved());
    const { driver, close } = await openStorage(await readClusterFile(file), path('new'));
    await driver.commit([{ key: '/oarlock/restore', value: Buffer.from('{}') }], []);
    for (let at = 0; at < 200; at += 1) await driver.commit([{ key: `/half/${at}`, value: Buffer.from('x') }], []);
    await close();
    await restore(into('new'));
    expect([...(await stored('new')).values.keys()].filter((key) => !key.startsWith('/registry/'))).toEqual([]);
  });

  describe('whose restore was interrupted', () => {
    const key = { file: 'pki/ca.key', content: Buffer.from('the key of the CA').toString('base64') };
    /** Interrupts a restore between two objects: the second one is larger than a commit may be. */
    async function interrupt(more: { readonly keys?: boolean } = {}): Promise<void> {
      const large = { key: '/registry/large', value: Buffer.alloc(8 * 1024 * 1024).toString('base64') };
      await writeFile(path('backup'), craftedBackup([{ key: '/registry/a', value: '' }, large, key]));
      await expect(restore(into('new', more))).rejects.toMatchObject({ code: 'TooLarge' });
    }
    const up = async () => run({ file: await readClusterFile(file), dataDir: path('new'), port: 0 });

    it('has its keys before its objects, and does not become a cluster with other keys', async () => {
      await interrupt();
      expect(await readFile(path('new/pki/ca.key'), 'utf8')).toBe('the key of the CA');
      await rm(path('new/pki/ca.key')); // as if the interruption came earlier
      await expect(up()).rejects.toThrow(`${path('new')} contains a part of a backup, because its restore was interrupted: run the same`);
      expect(await readdir(path('new/pki'))).toEqual([]);
      await fill();
      await backup(saved());
      await restore(into('new'));
      expect(await readFile(path('new/pki/ca.key'), 'utf8')).toBe('the key of the CA');
      expect(await readdir(path('new'))).not.toContain('restore-in-progress');
    });

    it('is not started as a cluster with own keys, and not backed up', async () => {
      await interrupt({ keys: false });
      await expect(up()).rejects.toThrow(/the storage contains a part of a backup, because its restore was interrupted: run the same/);
      await expect(backup({ ...saved('second'), dataDir: path('new') })).rejects.toThrow(/the storage contains a part of a backup/);
    });
  });

  it('is rejected without changes if it is damaged, truncated, of another kind or from a newer release', async () => {
    await fill();
    await backup(saved());
    const whole = await readFile(path('backup'));
    const text = gunzipSync(whole).toString();
    const lines = text.trimEnd().split('\n');
    for (const [damage, message] of [
      [whole.subarray(0, whole.length - 20), /cannot be restored/],
      [gzipSync(`${lines.slice(0, -1).join('\n')}\n`), /checksum/],
      [gzipSync(text.replace('c17"', 'c18"')), /checksum does not match/],
      [gzipSync(text.replace('"version":1', '"version":2')), /unknown format version 2/],
      [gzipSync('{}\n{}\n'), /it is not a backup/],
      [Buffer.from('not gzip at all'), /cannot be restored: it is not a backup/],
      // the message does not quote the line, which may be a key
      [gzipSync(`${lines[0]}\nmarker\n${lines.at(-1)}\n`), /^(?!.*marker).*a line is not JSON/s],
    ] as const) {
      await writeFile(path('backup'), damage);
      await expect(restore(into('new'))).rejects.toThrow(message);
    }
    await expect(stat(path('new'))).rejects.toMatchObject({ code: 'ENOENT' });
  });

  it('restores files only into the key directories', async () => {
    await fill();
    await backup(saved());
    const [head = ''] = gunzipSync(await readFile(path('backup')))
      .toString()
      .split('\n');
    for (const name of ['../outside', 'pki/../../outside', '/etc/outside', 'process.json']) {
      const body = `${head}\n${JSON.stringify({ file: name, content: '' })}\n`;
      const end = JSON.stringify({ entries: 0, sha256: createHash('sha256').update(body).digest('hex') });
      await writeFile(path('backup'), gzipSync(`${body}${end}\n`));
      await expect(restore(into('new'))).rejects.toThrow('which is outside the key directories');
    }
  });

  it('leaves the CA of the members of a storage to the storage', async () => {
    await fill();
    await mkdir(path('d/pki/etcd'));
    await writeFile(path('d/pki/etcd/ca.crt'), 'of the former members');
    await backup(saved());
    const text = gunzipSync(await readFile(path('backup'))).toString();
    expect(text).not.toContain('pki/etcd');
    // an earlier release backed it up, and the storage that the restore opens has created another one
    const earlier = { file: 'pki/etcd/ca.crt', content: Buffer.from('of the former members').toString('base64') };
    const body = [...text.trimEnd().split('\n').slice(0, -1), JSON.stringify(earlier), ''].join('\n');
    const entries = (JSON.parse(text.trimEnd().split('\n').at(-1) ?? '') as { readonly entries: number }).entries;
    const end = JSON.stringify({ entries, sha256: createHash('sha256').update(body).digest('hex') });
    await writeFile(path('backup'), gzipSync(`${body}${end}\n`));
    await mkdir(path('new/pki/etcd'), { recursive: true });
    await writeFile(path('new/pki/etcd/ca.crt'), 'of the new members');
    await restore(into('new'));
    expect(await readFile(path('new/pki/etcd/ca.crt'), 'utf8')).toBe('of the new members');
  });

  it('is not written if the storage is empty, and reads the storage of the cluster file of a joined server', async () => {
    await mkdir(path('d/pki'), { recursive: true });
    await expect(backup(saved())).rejects.toThrow(/storage-embedded is empty: start the cluster, or name its cluster.yaml with -f/);
    await expect(stat(path('backup'))).rejects.toMatchObject({ code: 'ENOENT' });
    await writeFile(
      path('d/cluster.yaml'),
      'apiVersion: oarlock.dev/v1\nkind: Cluster\nspec:\n  roles: [apiserver]\n  storage: storage-memory\n',
    );
    await expect(backup({ dataDir: path('d'), output: path('backup'), keys: true })).rejects.toThrow(/storage-memory is not durable/);
  });

  it('requires a durable storage while no cluster runs, and a restore requires one always', async () => {
    await fill();
    await backup(saved());
    await writeFile(
      path('memory.yaml'),
      'apiVersion: oarlock.dev/v1\nkind: Cluster\nspec:\n  roles: [apiserver]\n  storage: storage-memory\n',
    );
    await expect(backup({ ...saved('other'), file: path('memory.yaml') })).rejects.toThrow(/storage-memory is not durable/);
    await expect(restore(into('new', { file: path('memory.yaml') }))).rejects.toThrow(/storage-memory is not durable/);
  });

  it('reads a running cluster with any storage, and is not restored into it', async () => {
    await writeFile(
      path('memory.yaml'),
      'apiVersion: oarlock.dev/v1\nkind: Cluster\nspec:\n  roles: [apiserver]\n  storage: storage-memory\n  server: { port: 0 }\n',
    );
    const port = await freePort();
    const child = spawn(
      process.execPath,
      [
        ...loaderArguments,
        new URL('../../bin/oarlock.js', import.meta.url).pathname,
        'up',
        '-f',
        path('memory.yaml'),
        '--data-dir',
        path('d'),
        '--port',
        String(port),
      ],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    );
    children.push(child);
    await new Promise<void>((resolve, reject) => {
      let output = '';
      child.stdout.on('data', (chunk: Buffer) => {
        output += String(chunk);
        if (output.includes('Stop it with Ctrl-C')) resolve();
      });
      child.once('exit', (code) => reject(new Error(`the cluster ended with ${code}: ${output}`)));
    });
    await backup(saved());
    await expect(restore(into('d'))).rejects.toThrow(/is in use by process/);
    child.kill('SIGTERM');
    await once(child, 'exit');
    await restore(into('new'));
    const { values } = await stored('new');
    expect([...values.keys()]).toContain('/registry/namespaces/default');
    expect(await readFile(path('new/pki/ca.key'), 'utf8')).toContain('PRIVATE KEY');
  });
});
