import { chmodSync, existsSync, mkdirSync, realpathSync, statSync, writeFileSync, type Stats } from 'node:fs';
import { basename, dirname, join, resolve, sep } from 'node:path';
import { isWithin } from '@oarlock/process-supervisor/host/mount-table';

/** Creates a mount point, with directories that every user can enter, below a directory of the container. */
export function createMountPoint(cover: string, target: string, isDirectory: boolean): void {
  const missing = [];
  for (let path = isDirectory ? target : dirname(target); isWithin(path, cover) && !existsSync(path); path = dirname(path))
    missing.unshift(path);
  for (const path of missing) {
    mkdirSync(path);
    chmodSync(path, 0o755);
  }
  if (!isDirectory && !existsSync(target)) writeFileSync(target, '', { mode: 0o644 });
}

/** Returns how many parts a path has. */
export const depthOf = (path: string) => resolve('/', path).split(sep).length;

/** Returns the real path, or nothing if it does not exist or is not accessible. */
export function realPaths(path: string): readonly string[] {
  try {
    return [realpathSync(path)];
  } catch {
    return [];
  }
}

/** Resolves the links in the part of a path that exists. */
export function realTarget(path: string): string {
  const [real] = realPaths(path);
  if (real !== undefined) return real;
  return path === '/' ? '/' : join(realTarget(dirname(path)), basename(path));
}

export function statOrUndefined(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch {
    return undefined; // a parent directory is not accessible
  }
}
