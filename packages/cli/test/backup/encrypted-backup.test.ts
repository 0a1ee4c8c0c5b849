import { mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { readClusterFile } from '@oarlock/cluster/composition/read-cluster-file';
import { openStorage } from '@oarlock/cluster/composition/open-storage';
import { addGeneratedKey, readGeneratedKeys } from '@oarlock/apiserver/storage/encryption/encryption-config';
import { aesGcm } from '@oarlock/apiserver/storage/encryption/transformers';
import { beforeEach, describe, expect, it } from 'vitest';
import { rotateEncryptionKey } from '../../src/keys/encryption-keys.ts';
import { backup } from '../../src/backup/backup.ts';
import { restore } from '../../src/backup/restore.ts';
import { BackupBench, printed } from '../support/backup-bench.ts';

const bench = BackupBench.use();
const { path, saved, into, fill, stored, keysOf, writeSecret, readSecret, fillEncrypted } = bench;

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
    const { driver, close } = await openStorage(await readClusterFile(bench.file), path('d'));
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
  const options = () => ({ dataDir: path('d'), file: bench.file, timeout: 30 });
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
