import { join } from 'node:path';
import { systemClock } from '@oarlock/kernel/clock';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Storage, type StorageDriver } from '@oarlock/spi/storage';
import type { ClusterFile } from './cluster-file.ts';
import { placeAll, plan } from './plan.ts';
import { DataDirLock } from './process-state.ts';

export interface OpenedStorage {
  readonly driver: StorageDriver;
  /** The plugin's name in the cluster file. */
  readonly name: string;
  close(): Promise<void>;
}

/**
 * The storage of a cluster that does not run, alone: the data directory is locked until `close`.
 * @throws WiringError for what is wrong with the file; Error when the cluster runs
 */
export async function openStorage(file: ClusterFile, dataDir: string): Promise<OpenedStorage> {
  const planned = await plan(file, { roles: ['apiserver'] });
  const plugins = planned.plugins.filter(({ plugin }) => plugin.provides.token === Storage.token);
  const lock = await DataDirLock.take(dataDir, planned.facts.serverUrl, []);
  const host = new PluginHost({ clock: systemClock, dataDir: join(dataDir, 'plugins') });
  const close = async () => {
    try {
      await host.stop();
    } finally {
      await lock.release();
    }
  };
  try {
    placeAll(host, { ...planned, plugins });
    await host.start();
    return { driver: host.get(Storage), name: plugins[0]?.name ?? '', close };
  } catch (error) {
    await close();
    throw error;
  }
}
