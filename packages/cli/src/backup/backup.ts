import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { join, relative, resolve } from 'node:path';
import { StatusError } from '@oarlock/api/status';
import { rejectInterruptedRestore } from '@oarlock/apiserver/storage/interrupted-restore';
import { backupPage, backupPagePath, type BackupPage } from '@oarlock/cluster/paths/backup-path';
import { selectDefaultCluster } from '@oarlock/cluster/default-cluster';
import { readClusterFile } from '@oarlock/cluster/composition/read-cluster-file';
import type { ClusterFile } from '@oarlock/cluster/cluster-file/cluster-file';
import { storagePkiDirectory } from '@oarlock/cluster/pki/storage-server';
import { readProcessState } from '@oarlock/cluster/process/process-state';
import { systemClock } from '@oarlock/primitives/clock';
import { adminAccess } from '../common/admin-access.ts';
import { startTimeoutSeconds } from '../common/command-options.ts';
import { openStoppedStorage } from '../common/stopped-storage.ts';
import { progress } from '../common/progress/progress.ts';
import { within } from '../common/within.ts';
import { writeBackup, type BackedUpFile, type BackupLine } from './backup-file.ts';
import { configuredKeyFiles } from './configured-keys.ts';
import { withKeyCheck } from './key-check.ts';
import { CommandError } from '../common/command-error.ts';

export interface BackupOptions {
  readonly dataDir: string;
  readonly output: string;
  readonly file?: string;
  readonly keys: boolean;
  /** Time in seconds for each answer of a running cluster, or within which the storage of a stopped one has to start. */
  readonly timeout?: number;
}

/**
 * Directories with keys in the data directory. Without these keys, stored data cannot be decrypted, and credentials of nodes and pods are invalid.
 */
export const keyDirectories = ['pki', join('plugins', 'apiserver')] as const;

/**
 * Returns true for the CA and the certificates of the members of a storage. They belong to the members, not to the objects: the members into which a
 * backup is restored have their own.
 */
export const isStorageCertificate = (path: string): boolean => path.startsWith(`${storagePkiDirectory}/`);

/** Reads the page of entries after the key `after` at `revision`; both are undefined for the first page. */
export type ReadPage = (revision?: number, after?: string) => Promise<BackupPage>;

/** Reads the named cluster file, or the one that a join has written to the data directory; without both, selects the default composition. */
export async function clusterFileOf(file: string | undefined, dataDir: string): Promise<ClusterFile> {
  const joined = join(dataDir, 'cluster.yaml');
  if (file === undefined && !existsSync(joined)) return (await selectDefaultCluster()).file;
  return readClusterFile(file ?? joined);
}

/** Writes all stored entries at one revision to a file. Reads the entries from the running cluster, or from the storage of a stopped cluster. */
export async function backup(options: BackupOptions): Promise<void> {
  const dataDir = resolve(options.dataDir);
  const output = resolve(options.output);
  const { read, cluster, close } = await openReader(dataDir, options);
  try {
    const first = await read();
    const clusterFile = options.file === undefined ? undefined : await readClusterFile(options.file);
    const missing = new Set<string>();
    const lines = withKeyCheck(allLines(dataDir, { options: { keys: options.keys, clusterFile }, read, first }), missing);
    const head = { format: 'oarlock-backup', version: 1, cluster, createdAt: new Date().toISOString(), revision: first.revision } as const;
    const entries = await writeBackup(output, head, lines);
    console.log(`wrote ${entries} entries as of revision ${first.revision} ${options.keys ? 'and the keys' : 'without keys'} to ${output}`);
    if (options.keys && missing.size > 0)
      console.error(
        `The backup lacks encryption keys that its values need: ${[...missing].join(', ')}. Name the cluster.yaml with -f, or keep the keys elsewhere.`,
      );
  } finally {
    await close();
  }
}

interface KeyOptions {
  readonly keys: boolean;
  readonly clusterFile: ClusterFile | undefined;
}

async function* allLines(
  dataDir: string,
  { options: { keys, clusterFile }, read, first }: { readonly options: KeyOptions; readonly read: ReadPage; readonly first: BackupPage },
): AsyncGenerator<BackupLine> {
  if (keys) yield* keyFiles(dataDir);
  if (keys && clusterFile !== undefined) yield* configuredKeyFiles(clusterFile);
  progress.step('writing the objects');
  let count = 0;
  for (let page = first; ; ) {
    for (const { key, value } of page.entries) yield { key, value };
    count += page.entries.length;
    progress.detail(count.toLocaleString('en'));
    const after = page.entries.at(-1)?.key;
    if (!page.more || after === undefined) return;
    page = await read(page.revision, after);
  }
}

async function* keyFiles(dataDir: string): AsyncGenerator<BackedUpFile> {
  for (const directory of keyDirectories) {
    const root = join(dataDir, directory);
    const found = await readdir(root, { recursive: true, withFileTypes: true }).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return [];
      throw error;
    });
    for (const entry of found) {
      const file = join(entry.parentPath, entry.name);
      if (!entry.isFile() || entry.name.endsWith('.tmp') || isStorageCertificate(relative(dataDir, file))) continue;
      yield { file: relative(dataDir, file), content: (await readFile(file)).toString('base64') };
    }
  }
}

/** Opens a reader of the stored entries of a running cluster, or of the storage of a stopped one. @throws CommandError if there is neither */
export async function openReader(
  dataDir: string,
  { file, keys, timeout = startTimeoutSeconds }: Pick<BackupOptions, 'file' | 'keys' | 'timeout'>,
): Promise<{ readonly read: ReadPage; readonly cluster: string; close(): void | Promise<void> }> {
  const state = await readProcessState(dataDir);
  if (state !== undefined) {
    if (!state.roles.includes('apiserver'))
      throw new CommandError(`process ${state.pid} of ${dataDir} has no storage: run the backup where the API server runs`);
    const { client, server, close } = await adminAccess(dataDir);
    const error = () => new CommandError(`the API server ${server} did not answer within ${timeout} s; --timeout sets another limit`);
    const limit = { seconds: timeout, clock: systemClock, error };
    const read: ReadPage = async (revision, after) => {
      const query = new URLSearchParams({
        ...(revision !== undefined && { revision: String(revision) }),
        ...(after !== undefined && { after }),
      });
      try {
        return (await within(client.raw('GET', `${backupPagePath}?${query}`), limit)) as BackupPage;
      } catch (error) {
        if (error instanceof StatusError && error.code === 410)
          throw new CommandError('the revision was compacted while the backup ran: try again', undefined, { cause: error });
        throw error;
      }
    };
    return { read, cluster: server, close };
  }
  // with -f and --no-keys no data directory is needed: the storage may be elsewhere
  if (!existsSync(join(dataDir, 'pki')) && (keys || file === undefined))
    throw new CommandError(
      `no API server has run in ${dataDir}, so there is nothing to back up; set --data-dir to the cluster's data directory`,
    );
  return openStoppedReader(dataDir, file, timeout);
}

async function openStoppedReader(dataDir: string, file: string | undefined, timeoutSeconds: number) {
  const clusterFile = await clusterFileOf(file, dataDir);
  const { driver, name, close } = await openStoppedStorage(clusterFile, dataDir, { timeoutSeconds });
  try {
    const problem = !driver.traits.durable
      ? `${name} is not durable: run the backup while the cluster runs`
      : (await driver.range({ prefix: '', limit: 1 })).entries.length === 0 && `${name} is empty: start the cluster`;
    if (problem !== false) throw new CommandError(`no cluster is running in ${dataDir}, and ${problem}, or name its cluster.yaml with -f`);
    await rejectInterruptedRestore(driver);
  } catch (error) {
    await close();
    throw error;
  }
  const read: ReadPage = async (revision, after) =>
    backupPage(
      await driver.range({ prefix: '', limit: 500, ...(revision !== undefined && { revision }), ...(after !== undefined && { after }) }),
    );
  return { read, cluster: clusterFile.name, close };
}
