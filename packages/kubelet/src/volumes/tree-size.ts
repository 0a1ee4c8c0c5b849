import type { Dirent } from 'node:fs';
import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';

export interface DirectorySize {
  readonly bytes: number;
  readonly inodes: number;
}

/** Ignores errors of entries that cannot be read, because most of these entries were just deleted. */
const unseen = () => undefined;

/**
 * Returns the size of the allocated blocks below a directory. Counts a file with several hard links once, and does not count other file systems.
 * Rejects with the signal's reason if the signal aborts.
 */
export async function directorySize(path: string, signal?: AbortSignal): Promise<DirectorySize> {
  const top = await lstat(path).catch(unseen);
  const linked = new Set<string>();
  const left = top === undefined ? [] : [path];
  let bytes = 0;
  let inodes = 0;
  for (let directory = left.pop(); directory !== undefined; directory = left.pop()) {
    const entries: readonly Dirent[] = (await readdir(directory, { withFileTypes: true }).catch(unseen)) ?? [];
    for (const entry of entries) {
      signal?.throwIfAborted();
      const below = join(directory, entry.name);
      const stats = await lstat(below).catch(unseen);
      if (stats === undefined || stats.dev !== top?.dev) continue;
      if (stats.isDirectory()) left.push(below);
      else if (stats.nlink > 1) {
        if (linked.has(String(stats.ino))) continue;
        linked.add(String(stats.ino));
      }
      bytes += stats.blocks * 512;
      inodes += 1;
    }
  }
  return { bytes, inodes };
}
