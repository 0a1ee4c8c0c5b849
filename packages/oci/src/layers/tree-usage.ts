import * as fs from 'node:fs';
import { osPath, type BytePath } from '../archive/byte-path.ts';

/** Returns the disk usage of a tree in bytes and inodes; files with several hard links count once. */
export function treeUsage(root: BytePath): { readonly usedBytes: number; readonly inodes: number } {
  let usedBytes = 0;
  let inodes = 0;
  const linked = new Set<number>();
  const pending = [root];
  for (let directory = pending.pop(); directory !== undefined; directory = pending.pop()) {
    usedBytes += fs.lstatSync(osPath(directory)).blocks * 512;
    inodes += 1;
    for (const name of fs.readdirSync(osPath(directory), { encoding: 'latin1' })) {
      const path = `${directory}/${name}`;
      const stats = fs.lstatSync(osPath(path));
      if (stats.isDirectory()) {
        pending.push(path);
        continue;
      }
      if (stats.nlink > 1 && linked.has(stats.ino)) continue;
      if (stats.nlink > 1) linked.add(stats.ino);
      usedBytes += stats.blocks * 512;
      inodes += 1;
    }
  }
  return { usedBytes, inodes };
}
