import * as fs from 'node:fs';
import { bytePath, osPath } from '../archive/byte-path.ts';

/** Removes a tree, also one with directories that the process may not read or write. Symbolic links are removed, not followed. */
export function removeTree(path: string): void {
  try {
    fs.rmSync(path, { recursive: true, force: true });
    return;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'EACCES' && code !== 'EPERM' && code !== 'ENOTEMPTY') throw error;
  }
  const pending = [bytePath(path)];
  for (let directory = pending.pop(); directory !== undefined; directory = pending.pop()) {
    fs.chmodSync(osPath(directory), 0o700);
    for (const name of fs.readdirSync(osPath(directory), { encoding: 'latin1' }))
      if (fs.lstatSync(osPath(`${directory}/${name}`)).isDirectory()) pending.push(`${directory}/${name}`);
  }
  fs.rmSync(path, { recursive: true, force: true });
}
