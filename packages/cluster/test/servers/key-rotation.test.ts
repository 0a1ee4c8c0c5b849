import { mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readGeneratedKeys } from '@oarlock/apiserver/storage/encryption/encryption-config';
import { silentLogger } from '@oarlock/primitives/logger';
import { systemClock } from '@oarlock/primitives/clock';
import type { StorageDriver } from '@oarlock/spi/storage';
import type { StorageMember } from '@oarlock/spi/storage-server';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { nextRecord, openRecord, readRecord, writeRecord } from '../../src/servers/cluster-record.ts';
import { readKeyFiles } from '../../src/servers/key-files.ts';
import { KeyDistributor } from '../../src/servers/key-distributor.ts';
import { rotateKeys, RotationError, type RotatedKeys, type RotationStep } from '../../src/servers/key-rotation.ts';
import { ServerRegistry, type ListedServer, type ServerRecord } from '../../src/servers/server-registry.ts';
import { ProcessStorageServer } from '../../src/pki/storage-server.ts';
import { prepareSharedKeys, type SharedKeys } from '../../src/servers/shared-keys.ts';
import { planWith, sharedStorage } from './shared-storage.ts';

let directory: string;
let storage: StorageDriver;
let shared: SharedKeys;
const signal = new AbortController().signal;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'key-rotation-'));
  storage = sharedStorage();
  await mkdir(join(directory, 'a'), { mode: 0o700 });
  const plan = await planWith(storage, { spec: { encryption: {} } });
  const dataDir = join(directory, 'a');
  const storageServer = new ProcessStorageServer(plan, dataDir);
  const prepared = await prepareSharedKeys({ plan, dataDir, storageServer, issuer: 'https://issuer.example', now: 0, signal });
  if (prepared === undefined) throw new Error('no shared keys');
  shared = prepared;
});
afterEach(() => rm(directory, { recursive: true, force: true }));

const record = async () => {
  const stored = await readRecord(storage);
  if (stored === undefined) throw new Error('no record');
  return stored.record;
};
const server = (name: string, more: Partial<ListedServer> = {}): ListedServer => ({
  ...{ name, url: `https://${name}:6443`, version: 'v1', startedAt: '2026-01-01T00:00:00Z', ready: true },
  ...{ keysGeneration: 1, trustedCAs: [], frontProxyCAs: [], ...more },
});
const take = (keys: RotatedKeys, step: RotationStep, servers: readonly ListedServer[] = []) =>
  rotateKeys({ keys, step }, { storage, dataDir: join(directory, 'a'), clusterKey: shared.clusterKey, now: Date.UTC(2026, 5, 1), servers });

describe('a rotation of shared keys', () => {
  it('does not sign with the next service account key before all running servers verify with it', async () => {
    const [first] = (await record()).identity.serviceAccountKeys;
    await take('service-account', 'add');
    expect((await record()).identity.serviceAccountKeys).toEqual([first, expect.stringMatching(/^sha256:/)]);
    await expect(take('service-account', 'add')).rejects.toThrow('there is a next service account signing key already');
    await expect(take('service-account', 'use', [server('a', { keysGeneration: 2 }), server('b')])).rejects.toThrow(
      'b does not use the keys of the previous step yet: wait; `oarlock keys status` shows the progress',
    );
    // a server that is down obtains the keys when it starts
    await take('service-account', 'use', [server('a', { keysGeneration: 2 }), server('b', { ready: false })]);
    const [second, former] = (await record()).identity.serviceAccountKeys;
    expect([second === first, former]).toEqual([false, first]);
    await take('service-account', 'end', [server('a', { keysGeneration: 3 })]);
    expect((await record()).identity.serviceAccountKeys).toEqual([second]);
  });

  it('does not encrypt with the next key before all running servers decrypt with it', async () => {
    await take('encryption', 'add');
    await expect(take('encryption', 'end')).rejects.toThrow('there is a next encryption key, which does not encrypt yet');
    await expect(take('encryption', 'use', [server('a')])).rejects.toThrow(RotationError);
    await take('encryption', 'use', [server('a', { keysGeneration: 2 })]);
    await take('encryption', 'end', [server('a', { keysGeneration: 3 })]);
    expect((await record()).identity.encryptionKeys).toEqual([expect.stringMatching(/^generated-20260601T000000000Z:/)]);
    await expect(take('encryption', 'end')).rejects.toThrow('there is no former encryption key');
  });

  it('does not sign with the next CA before all running servers have loaded it', async () => {
    await take('ca', 'add');
    const { ca } = (await record()).identity;
    const old = server('a', { keysGeneration: 2, trustedCAs: ca.slice(0, 1) });
    await expect(take('ca', 'use', [old])).rejects.toThrow('a does not use the keys of the previous step yet: restart each of them');
    await take('ca', 'use', [{ ...old, trustedCAs: ca }]);
    await expect(take('ca', 'end', [{ ...old, keysGeneration: 3, trustedCAs: ca }])).rejects.toThrow(RotationError);
    await take('ca', 'end', [{ ...old, keysGeneration: 3, trustedCAs: [...ca].reverse() }]);
    expect((await record()).identity).toMatchObject({ ca: [ca[1]], removedCa: [ca[0]] });
  });

  it('keeps the record when a step of a CA is repeated', async () => {
    const trusting = (trustedCAs: readonly string[], keysGeneration: number) => [server('a', { keysGeneration, trustedCAs })];
    await take('ca', 'add');
    const { ca } = (await record()).identity;
    const servers = { add: [], use: trusting(ca, 2), end: trusting([...ca].reverse(), 3) };
    for (const step of ['add', 'use', 'end'] as const) {
      await take('ca', step, servers[step]);
      const recordAfterStep = await record();
      await take('ca', step, [server('a', { ...servers[step][0], keysGeneration: recordAfterStep.generation })]);
      expect(await record(), step).toEqual(recordAfterStep);
    }
    expect((await record()).generation).toBe(4);
  });

  it('rotates the CA of the members while all of them and their servers run and use the CAs of the previous step', async () => {
    const dataDir = join(directory, 'a');
    await new ProcessStorageServer(await planWith(storage), dataDir).openAuthority();
    const stored = await readRecord(storage);
    if (stored === undefined) throw new Error('no record');
    const material = openRecord(stored.record, shared.clusterKey);
    const files = { ...material.files, ...(await readKeyFiles(dataDir)) };
    await writeRecord(storage, nextRecord(stored.record, shared.clusterKey, { ...material, files }), stored.revision);
    const member = (name: string, role: StorageMember['role'] = 'Follower'): StorageMember => ({
      ...{ name, id: name, endpoint: '', role, version: '3.5.0', databaseBytes: 0, databaseBytesInUse: 0, alarms: [] },
    });
    const etcdCa = async () => (await record()).identity.etcdCa ?? [];
    const step = async (next: RotationStep, servers: readonly ListedServer[], members: readonly StorageMember[] | undefined) =>
      rotateKeys({ keys: 'etcd-ca', step: next }, { storage, dataDir, clusterKey: shared.clusterKey, now: 0, servers, members });
    const using = (name: string, [signing = '', ...others]: readonly string[], ready = true) =>
      server(name, { ready, memberCAs: { signing, trusted: [signing, ...others].sort() } });
    const both = [member('a', 'Leader'), member('b')];
    const [first = ''] = await etcdCa();
    const before = [using('a', [first]), using('b', [first])];
    for (const [servers, members, text] of [
      [before, undefined, 'Oarlock does not run the members of the storage'],
      [before, [member('a'), member('b', 'Unknown')], 'the etcd member of b does not respond: start its server, or remove it with'],
      [before, [member('a'), member('b', 'Learner')], 'the etcd member of b is still joining'],
      [[using('a', [first]), using('b', [first], false)], both, 'the server b does not run, and its etcd member would not receive the CA'],
      [[using('a', [first]), server('b')], both, 'the server b runs a version of Oarlock that cannot rotate'],
      [
        [using('a', [first]), using('b', [first, 'sha256:old'])],
        both,
        'the etcd member of b does not use the CAs of the previous step yet',
      ],
    ] as const)
      await expect(step('add', servers, members)).rejects.toThrow(text);
    await step('add', before, both);
    const [, second = ''] = await etcdCa();
    const { generation } = await record();
    // repeated, as after the end of the command: no change, also while members do not use it yet
    await step('add', before, both);
    expect((await record()).generation).toBe(generation);
    await expect(step('use', [using('a', [first, second]), using('b', [first])], both)).rejects.toThrow(
      'the etcd member of b does not use',
    );
    await step('use', [using('a', [first, second]), using('b', [first, second])], both);
    expect(await etcdCa()).toEqual([second, first]);
    await expect(step('end', [using('a', [first, second]), using('b', [second, first])], both)).rejects.toThrow(RotationError);
    await step('end', [using('a', [second, first]), using('b', [second, first])], both);
    expect(await etcdCa()).toEqual([second]);
    await expect(step('add', [using('a', [second]), using('b', [second, first])], both)).rejects.toThrow(
      'the etcd member of b does not use',
    );
  });

  it('leaves no copy of the keys when a process was killed during a step', async () => {
    const dataDir = join(directory, 'a');
    await mkdir(join(dataDir, 'rotation-abcdef', 'pki'), { recursive: true });
    const plan = await planWith(storage, { spec: { encryption: {} } });
    const storageServer = new ProcessStorageServer(plan, dataDir);
    await prepareSharedKeys({ plan, dataDir, storageServer, issuer: 'https://issuer.example', now: 0, signal });
    expect((await readdir(dataDir)).filter((name) => name.startsWith('rotation-'))).toEqual([]);
  });

  it('rejects a step that is not possible, and changes nothing', async () => {
    for (const keys of ['service-account', 'ca', 'front-proxy-ca', 'encryption'] as const)
      await expect(take(keys, 'use')).rejects.toThrow(RotationError);
    expect((await record()).generation).toBe(1);
  });
});

describe('KeyDistributor', () => {
  it('writes the keys of each change, then makes the server use them, then reports the generation', async () => {
    const steps: string[] = [];
    let finish: () => void = () => undefined;
    const applied = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const distributor = new KeyDistributor({
      ...{ storage, dataDir: join(directory, 'a'), shared, clock: systemClock, log: silentLogger },
      reload: async () => {
        const keys = await readGeneratedKeys(join(directory, 'a/plugins/apiserver/encryption'));
        steps.push(`reload ${keys.map(({ name }) => name).join()}`);
      },
      applied: async (generation) => {
        steps.push(`applied ${generation}`);
        if (generation === 3) finish();
      },
    });
    distributor.start();
    await take('encryption', 'add');
    await take('encryption', 'use');
    await applied;
    await distributor.stop();
    // both changes may arrive together
    expect(steps.slice(-2)).toEqual(['reload generated-20260601T000000000Z,generated', 'applied 3']);
    expect(await readFile(join(directory, 'a/plugins/apiserver/encryption/generated-20260601T000000000Z.key'), 'utf8')).toMatch(/=\n$/);
  });
});

describe('KeyDistributor of a store that was compacted after the last change of the keys', () => {
  it('follows the changes from the revision at which it read the record', async () => {
    for (let i = 0; i < 5; i++) await storage.commit([{ key: '/registry/a', value: Buffer.from(String(i)) }], []);
    await storage.compact(await storage.requestProgress());
    const warnings: unknown[] = [];
    let report: (generation: number) => void = () => undefined;
    const reported = new Promise<number>((resolve) => {
      report = resolve;
    });
    const distributor = new KeyDistributor({
      ...{ storage, dataDir: join(directory, 'a'), shared, clock: systemClock },
      log: { ...silentLogger, warn: (fields) => warnings.push(fields) },
      reload: async () => {},
      applied: async (generation) => report(generation),
    });
    distributor.start();
    await take('encryption', 'add');
    expect(await reported).toBe(2);
    await distributor.stop();
    expect(warnings).toEqual([]);
  });
});

describe('ServerRegistry', () => {
  const own: ServerRecord = server('a');

  it('lists a server as not ready after its lease has expired, and removes only such a server', async () => {
    const clock = new FakeClock();
    const leases = sharedStorage(clock);
    const registry = new ServerRegistry({ storage: leases, clock, log: silentLogger });
    await registry.register(own);
    const other = new ServerRegistry({ storage: leases, clock, log: silentLogger });
    await clock.advance(60_000);
    expect(await other.list()).toMatchObject([{ name: 'a', ready: true }]);
    expect(await other.remove('a')).toBe('running');
    await registry.stop();
    expect(await other.list()).toMatchObject([{ name: 'a', ready: false }]);
    expect(await other.remove('a')).toBe(true);
    expect(await other.remove('a')).toBe(false);
    expect(await other.list()).toEqual([]);
  });
});
