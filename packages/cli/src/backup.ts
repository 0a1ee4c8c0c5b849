import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { join, relative, resolve } from 'node:path';
import { StatusError } from '@oarlock/api/status';
import { backupPage, backupPagePath, type BackupPage } from '@oarlock/cluster/backup-path';
import { chooseCluster } from '@oarlock/cluster/choose';
import { readClusterFile, type ClusterFile } from '@oarlock/cluster/cluster-file';
import { openStorage } from '@oarlock/cluster/open-storage';
import { readState } from '@oarlock/cluster/process-state';
import { adminAccess } from './admin-access.ts';
import { writeBackup, type BackedUpFile, type BackupLine } from './backup-file.ts';
import { CommandError } from './exit.ts';

export interface BackupOptions {
  readonly dataDir: string;
  readonly output: string;
  readonly file?: string;
  readonly keys: boolean;
}

/** Keys below the data directory: without them what is restored could not be read, or its nodes and pods not be recognized. */
export const keyDirectories = ['pki', join('plugins', 'apiserver')] as const;

/** A page after the key, at the revision; both absent for the first. */
type ReadPage = (revision?: number, after?: string) => Promise<BackupPage>;

export async function clusterFileOf(file: string | undefined): Promise<ClusterFile> {
  return file === undefined ? (await chooseCluster()).file : readClusterFile(file);
}

/** Everything that is stored at one revision, from a cluster that runs or from its storage. */
export async function backup(options: BackupOptions): Promise<void> {
  const dataDir = resolve(options.dataDir);
  const output = resolve(options.output);
  const { read, cluster, close } = await reader(dataDir, options);
  try {
    const first = await read();
    const lines = allLines(dataDir, options.keys, read, first);
    const head = { format: 'oarlock-backup', version: 1, cluster, createdAt: new Date().toISOString(), revision: first.revision } as const;
    const entries = await writeBackup(output, head, lines);
    console.log(`${output}: ${entries} entries as of revision ${first.revision}${options.keys ? ', and the keys' : ', without keys'}`);
  } finally {
    await close();
  }
}

async function* allLines(dataDir: string, keys: boolean, read: ReadPage, first: BackupPage): AsyncGenerator<BackupLine> {
  if (keys) yield* keyFiles(dataDir);
  for (let page = first; ; ) {
    for (const { key, value } of page.entries) yield { key, value };
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
      if (!entry.isFile() || entry.name.endsWith('.tmp')) continue;
      const file = join(entry.parentPath, entry.name);
      yield { file: relative(dataDir, file), content: (await readFile(file)).toString('base64') };
    }
  }
}

async function reader(
  dataDir: string,
  { file, keys }: BackupOptions,
): Promise<{ readonly read: ReadPage; readonly cluster: string; close(): void | Promise<void> }> {
  const state = await readState(dataDir);
  if (state !== undefined) {
    if (!state.roles.includes('apiserver'))
      throw new CommandError(`process ${state.pid} of ${dataDir} has no storage: back up where the API server runs`);
    const { client, server, close } = await adminAccess(dataDir);
    const read: ReadPage = async (revision, after) => {
      const query = new URLSearchParams({
        ...(revision !== undefined && { revision: String(revision) }),
        ...(after !== undefined && { after }),
      });
      try {
        return (await client.raw('GET', `${backupPagePath}?${query}`)) as BackupPage;
      } catch (error) {
        if (error instanceof StatusError && error.code === 410)
          throw new CommandError('the backup took longer than the past is kept: try again', undefined, { cause: error });
        throw error;
      }
    };
    return { read, cluster: server, close };
  }
  // a storage elsewhere may be all that is left of a cluster
  if (!existsSync(join(dataDir, 'pki')) && (keys || file === undefined))
    throw new CommandError(`no API server has run in ${dataDir}: there is nothing to back up, and --data-dir says where it is`);
  const clusterFile = await clusterFileOf(file);
  const { driver, name, close } = await openStorage(clusterFile, dataDir);
  if (!driver.traits.durable) {
    await close();
    throw new CommandError(
      `nothing runs in ${dataDir}, and ${name} keeps nothing then: back up while the cluster runs, or name its cluster.yaml with -f`,
    );
  }
  const read: ReadPage = async (revision, after) =>
    backupPage(
      await driver.range({ prefix: '', limit: 500, ...(revision !== undefined && { revision }), ...(after !== undefined && { after }) }),
    );
  return { read, cluster: clusterFile.name, close };
}
