import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { readIfExists, writeAtomic } from '@oarlock/primitives/os/atomic-file';

/**
 * What the storage plugin of a server that runs a member has to do when it starts. The file is the contract between the command line and plugins such as
 * storage-etcd, which write `{"state":"member","name":NAME}` to it when they have done it.
 */
export type StorageState =
  | { readonly state: 'joining'; readonly endpoints: readonly string[] }
  /** `download` names a snapshot in the store of copies, which has to be downloaded to the file `snapshot` first. */
  | { readonly state: 'restoring'; readonly name: string; readonly snapshot: string; readonly download?: string }
  | { readonly state: 'resetting'; readonly name: string };

/** The directory of a plugin. */
export const pluginDirectory = (dataDir: string, plugin: string): string => join(dataDir, 'plugins', plugin);
const stateFile = (dataDir: string, plugin: string): string => join(pluginDirectory(dataDir, plugin), 'member.json');

/** Writes what the plugin has to do. Returns a function that restores the former content of the file. */
export async function writeStorageState(dataDir: string, plugin: string, state: StorageState): Promise<() => Promise<void>> {
  const file = stateFile(dataDir, plugin);
  await mkdir(pluginDirectory(dataDir, plugin), { recursive: true, mode: 0o700 });
  const former = await readIfExists(file);
  await writeAtomic(file, `${JSON.stringify(state)}\n`, { sync: true });
  return () => (former === undefined ? rm(file, { force: true }) : writeAtomic(file, former, { sync: true }));
}

/** Returns the name of the member in a data directory, or undefined if it has none. */
export async function storageMemberName(dataDir: string, plugin: string): Promise<string | undefined> {
  const text = await readIfExists(stateFile(dataDir, plugin));
  return text === undefined ? undefined : (JSON.parse(text) as { readonly name?: string }).name;
}
