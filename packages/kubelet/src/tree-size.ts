import type { Dirent } from 'node:fs';
import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';

export interface TreeSize {
  readonly bytes: number;
  readonly inodes: number;
}

/** What cannot be looked at is not counted: most of it has just gone. */
const unseen = () => undefined;

/**
 * Blocks below a directory that are really taken, those of several names once, and without what is mounted there.
 * Rejects with the signal's reason when it aborts.
 */
export async function treeSize(path: string, signal?: AbortSignal): Promise<TreeSize> {
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
