import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { readClusterFile } from '@oarlock/cluster/composition/read-cluster-file';
import { openStorage } from '@oarlock/cluster/composition/open-storage';
import { loadDefaultEncryption } from '@oarlock/apiserver/storage/encryption/encryption-config';
import { EncryptedStorage } from '@oarlock/apiserver/storage/encryption/encrypted-storage';
import { silentLogger } from '@oarlock/primitives/logger';
import { afterEach, beforeEach, vi } from 'vitest';

/** A directory with a cluster file for each test, in which data directories and backups are made. */
export class BackupBench {
  dir = '';
  file = '';

  /** Registers the hooks of the calling test file. */
  static use(): BackupBench {
    const bench = new BackupBench();
    beforeEach(async () => {
      bench.dir = await mkdtemp(join(tmpdir(), 'backup-'));
      bench.file = join(bench.dir, 'cluster.yaml');
      await writeFile(bench.file, 'apiVersion: oarlock.dev/v1\nkind: Cluster\nmetadata: { name: kept }\nspec:\n  roles: [apiserver]\n');
    });
    afterEach(() => rm(bench.dir, { recursive: true, force: true }));
    return bench;
  }

  readonly path = (name: string) => join(this.dir, name);

  readonly saved = (name = 'backup') => ({ dataDir: this.path('d'), output: this.path(name), file: this.file, keys: true });

  readonly into = (name: string, more: { readonly keys?: boolean; readonly file?: string } = {}) => ({
    dataDir: this.path(name),
    input: this.path('backup'),
    file: this.file,
    keys: true,
    ...more,
  });

  /** Creates a data directory with keys and stored entries. */
  readonly fill = async (): Promise<void> => {
    const { driver, close } = await openStorage(await readClusterFile(this.file), this.path('d'));
    for (let at = 0; at < 700; at += 1)
      await driver.commit([{ key: `/registry/configmaps/default/c${at}`, value: Buffer.from(`{"n":${at}}`) }], []);
    await driver.commit([{ key: '/registry/secrets/default/😀', value: Buffer.from([0, 255, 10, 13]) }], []);
    await driver.commit([{ key: '/registry/masterleases/127.0.0.1', value: Buffer.from('{}'), ttlSeconds: 15 }], []);
    await driver.commit([{ key: '/registry/events/default/e', value: Buffer.from('{}'), ttlSeconds: 3600 }], []);
    await close();
    await mkdir(this.path('d/pki/issued'), { recursive: true });
    await writeFile(this.path('d/pki/ca.key'), 'the key of the CA');
    await writeFile(this.path('d/pki/issued/a.json'), '{}');
  };

  readonly stored = async (name: string) => {
    const { driver, close } = await openStorage(await readClusterFile(this.file), this.path(name));
    const page = await driver.range({ prefix: '' });
    const old = await driver.get('/a', { revision: 703 }).catch((error: unknown) => error);
    await close();
    return { ...page, old, values: new Map(page.entries.map(({ key, value }) => [key, Buffer.from(value).toString('hex')])) };
  };

  readonly keysOf = (name: string) => this.path(`${name}/plugins/apiserver/encryption`);

  /** Writes a Secret as the API server of a data directory does. */
  readonly writeSecret = async (name: string, secret: string): Promise<void> => {
    const { driver, close } = await openStorage(await readClusterFile(this.file), this.path(name));
    const storage = new EncryptedStorage(driver, silentLogger);
    storage.setRules(await loadDefaultEncryption(driver, this.keysOf(name)));
    await storage.commit([{ key: `/registry/secrets/default/${secret}`, value: Buffer.from('{"secret":true}') }], []);
    await close();
  };

  readonly readSecret = async (name: string, secret: string): Promise<string | undefined> => {
    const { driver, close } = await openStorage(await readClusterFile(this.file), this.path(name));
    const storage = new EncryptedStorage(driver, silentLogger);
    storage.setRules(await loadDefaultEncryption(driver, this.keysOf(name)));
    const { entry } = await storage.get(`/registry/secrets/default/${secret}`);
    await close();
    return entry && Buffer.from(entry.value).toString();
  };

  /** Creates a data directory with an encrypted Secret. */
  readonly fillEncrypted = async (): Promise<void> => {
    await this.writeSecret('d', 'first');
    await mkdir(this.path('d/pki'), { recursive: true });
    await writeFile(this.path('d/pki/ca.key'), 'the key of the CA');
  };
}

/** Returns what a command prints. */
export async function printed(command: () => Promise<void>): Promise<string> {
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

/** Compresses lines as a backup with a valid checksum. */
export function craftedBackup(lines: readonly (object | string)[], head: object = {}): Buffer {
  const first = { format: 'oarlock-backup', version: 1, cluster: 'x', createdAt: '2026-01-01T00:00:00Z', revision: 7, ...head };
  const body = [first, ...lines].map((line) => `${typeof line === 'string' ? line : JSON.stringify(line)}\n`).join('');
  const entries = lines.filter((line) => typeof line === 'object' && 'key' in line).length;
  const end = JSON.stringify({ entries, sha256: createHash('sha256').update(body).digest('hex') });
  return gzipSync(`${body}${end}\n`);
}
