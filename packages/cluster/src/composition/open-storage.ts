import { join } from 'node:path';
import { systemClock } from '@oarlock/primitives/clock';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Storage, type StorageDriver } from '@oarlock/spi/storage';
import type { ClusterFile } from '../config/cluster-file.ts';
import { placePlugins, createPlan } from './create-plan.ts';
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
  const plugins = planned.plugins.filter(({ plugin }) => plugin.provides.token === Storage.token);
  const lock = await DataDirLock.acquire(dataDir, planned.facts.serverUrl, []);
  const host = new PluginHost({ clock: systemClock, dataDir: join(dataDir, 'plugins') });
  const close = async () => {
    try {
      await host.stop();
    } finally {
      await lock.release();
    }
  };
  try {
    placePlugins(host, { ...planned, plugins });
    await host.start();
    return { driver: host.get(Storage), name: plugins[0]?.name ?? '', close };
  } catch (error) {
    await close();
    throw error;
  }
}
