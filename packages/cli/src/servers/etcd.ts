import { existsSync } from 'node:fs';
import { hostname } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { isStatus } from '@oarlock/api/status';
import { createPlan } from '@oarlock/cluster/composition/create-plan';
import { readClusterFile } from '@oarlock/cluster/composition/read-cluster-file';
import type { ClusterFile } from '@oarlock/cluster/cluster-file/cluster-file';
import { readProcessState } from '@oarlock/cluster/process/process-state';
import { isRunning } from '@oarlock/cluster/servers/long-operation';
import { defragmentPath, snapshotsPath, type Defragmentation } from '@oarlock/cluster/servers/member-paths';
import {
  otherStorageMembers,
  pluginDirectory,
  storageMemberName,
  writeStorageState,
  type StorageState,
} from '@oarlock/cluster/servers/storage-state';
import type { Client } from '@oarlock/spi/client';
import { Storage } from '@oarlock/spi/storage';
import type { SnapshotList, StorageSnapshot } from '@oarlock/spi/storage-server';
import { withCluster } from '../common/cluster-access.ts';
import { CommandError, describeError, exitCodes } from '../common/command-error.ts';
import { formatTable } from '../common/format-table.ts';
import { printFacts, type OutputFormat } from '../common/output.ts';
import { openStoppedStorage } from '../common/stopped-storage.ts';
import { requireMembersStopped } from './stopped-members.ts';

interface SnapshotOptions {
  readonly dataDir: string;
  readonly timeout: number;
}

async function withSnapshots<T>(options: SnapshotOptions, work: (client: Client) => Promise<T>): Promise<T> {
  try {
    return await withCluster(options, ({ client }) => work(client));
  } catch (error) {
    if (isStatus(error, 'NotFound'))
      throw new CommandError(
        'the storage of this cluster runs no members: that needs storage-etcd with `managed: true`; `oarlock backup` works with each storage',
        undefined,
        { cause: error },
      );
    throw error;
  }
}

/** Sends a request, and waits for its result if the server continues the work in the background. */
async function post(client: Client, path: string, body: object): Promise<unknown> {
  let result = await client.raw('POST', path, body);
  while (isRunning(result)) result = await client.raw('GET', `${path}?${new URLSearchParams({ operation: result.operation })}`);
  return result;
}

/** Writes a snapshot to the disk of the server. */
export async function saveSnapshot(name: string | undefined, options: SnapshotOptions & { readonly output: OutputFormat }): Promise<void> {
  const body = name === undefined ? {} : { name };
  const saved = (await withSnapshots(options, (client) => post(client, snapshotsPath, body))) as StorageSnapshot;
  await printFacts(options.output, saved, ({ path, bytes }) => `wrote ${path} (${bytes} bytes)`);
}

/** Defragments the members one after the other, and ends the alarms of members whose space quota was reached. */
export async function defragmentMembers(options: SnapshotOptions & { readonly output: OutputFormat }): Promise<void> {
  const result = (await withSnapshots(options, (client) => post(client, defragmentPath, {}))) as Defragmentation;
  await printFacts(options.output, result, ({ members, disarmed }) =>
    [
      `defragmented ${members.join(', ')}`,
      ...(disarmed.length > 0 ? [`ended the alarm NOSPACE of ${disarmed.join(', ')}: writes are accepted again`] : []),
    ].join('\n'),
  );
}

/** Prints the snapshots on the disk of the server. */
export async function listSnapshots(options: SnapshotOptions & { readonly output: OutputFormat }): Promise<void> {
  const { snapshots, copiesFailure } = (await withSnapshots(options, (client) => client.raw('GET', snapshotsPath))) as SnapshotList;
  const rows = snapshots.map(({ name, server, bytes, createdAt, path }) => [name, server, String(bytes), createdAt, path]);
  await printFacts(options.output, { snapshots }, () => formatTable([['NAME', 'SERVER', 'BYTES', 'CREATED', 'PATH'], ...rows]));
  if (copiesFailure !== undefined) throw new CommandError(copiesFailure);
}

export interface RestoreOptions {
  readonly dataDir: string;
  readonly file?: string;
  readonly nodeName?: string;
  /** Time in seconds within which the member has to run with the data. */
  readonly timeout: number;
}

/** Replaces the data of this server's member by a snapshot, as the only member of a new cluster. The server must not run. */
export async function restoreSnapshot(snapshot: string, options: RestoreOptions): Promise<void> {
  const restored = await replaceMember(options, (name, { directory, hasCopies }) => {
    const path = [resolve(snapshot), join(directory, snapshot)].find(existsSync);
    if (path !== undefined) return { state: 'restoring', name, snapshot: path };
    if (!hasCopies || snapshot.startsWith('/'))
      throw new CommandError(`there is no snapshot ${snapshot}, neither as a file nor in ${directory}`, exitCodes.usage);
    return { state: 'restoring', name, snapshot: join(directory, basename(snapshot)), download: snapshot };
  });
  console.log(
    `restored ${snapshot} at revision ${restored}. This server is the only member: start it, then join the other servers with new data directories.`,
  );
}

/** Makes this server's member the only one of a new cluster, with its data, after the others were lost. The server must not run. */
export async function resetMembers(options: RestoreOptions): Promise<void> {
  const revision = await replaceMember(options, (name) => ({ state: 'resetting', name }));
  console.log(
    `this server is the only member, at revision ${revision}. Writes that etcd acknowledged within a tenth of a second before the loss can be missing. If other servers still have their disks, reset them too and start only the one with the highest revision. Never start the other members again: join their servers with new data directories.`,
  );
}

async function replaceMember(
  options: RestoreOptions,
  stateFor: (name: string, snapshots: SnapshotPlaces) => StorageState,
): Promise<number> {
  const dataDir = resolve(options.dataDir);
  const running = await readProcessState(dataDir);
  if (running !== undefined) throw new CommandError(`process ${running.pid} uses ${dataDir}: stop it first with \`oarlock down\``);
  const file = await clusterFileOf(options, dataDir);
  const { plugin, directory = join(pluginDirectory(dataDir, plugin), 'snapshots'), hasCopies } = await managedStorage(file);
  const name = options.nodeName ?? (await storageMemberName(dataDir, plugin)) ?? hostname().toLowerCase();
  const state = stateFor(name, { directory, hasCopies });
  await requireMembersStopped(await otherStorageMembers(dataDir, plugin));
  const restorePrevious = await writeStorageState(dataDir, plugin, state);
  try {
    const { driver, close } = await openStoppedStorage(file, dataDir, { nodeName: name, timeoutSeconds: options.timeout });
    try {
      return await driver.requestProgress();
    } finally {
      await close();
    }
  } catch (error) {
    const { message, exitCode } = describeError(error);
    const consequence = (await restorePrevious())
      ? 'The data of the member is unchanged.'
      : 'The data of the member is being replaced: repeat the command, or start this server, which continues. Never start the other members again.';
    throw new CommandError(`${message}\n${consequence}`, exitCode, { cause: error });
  }
}

/** The settings of a storage plugin about its snapshots. */
interface ConfiguredSnapshots {
  readonly directory?: string;
  readonly s3?: object;
}
interface SnapshotPlaces {
  readonly directory: string;
  /** True if a store of copies is configured. */
  readonly hasCopies: boolean;
}

/** Returns the cluster file that the options name, or that a join has written. */
async function clusterFileOf({ file }: RestoreOptions, dataDir: string): Promise<ClusterFile> {
  const joined = join(dataDir, 'cluster.yaml');
  if (file === undefined && !existsSync(joined)) throw new CommandError('name the cluster.yaml of the server with -f', exitCodes.usage);
  return readClusterFile(file ?? joined);
}

/** Returns the name of the storage plugin and its directory of snapshots. @throws CommandError unless it runs members */
async function managedStorage(
  file: ClusterFile,
): Promise<Partial<SnapshotPlaces> & Pick<SnapshotPlaces, 'hasCopies'> & { readonly plugin: string }> {
  const { plugins } = await createPlan(file, { roles: ['apiserver'] });
  const storage = plugins.find(({ plugin }) => plugin.provides.token === Storage.token);
  const { managed } = (storage?.config ?? {}) as { readonly managed?: boolean | { readonly snapshots?: ConfiguredSnapshots } };
  if (storage === undefined || managed === undefined || managed === false)
    throw new CommandError(
      'the storage of the cluster.yaml runs no etcd member: that needs storage-etcd with `managed: true`',
      exitCodes.usage,
    );
  const { directory, s3 } = (managed === true ? undefined : managed.snapshots) ?? {};
  return { plugin: storage.name, ...(directory !== undefined && { directory }), hasCopies: s3 !== undefined };
}
