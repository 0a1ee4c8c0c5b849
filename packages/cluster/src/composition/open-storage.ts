import { join } from 'node:path';
import type { Logger } from '@oarlock/primitives/logger';
import { systemClock } from '@oarlock/primitives/clock';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Storage, type StorageDriver } from '@oarlock/spi/storage';
import { StorageServer } from '@oarlock/spi/storage-server';
import type { ClusterFile } from '../cluster-file/cluster-file.ts';
import { placePlugins, createPlan } from './create-plan.ts';
import type { Plan } from './plan.ts';
import { DataDirLock } from '../process/process-state.ts';
import { ProcessStorageServer } from '../pki/storage-server.ts';

export interface OpenedStorage {
  readonly driver: StorageDriver;
  /** Name of the plugin in the cluster file. */
  readonly name: string;
  close(): Promise<void>;
}

export interface OpenStorageOptions {
  readonly nodeName?: string | undefined;
  /** Receives what the storage waits for, such as a quorum of the members of etcd. */
  readonly log?: Logger;
  /** Ends a start that waits. What was started until then is stopped. */
  readonly signal?: AbortSignal;
}

/**
 * Opens the storage of a cluster that is not running. The data directory is locked until `close`.
 * @throws WiringError for faults of the file; Error if the cluster is running
 */
export async function openStorage(
  file: ClusterFile,
  dataDir: string,
  { nodeName, ...options }: OpenStorageOptions = {},
): Promise<OpenedStorage> {
  const planned = await createPlan(file, { roles: ['apiserver'], ...(nodeName !== undefined && { nodeName }) });
  const lock = await DataDirLock.acquire(dataDir, planned.facts.serverUrl, []);
  const server = new ProcessStorageServer(planned, dataDir);
  const close = () => server.stop().finally(() => lock.release());
  try {
    const storage = await startStorage(planned, { dataDir, server, ...options });
    return { ...storage, close: () => storage.close().finally(close) };
  } catch (error) {
    await close();
    throw error;
  }
}

export interface StartStorageOptions {
  readonly dataDir: string;
  readonly server: StorageServer;
  readonly log?: Logger;
  readonly signal?: AbortSignal;
}

/** Starts the storage plugin of a plan alone. The caller holds the lock of the data directory. @throws WiringError if it cannot start */
export async function startStorage(planned: Plan, { dataDir, server, log, signal }: StartStorageOptions): Promise<OpenedStorage> {
  const plugins = planned.plugins.filter(({ plugin }) => plugin.provides.token === Storage.token);
  const host = new PluginHost({ clock: systemClock, dataDir: join(dataDir, 'plugins'), ...(log && { log }) }).provide(
    StorageServer,
    server,
  );
  try {
    placePlugins(host, { ...planned, plugins });
    await host.start(signal);
    return { driver: host.get(Storage), name: plugins[0]?.name ?? '', close: () => host.stop() };
  } catch (error) {
    await host.stop();
    throw error;
  }
}
