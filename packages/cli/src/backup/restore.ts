import { mkdir, readFile, realpath } from 'node:fs/promises';
import { dirname, join, normalize, resolve } from 'node:path';
import { serverLeaseRoot } from '@oarlock/apiserver/controllers/server-leases';
import { restoreMarker } from '@oarlock/apiserver/storage/interrupted-restore';
import type { ClusterFile } from '@oarlock/cluster/cluster-file/cluster-file';
import { markKeyRestore, unmarkKeyRestore } from '@oarlock/cluster/process/key-restore-marker';
import { writeAtomic } from '@oarlock/primitives/os/atomic-file';
import { printable } from '@oarlock/primitives/printable-text';
import type { StorageDriver, Write } from '@oarlock/spi/storage';
import { advanceBeyond } from './advance-revision.ts';
import { checkBackup, isFile, readBackup, type BackedUpEntry, type BackedUpFile } from './backup-file.ts';
import { clusterFileOf, isStorageCertificate, keyDirectories } from './backup.ts';
import { isConfiguredKey, restoreConfiguredKey } from './configured-keys.ts';
import { checkEncryption } from './check-encryption.ts';
import { CommandError } from '../common/command-error.ts';
import { progress } from '../common/progress/progress.ts';
import { startTimeoutSeconds } from '../common/command-options.ts';
import { openStoppedStorage } from '../common/stopped-storage.ts';

export interface RestoreOptions {
  readonly dataDir: string;
  readonly input: string;
  readonly file?: string;
  readonly keys: boolean;
  /** Time in seconds within which the storage has to start. */
  readonly timeout?: number;
}

/**
 * Gap between the revisions of the backup and of the restored cluster. The old cluster may have written revisions after the backup, which the new
 * cluster must not reuse.
 */
const revisionGap = 1_000_000_000;
/**
 * The same gap for a storage that assigns its own revisions, one commit at a time, in a few seconds: clients of the old cluster that have seen at most
 * this many revisions after the backup do not mistake the revisions of the new cluster for those.
 */
const committedGap = 10_000;
/** Maximum size of one commit; every storage accepts commits of this size. */
const chunk = { writes: 64, bytes: 512 * 1024 };
/** TTL of restored events in seconds, the default of kube-apiserver: backups contain no TTLs. Leases of API servers are not restored. */
const eventSeconds = 3600;
const isEvent = (key: string) => key.startsWith('/registry/events/');
/**
 * Returns true for keys that are not restored: leases of API servers, and the records of the servers and of their shared keys, which the first server
 * writes again from its key files.
 */
const isEphemeralKey = (key: string) => key.startsWith(serverLeaseRoot) || key.startsWith('/oarlock/');

/** Restores a backup into an empty storage. */
export async function restore(options: RestoreOptions): Promise<void> {
  const dataDir = resolve(options.dataDir);
  const input = resolve(options.input);
  const head = await checkBackup(input);
  const clusterFile = await clusterFileOf(options.file, dataDir);
  const { driver, name, close } = await openStoppedStorage(clusterFile, dataDir, {
    timeoutSeconds: options.timeout ?? startTimeoutSeconds,
  });
  try {
    if (!driver.traits.durable) throw new CommandError(`${name} is not durable: restore with a cluster.yaml that has another storage`);
    const notices = options.keys ? await restoreConfiguredKeys(input, clusterFile, dataDir) : [];
    if (options.keys) for await (const line of filesOf(input)) await checkKey(dataDir, line);
    await checkEncryption({ input, dataDir, clusterFile, keys: options.keys });
    await requireEmpty(driver, name);
    // before the storage has an entry: a server that is started after an interruption does not create other keys
    if (options.keys) await markKeyRestore(dataDir);
    await clearInterruptedRestore(driver);
    if (options.keys) for await (const line of filesOf(input)) await writeKey(dataDir, line);
    if (driver.skipTo) await driver.skipTo(head.revision + revisionGap);
    else await advanceBeyond(driver, head.revision + committedGap, restoreMarker);
    progress.step('restoring the objects');
    let entries = 0;
    for await (const writes of chunks(readBackup(input))) {
      await commit(driver, writes);
      entries += writes.length;
      progress.detail(entries.toLocaleString('en'));
    }
    if (options.keys) await unmarkKeyRestore(dataDir);
    await commit(driver, [{ key: restoreMarker, value: null }]);
    const revision = await driver.requestProgress();
    await driver.compact(revision);
    console.log(
      `restored ${entries} entries of ${printable(head.cluster)} as of ${printable(head.createdAt)} into ${name}, at revision ${revision}`,
    );
    for (const notice of notices) console.log(notice);
    if (revision <= head.revision)
      console.log(
        `The revision of ${name} is not above that of the backup (${head.revision}): restart all clients that watch the cluster, so that they list again.`,
      );
  } finally {
    await close();
  }
}

/** Yields the files of the data directory in a backup. */
async function* filesOf(input: string): AsyncGenerator<BackedUpFile> {
  for await (const line of readBackup(input))
    if (isFile(line) && !isConfiguredKey(line) && !isStorageCertificate(normalize(line.file))) yield line;
}

/** Writes the encryption keys that the cluster file of the backup named, before the values are checked with them. Returns notices for the user. */
async function restoreConfiguredKeys(input: string, clusterFile: ClusterFile, dataDir: string): Promise<readonly string[]> {
  const notices: string[] = [];
  for await (const line of readBackup(input)) {
    if (!isFile(line) || !isConfiguredKey(line)) continue;
    const notice = await restoreConfiguredKey(line, clusterFile, dataDir);
    if (notice !== undefined) notices.push(notice);
  }
  return notices;
}

/** @throws CommandError if the storage contains anything else than a part of a backup */
async function requireEmpty(driver: StorageDriver, name: string): Promise<void> {
  const { entries } = await driver.range({ prefix: '', limit: 1 });
  const interrupted = (await driver.get(restoreMarker)).entry !== undefined;
  if (entries.length > 0 && !interrupted) throw new CommandError(`${name} is not empty: restore into an empty storage`);
}

/** Clears the data of an interrupted restore, and marks the start of this restore. */
async function clearInterruptedRestore(driver: StorageDriver): Promise<void> {
  await commit(driver, [{ key: restoreMarker, value: Buffer.from('{}') }]);
  for (;;) {
    const page = await driver.range({ prefix: '', limit: chunk.writes });
    const remaining = page.entries.filter(({ key }) => key !== restoreMarker);
    if (remaining.length === 0) return;
    await commit(
      driver,
      remaining.map(({ key }) => ({ key, value: null })),
    );
  }
}

async function commit(driver: StorageDriver, writes: readonly Write[]): Promise<void> {
  const { ok } = await driver.commit(writes, []);
  if (!ok) throw new Error('the storage rejected a commit without preconditions');
}

async function* chunks(lines: AsyncIterable<BackedUpFile | BackedUpEntry>): AsyncGenerator<readonly Write[]> {
  let writes: Write[] = [];
  let bytes = 0;
  for await (const line of lines) {
    if (isFile(line) || isEphemeralKey(line.key)) continue;
    const value = Buffer.from(line.value, 'base64');
    if (writes.length > 0 && (writes.length >= chunk.writes || bytes + value.length > chunk.bytes)) {
      yield writes;
      writes = [];
      bytes = 0;
    }
    writes.push({ key: line.key, value, ...(isEvent(line.key) && { ttlSeconds: eventSeconds }) });
    bytes += value.length;
  }
  if (writes.length > 0) yield writes;
}

/** Returns the path to which a key file is restored. @throws CommandError if the path is outside the key directories */
function keyPath(dataDir: string, { file }: BackedUpFile): string {
  const path = normalize(file);
  if (!keyDirectories.some((directory) => path.startsWith(`${directory}/`)))
    throw new CommandError(`the backup contains ${JSON.stringify(file)}, which is outside the key directories`);
  return join(dataDir, path);
}

/** @throws CommandError if symbolic links lead from the data directory to another place */
async function checkLinks(dataDir: string, path: string): Promise<void> {
  const root = await realpath(dataDir);
  for (let directory = dirname(path); directory.startsWith(`${dataDir}/`); directory = dirname(directory)) {
    const actual = await realpath(directory).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return undefined;
      throw error;
    });
    if (actual !== undefined && !actual.startsWith(`${root}/`))
      throw new CommandError(`${directory} is a link that leaves the data directory`);
  }
}

async function checkKey(dataDir: string, line: BackedUpFile): Promise<void> {
  const path = keyPath(dataDir, line);
  await checkLinks(dataDir, path);
  const existing = await readFile(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  });
  if (existing !== undefined && !existing.equals(Buffer.from(line.content, 'base64')))
    throw new CommandError(`${path} differs from the key in the backup: restore into a new data directory, or with --no-keys`);
}

async function writeKey(dataDir: string, line: BackedUpFile): Promise<void> {
  const path = keyPath(dataDir, line);
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  await writeAtomic(path, Buffer.from(line.content, 'base64').toString('utf8'), { sync: true });
}
