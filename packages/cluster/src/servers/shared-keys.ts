import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { serverLeaseRoot, serverLeaseUrl } from '@oarlock/apiserver/controllers/server-leases';
import { addGeneratedKey, readGeneratedKeys } from '@oarlock/apiserver/storage/encryption/encryption-config';
import { rejectInterruptedRestore } from '@oarlock/apiserver/storage/interrupted-restore';
import { readIfExists, writeAtomic } from '@oarlock/primitives/os/atomic-file';
import type { Logger } from '@oarlock/primitives/logger';
import { Storage, type StorageDriver } from '@oarlock/spi/storage';
import { startStorage } from '../composition/open-storage.ts';
import { usesSharedStorage } from '../composition/create-plan.ts';
import type { Plan } from '../composition/plan.ts';
import type { StorageServer } from '@oarlock/spi/storage-server';
import { openKeys } from '../pki/keys.ts';
import { version } from '../process/version.ts';
import {
  clusterKeyOf,
  ClusterIdentityError,
  newRecord,
  nextRecord,
  openRecord,
  readRecord,
  writeRecord,
  type ClusterRecord,
  type SharedMaterial,
  type StoredRecord,
} from './cluster-record.ts';
import {
  encryptionDirectory,
  hasKeys,
  identityDifferences,
  identityOf,
  pkiDirectory,
  readKeyFiles,
  removeKeyFiles,
  writeKeyFiles,
} from './key-files.ts';
import { removeInterruptedRotations } from './key-rotation.ts';
import { newSealingKey } from './sealed-box.ts';

/** The key that seals the keys in the storage. Only API servers have it, in `pki/cluster.key`. */
const clusterKeyFile = (dataDir: string): string => join(dataDir, pkiDirectory, 'cluster.key');

/** The keys of a server whose storage other servers share. */
export interface SharedKeys {
  readonly clusterKey: Buffer;
  /** The generation of the key files of the data directory. */
  readonly generation: number;
}

export interface SharedKeysOptions {
  readonly plan: Plan;
  readonly dataDir: string;
  readonly storageServer: StorageServer;
  readonly log?: Logger;
  readonly issuer: string;
  /** Milliseconds since the epoch. */
  readonly now: number;
  /** True for the first server of a cluster, as `oarlock up --init` states. */
  readonly init?: boolean;
  readonly signal: AbortSignal;
}

/** Reads the cluster key of a data directory, or undefined if it has none. */
export async function readClusterKey(dataDir: string): Promise<Buffer | undefined> {
  const text = await readIfExists(clusterKeyFile(dataDir));
  return text === undefined ? undefined : Buffer.from(text.trim(), 'base64');
}

export const writeClusterKey = (dataDir: string, key: Uint8Array): Promise<void> =>
  writeAtomic(clusterKeyFile(dataDir), `${Buffer.from(key).toString('base64')}\n`, { sync: true });

/**
 * Makes the keys of the data directory those of the cluster whose storage this server shares. The first server records its keys in the storage; every
 * other server must have joined. Returns undefined if the process has no API server or if its storage cannot be shared.
 * @throws ClusterIdentityError if the storage belongs to a cluster that this server has not joined
 */
export async function prepareSharedKeys(options: SharedKeysOptions): Promise<SharedKeys | undefined> {
  const { plan, dataDir, storageServer: server, log, init = false, signal } = options;
  if (!plan.roles.includes('apiserver')) return undefined;
  if (!usesSharedStorage(plan.plugins)) {
    if (init) throw new ClusterIdentityError(initNeedsSharedStorage(plan));
    await rejectEmptyStorage(options);
    return undefined;
  }
  await removeInterruptedRotations(dataDir);
  const { driver, close } = await startStorage(plan, { dataDir, server, signal, ...(log && { log }) });
  try {
    const stored = await readRecord(driver);
    return stored === undefined ? await createRecord(driver, options) : await adoptRecord(driver, stored, options);
  } finally {
    await close();
  }
}

const storageName = ({ plugins }: Plan): string =>
  plugins.find(({ plugin }) => plugin.provides.token === Storage.token)?.name ?? 'the storage';

/**
 * Rejects a storage of one server that is empty, in the data directory of a server of a shared storage: it would be an empty cluster with the keys of the
 * other one. `oarlock up` without the cluster file of the server selects such a storage.
 */
async function rejectEmptyStorage({ plan, dataDir, storageServer: server, log, signal }: SharedKeysOptions): Promise<void> {
  if ((await readClusterKey(dataDir)) === undefined) return;
  const { driver, close } = await startStorage(plan, { dataDir, server, signal, ...(log && { log }) });
  try {
    if ((await driver.range({ prefix: '/', limit: 1 })).entries.length > 0) return;
  } finally {
    await close();
  }
  throw new ClusterIdentityError(
    [
      `${dataDir} is the data directory of a server of a shared storage, and ${storageName(plan)} is empty: the cluster would have no objects.`,
      `Start the server with its cluster file (-f), which is ${join(dataDir, 'cluster.yaml')} if it has joined, or move the cluster with \`oarlock backup\` and \`oarlock restore\`.`,
    ].join('\n'),
  );
}

function initNeedsSharedStorage(plan: Plan): string {
  return `--init: ${storageName(plan)} serves one API server only: configure a storage that servers can share, such as storage-etcd, or run \`oarlock up\` without --init`;
}

/** Records the keys of this server as those of the cluster. Creates keys if the data directory has none. */
async function createRecord(driver: StorageDriver, options: SharedKeysOptions): Promise<SharedKeys> {
  const { plan, dataDir, issuer, now } = options;
  await rejectInterruptedRestore(driver); // before it creates keys other than those of the backup
  const isNew = !hasKeys(dataDir);
  const [server] = isNew ? (await driver.range({ prefix: serverLeaseRoot, limit: 1 })).entries : [];
  if (server !== undefined)
    throw new ClusterIdentityError(
      `an API server without a cluster record uses the storage (${server.key.slice(serverLeaseRoot.length)}), and this data directory has no keys: restart that server with this version of Oarlock first, then join`,
    );
  await openKeys(join(dataDir, pkiDirectory), issuer, { algorithm: plan.file.spec.serviceAccountTokens.algorithm });
  if (shouldGenerateEncryptionKey(plan)) await ensureEncryptionKey(dataDir, now);
  const clusterKey = (await readClusterKey(dataDir)) ?? newSealingKey();
  await writeClusterKey(dataDir, clusterKey);
  const material: SharedMaterial = { files: await readKeyFiles(dataDir), document: clusterDocument(plan) };
  const facts = { cluster: plan.facts.name, version, createdAt: new Date(now).toISOString(), generation: 1 };
  if (await writeRecord(driver, newRecord(facts, clusterKey, material), 0)) return { clusterKey, generation: 1 };
  // another server recorded its keys first: without the keys of this attempt, the data directory can join
  if (isNew) {
    await removeKeyFiles(dataDir);
    await rm(clusterKeyFile(dataDir), { force: true });
  }
  const stored = await readRecord(driver);
  if (stored === undefined) throw recordDeleted();
  return adoptRecord(driver, stored, options);
}

/** Makes the key files of this server those of the record. @throws ClusterIdentityError if this server does not belong to the cluster */
async function adoptRecord(driver: StorageDriver, stored: StoredRecord, options: SharedKeysOptions): Promise<SharedKeys> {
  const { dataDir, plan, now } = options;
  const { record } = stored;
  const rejection = async (reason: string) => new ClusterIdentityError(await rejectionMessage(driver, record, reason));
  if (!hasKeys(dataDir)) throw await rejection('this data directory has no keys of it');
  const files = await readKeyFiles(dataDir);
  const own = identityOf(files);
  const known = await readClusterKey(dataDir);
  const differences = identityDifferences(own, record.identity);
  const isMember = known !== undefined && canOpen(record, known);
  // a member that was down during a rotation may have service account and encryption keys that were removed since
  const relevant = isMember ? identityDifferences({ ...own, serviceAccountKeys: [], encryptionKeys: [] }, record.identity) : differences;
  if (relevant.length > 0) throw await rejection(relevant.join('; '));
  const clusterKey = isMember ? known : recoverClusterKey(record, files[join(pkiDirectory, 'ca.key')]);
  if (clusterKey === undefined) throw await rejection('this data directory has neither the cluster key nor the key of the signing CA');
  await writeKeyFiles(dataDir, openRecord(record, clusterKey).files);
  if (!isMember) await writeClusterKey(dataDir, clusterKey);
  if (!shouldGenerateEncryptionKey(plan) || record.identity.encryptionKeys.length > 0) return { clusterKey, generation: record.generation };
  return addEncryptionKey(driver, stored, { dataDir, clusterKey, now });
}

/** Adds a generated encryption key to a cluster that has none, because `spec.encryption` was added to the cluster file. */
async function addEncryptionKey(
  driver: StorageDriver,
  stored: StoredRecord,
  { dataDir, clusterKey, now }: { readonly dataDir: string; readonly clusterKey: Buffer; readonly now: number },
): Promise<SharedKeys> {
  await ensureEncryptionKey(dataDir, now);
  const material = { ...openRecord(stored.record, clusterKey), files: await readKeyFiles(dataDir) };
  const next = nextRecord(stored.record, clusterKey, material);
  if (await writeRecord(driver, next, stored.revision)) return { clusterKey, generation: next.generation };
  const current = await readRecord(driver);
  if (current === undefined) throw recordDeleted();
  await writeKeyFiles(dataDir, openRecord(current.record, clusterKey).files);
  if (current.record.identity.encryptionKeys.length === 0) return addEncryptionKey(driver, current, { dataDir, clusterKey, now });
  return { clusterKey, generation: current.record.generation };
}

const recordDeleted = () => new ClusterIdentityError('the cluster record was deleted while this server started: start it again');

function canOpen(record: ClusterRecord, clusterKey: Uint8Array): boolean {
  try {
    openRecord(record, clusterKey);
    return true;
  } catch {
    return false; // the key of another cluster: the caller rejects the start with the reason
  }
}

function recoverClusterKey(record: ClusterRecord, caKey: string | undefined): Buffer | undefined {
  if (caKey === undefined) return undefined;
  try {
    return clusterKeyOf(record, caKey);
  } catch {
    return undefined; // the key of a former CA: the caller rejects the start with the reason
  }
}

/** Returns the message for a server that does not belong to the cluster, with the command that makes it a server of the cluster. */
async function rejectionMessage(driver: StorageDriver, { cluster, identity }: ClusterRecord, reason: string): Promise<string> {
  const { entries } = await driver.range({ prefix: serverLeaseRoot });
  const url = entries.map(serverLeaseUrl).find((each) => each !== undefined) ?? 'URL';
  return [
    `the storage belongs to the cluster ${cluster}, and this server does not: ${reason}.`,
    'To add this machine as a server of the cluster, use a new data directory and run',
    `  oarlock server join --token TOKEN --discovery-token-ca-cert-hash ${identity.ca[0] ?? 'sha256:HASH'} ${url}`,
    '`oarlock token create --role server` prints this command with a token on a server of the cluster.',
  ].join('\n');
}

/** Returns true if the API server would generate a key: `spec.encryption` is present and names no keys. */
function shouldGenerateEncryptionKey({ file }: Plan): boolean {
  const { encryption } = file.spec;
  return encryption !== undefined && encryption.file === undefined && encryption.keys.length === 0;
}

async function ensureEncryptionKey(dataDir: string, now: number): Promise<void> {
  const directory = join(dataDir, encryptionDirectory);
  if ((await readGeneratedKeys(directory)).length === 0) await addGeneratedKey(directory, new Date(now));
}

/** Returns the cluster document of a plan, without the settings that belong to one machine. */
function clusterDocument({ file: { name, spec }, facts }: Plan): object {
  const { address, advertiseAddress: _, ...server } = spec.server;
  const port = Number(new URL(facts.serverUrl).port || 443);
  return {
    apiVersion: 'oarlock.dev/v1',
    kind: 'Cluster',
    metadata: { name },
    spec: { ...spec, server: { ...server, port, ...(isWildcard(address) && { address }) } },
  };
}

const isWildcard = (address: string): boolean => address === '0.0.0.0' || address === '::';
