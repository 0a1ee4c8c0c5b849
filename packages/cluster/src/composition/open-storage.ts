import { join } from 'node:path';
import { systemClock } from '@oarlock/primitives/clock';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Storage, type StorageDriver } from '@oarlock/spi/storage';
import type { ClusterFile } from '../config/cluster-file.ts';
import { placePlugins, createPlan } from './create-plan.ts';
import type { Plan } from './plan.ts';
import { DataDirLock } from '../process/process-state.ts';

export interface OpenedStorage {
  readonly driver: StorageDriver;
  /** Name of the plugin in the cluster file. */
  readonly name: string;
  close(): Promise<void>;
}

/**
 * Opens the storage of a cluster that is not running. The data directory is locked until `close`.
 * @throws WiringError for faults of the file; Error if the cluster is running
 */
export async function openStorage(file: ClusterFile, dataDir: string): Promise<OpenedStorage> {
  const planned = await createPlan(file, { roles: ['apiserver'] });
  const lock = await DataDirLock.acquire(dataDir, planned.facts.serverUrl, []);
  try {
    const storage = await startStorage(planned, dataDir);
    return { ...storage, close: () => storage.close().finally(() => lock.release()) };
  } catch (error) {
    await lock.release();
    throw error;
  }
}

/** Starts the storage plugin of a plan alone. The caller holds the lock of the data directory. @throws WiringError if it cannot start */
export async function startStorage(planned: Plan, dataDir: string, signal?: AbortSignal): Promise<OpenedStorage> {
  const plugins = planned.plugins.filter(({ plugin }) => plugin.provides.token === Storage.token);
  const host = new PluginHost({ clock: systemClock, dataDir: join(dataDir, 'plugins') });
  try {
    placePlugins(host, { ...planned, plugins });
    await host.start(signal);
    return { driver: host.get(Storage), name: plugins[0]?.name ?? '', close: () => host.stop() };
  } catch (error) {
    await host.stop();
    throw error;
  }
}
