import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { readIfExists, writeAtomic } from '@oarlock/primitives/os/atomic-file';

/**
 * What the storage plugin of a server that runs a member has to do when it starts. The file is the contract between the command line and plugins such as
 * storage-etcd, which write `{"state":"member","name":NAME,"endpoints":URLS}` to it when they have done it, and change it before they do what cannot be undone.
 * The first endpoint is that of the member itself.
 */
export type StorageState =
  | { readonly state: 'joining'; readonly endpoints: readonly string[] }
  /** `download` names a snapshot in the store of copies, which has to be downloaded to the file `snapshot` first. */
  | { readonly state: 'restoring'; readonly name: string; readonly snapshot: string; readonly download?: string }
  | { readonly state: 'resetting'; readonly name: string };

/** The directory of a plugin. */
export const pluginDirectory = (dataDir: string, plugin: string): string => join(dataDir, 'plugins', plugin);
const stateFile = (dataDir: string, plugin: string): string => join(pluginDirectory(dataDir, plugin), 'member.json');

/**
 * Writes what the plugin has to do. Returns a function that restores the former content of the file, and returns false instead if the plugin has changed
 * the file since.
 */
export async function writeStorageState(dataDir: string, plugin: string, state: StorageState): Promise<() => Promise<boolean>> {
  const file = stateFile(dataDir, plugin);
  await mkdir(pluginDirectory(dataDir, plugin), { recursive: true, mode: 0o700 });
  const former = await readIfExists(file);
  const content = `${JSON.stringify(state)}\n`;
  await writeAtomic(file, content, { sync: true });
  return async () => {
    if ((await readIfExists(file)) !== content) return false;
    if (former === undefined) await rm(file, { force: true });
    else await writeAtomic(file, former, { sync: true });
    return true;
  };
}

/** Returns the name of the member in a data directory, or undefined if it has none. */
export async function storageMemberName(dataDir: string, plugin: string): Promise<string | undefined> {
  const text = await readIfExists(stateFile(dataDir, plugin));
  return text === undefined ? undefined : (JSON.parse(text) as { readonly name?: string }).name;
}

/** Returns the client URLs of the other members, as far as the member in a data directory knows them. */
export async function otherStorageMembers(dataDir: string, plugin: string): Promise<readonly string[]> {
  const text = await readIfExists(stateFile(dataDir, plugin));
  const { state, endpoints = [] } = JSON.parse(text ?? '{}') as { readonly state?: string; readonly endpoints?: readonly string[] };
  return state === 'member' ? endpoints.slice(1) : [];
}
