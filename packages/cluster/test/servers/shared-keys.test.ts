import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { serverLeaseRoot } from '@oarlock/apiserver/controllers/server-leases';
import { restoreMarker } from '@oarlock/apiserver/storage/interrupted-restore';
import type { StorageDriver } from '@oarlock/spi/storage';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { leaderElectionWarnings } from '../../src/composition/leader-election-warnings.ts';
import { openKeys, rotateServiceAccountKey } from '../../src/pki/keys.ts';
import { openRecord, readRecord, recordKey } from '../../src/servers/cluster-record.ts';
import { readKeyFiles, writeKeyFiles } from '../../src/servers/key-files.ts';
import { rotateKeys } from '../../src/servers/key-rotation.ts';
import { ProcessStorageServer } from '../../src/pki/storage-server.ts';
import { prepareSharedKeys, readClusterKey, type SharedKeys } from '../../src/servers/shared-keys.ts';
import { planWith, sharedStorage } from './shared-storage.ts';

const issuer = 'https://issuer.example';
let directory: string;
let storage: StorageDriver;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'shared-keys-'));
  storage = sharedStorage();
});
afterEach(() => rm(directory, { recursive: true, force: true }));

const dir = (name: string) => join(directory, name);
async function prepare(name: string, { shared = true, init = false, spec = {} } = {}): Promise<SharedKeys | undefined> {
  const dataDir = dir(name);
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  const plan = await planWith(storage, { shared, spec });
  const storageServer = new ProcessStorageServer(plan, dataDir);
  return prepareSharedKeys({ plan, dataDir, storageServer, issuer, now: Date.UTC(2026, 0, 1), init, signal: new AbortController().signal });
}
const recordText = async () => (await readRecord(storage))?.text ?? '';

describe('the first server of a shared storage', () => {
  it('records its identity and its keys, which only the cluster key opens', async () => {
    const keys = await prepare('a', { init: true });
    const stored = await readRecord(storage);
    if (keys === undefined || stored === undefined) throw new Error('nothing was recorded');
    expect(stored.record).toMatchObject({ format: 1, storageFormat: 1, cluster: 'tested', generation: 1 });
    expect(stored.record.identity.ca).toEqual([expect.stringMatching(/^sha256:[0-9a-f]{64}$/)]);
    expect(stored.text).not.toContain('PRIVATE KEY');
    expect(openRecord(stored.record, keys.clusterKey).files).toEqual(await readKeyFiles(dir('a')));
    expect(() => openRecord(stored.record, Buffer.alloc(32))).toThrow();
  });

  it('adopts the keys of a data directory from before the record existed', async () => {
    const { keys } = await openKeys(dir('a/pki'), issuer);
    await storage.commit([{ key: '/registry/namespaces/default', value: Buffer.from('{}') }], []);
    await prepare('a');
    expect((await openKeys(dir('a/pki'), issuer)).keys.caBundle).toBe(keys.caBundle);
    expect(await recordText()).not.toBe('');
  });

  it('generates the encryption key that `encryption: {}` needs, before the API server starts', async () => {
    await prepare('a', { spec: { encryption: {} } });
    expect((await readRecord(storage))?.record.identity.encryptionKeys).toEqual([expect.stringMatching(/^generated:[0-9a-f]{16}$/)]);
  });

  it('starts again with the same keys', async () => {
    await prepare('a', { init: true });
    const before = await readKeyFiles(dir('a'));
    await prepare('a', { init: true });
    expect(await readKeyFiles(dir('a'))).toEqual(before);
    expect((await readRecord(storage))?.record.generation).toBe(1);
  });

  it('does not start an empty cluster on a storage of its own', async () => {
    await prepare('a', { init: true });
    storage = sharedStorage();
    await expect(prepare('a', { shared: false })).rejects.toThrow(/data directory of a server of a shared storage, and \S+ is empty/);
    // a restored backup brings the cluster key and objects
    await storage.commit([{ key: '/registry/namespaces/default', value: Buffer.from('{}') }], []);
    expect(await prepare('a', { shared: false })).toBeUndefined();
    storage = sharedStorage();
    expect(await prepare('b', { shared: false })).toBeUndefined();
  });

  it('creates no keys over a part of a backup', async () => {
    await storage.commit([{ key: restoreMarker, value: Buffer.from('{}') }], []);
    await expect(prepare('a', { init: true })).rejects.toThrow(/the storage contains a part of a backup, because its restore was interrupted/);
    expect(await readKeyFiles(dir('a'))).toEqual({});
    expect(await recordText()).toBe('');
  });

  it('is one of several that start at the same time', async () => {
    const outcomes = await Promise.allSettled(['a', 'b', 'c'].map((name) => prepare(name)));
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    for (const [at, outcome] of outcomes.entries())
      if (outcome.status === 'rejected') {
        expect(String(outcome.reason)).toContain('the storage belongs to the cluster tested');
        // nothing is left, so that the data directory can join
        expect(await readKeyFiles(dir('abc'[at] ?? ''))).toEqual({});
        expect(await readClusterKey(dir('abc'[at] ?? ''))).toBeUndefined();
      }
  });
});

describe('a server of a cluster', () => {
  it('is rejected without keys and with other keys, with what differs and the command that joins', async () => {
    await prepare('a');
    await storage.commit([{ key: `${serverLeaseRoot}10.0.0.1`, value: Buffer.from('{"port":6443}') }], []);
    await expect(prepare('b')).rejects.toThrow(
      /^the storage belongs to the cluster tested, and this server does not: this data directory has no keys of it\.\nTo add .*\n {2}oarlock server join --token TOKEN --discovery-token-ca-cert-hash sha256:[0-9a-f]{64} https:\/\/10\.0\.0\.1:6443\n/,
    );
    await openKeys(dir('b/pki'), issuer);
    const before = await readKeyFiles(dir('b'));
    await expect(prepare('b')).rejects.toThrow(
      /: the CA is sha256:[0-9a-f]{64}, that of the cluster is sha256:[0-9a-f]{64}; the service account signing key is sha256:/,
    );
    expect(await readKeyFiles(dir('b'))).toEqual(before);
  });

  it('is rejected with the same CA and another service account key', async () => {
    await prepare('a');
    const { 'pki/service-account.key': _, ...files } = await readKeyFiles(dir('a'));
    await writeKeyFiles(dir('b'), files);
    await openKeys(dir('b/pki'), issuer);
    await expect(prepare('b')).rejects.toThrow(/and this server does not: the service account signing key is sha256:/);
  });

  it('starts with keys that were copied by hand, and recovers the cluster key with the key of the CA', async () => {
    const first = await prepare('a');
    await writeKeyFiles(dir('b'), await readKeyFiles(dir('a')));
    expect((await prepare('b'))?.clusterKey.equals(first?.clusterKey ?? Buffer.alloc(0))).toBe(true);
    expect(await readKeyFiles(dir('b'))).toEqual(await readKeyFiles(dir('a')));
  });

  it('obtains the keys of rotations that it missed', async () => {
    const first = await prepare('a');
    if (first === undefined) throw new Error('no keys');
    const options = { storage, dataDir: dir('a'), clusterKey: first.clusterKey, now: Date.UTC(2026, 0, 2), servers: [] };
    for (const step of ['add', 'use', 'end'] as const) await rotateKeys({ keys: 'service-account', step }, options);
    for (const step of ['add', 'use', 'end'] as const) await rotateKeys({ keys: 'ca', step }, options);
    const before = await readKeyFiles(dir('a'));
    expect(await prepare('a')).toMatchObject({ generation: 7 });
    const after = await readKeyFiles(dir('a'));
    expect(after['pki/ca.key']).not.toBe(before['pki/ca.key']);
    expect(after['pki/service-account.key']).not.toBe(before['pki/service-account.key']);
    expect(Object.keys(after).sort()).toEqual(
      expect.arrayContaining(['pki/ca-removed.crt', 'pki/ca.crt', 'pki/ca.key', 'pki/front-proxy-ca.crt', 'pki/service-account.key']),
    );
    expect(await readdir(dir('a'))).not.toContainEqual(expect.stringMatching(/^rotation-/));
  });

  it('is rejected by a record that a later version wrote', async () => {
    await prepare('a');
    const { record } = (await readRecord(storage)) ?? {};
    await storage.commit([{ key: recordKey, value: Buffer.from(JSON.stringify({ ...record, format: 2, version: 'v9' })) }], []);
    await expect(prepare('a')).rejects.toThrow(
      'the storage belongs to a cluster of Oarlock v9, whose storage format this version cannot read: run that version or a later one',
    );
  });

  it('without keys is rejected beside a server of a version without the record', async () => {
    await storage.commit([{ key: `${serverLeaseRoot}10.0.0.1`, value: Buffer.from('{}') }], []);
    await expect(prepare('b')).rejects.toThrow('an API server without a cluster record uses the storage (10.0.0.1)');
  });

  it('keeps a local service account rotation out: the keys of the record replace it', async () => {
    await prepare('a');
    const before = await readFile(dir('a/pki/service-account.key'), 'utf8');
    await rotateServiceAccountKey(dir('a/pki'));
    await prepare('a');
    expect(await readFile(dir('a/pki/service-account.key'), 'utf8')).toBe(before);
  });

  it('adds an encryption key once if `encryption: {}` is added later', async () => {
    await prepare('a');
    await prepare('a', { spec: { encryption: {} } });
    expect(await prepare('a', { spec: { encryption: {} } })).toMatchObject({ generation: 2 });
  });
});

describe('a storage that cannot be shared', () => {
  it('has no record, and --init is rejected', async () => {
    expect(await prepare('a', { shared: false })).toBeUndefined();
    expect(await recordText()).toBe('');
    await expect(prepare('a', { shared: false, init: true })).rejects.toThrow('--init: storage-test serves one API server only');
  });
});

describe('leader election', () => {
  const electionOf = async (options: Parameters<typeof planWith>[1]) => {
    const plan = await planWith(storage, options);
    const configs = plan.plugins.filter(({ name }) => name === 'controllers' || name === 'scheduler').map(({ config }) => config);
    return {
      election: configs.map((config) => (config as { readonly leaderElect: boolean }).leaderElect),
      warnings: leaderElectionWarnings(plan),
    };
  };

  it('is on exactly if the storage plugin declares that it can be shared', async () => {
    expect(await electionOf({ shared: true })).toEqual({ election: [true, true], warnings: [] });
    expect(await electionOf({ shared: false })).toEqual({ election: [false, false], warnings: [] });
  });

  it('can be turned off, with a warning if the storage can be shared', async () => {
    const spec = { settings: { controllers: { leaderElect: false }, scheduler: { leaderElection: { leaderElect: false } } } };
    expect((await electionOf({ shared: true, spec })).warnings).toEqual([
      expect.stringMatching(/^settings\.controllers\.leaderElect is false, and the storage can be shared/),
      expect.stringMatching(/^settings\.scheduler\.leaderElect is false/),
    ]);
    expect((await electionOf({ shared: false, spec })).warnings).toEqual([]);
  });
});

it('key files are written only below the key directories', async () => {
  await writeFile(dir('outside'), '');
  for (const path of ['../outside', 'pki/../outside', 'pki/issued/a.json', 'plugins/apiserver/other.key', '/etc/passwd'])
    await expect(writeKeyFiles(dir('a'), { [path]: 'x' })).rejects.toThrow('is not a key file of a cluster');
});
