import { lstatSync, readFileSync, readlinkSync, statSync } from 'node:fs';
import { join, posix } from 'node:path';

const maxLinks = 40;
const maxFileBytes = 4 * 1024 * 1024;

/**
 * Resolves a path as a process would whose root directory is `root`: links never lead out of it. No process may change the tree meanwhile.
 * Returns undefined if a link loops.
 */
export function resolveInRoot(root: string, path: string): string | undefined {
  let resolved = '/';
  let links = 0;
  const rest = path.split('/').filter((part) => part !== '');
  for (let part = rest.shift(); part !== undefined; part = rest.shift()) {
    const next = posix.join(resolved, part);
    if (part === '.' || part === '..' || !isLink(join(root, next))) {
      resolved = next;
      continue;
    }
    if (++links > maxLinks) return undefined;
    const target = readlinkSync(join(root, next));
    if (target.startsWith('/')) resolved = '/';
    rest.unshift(...target.split('/').filter((one) => one !== ''));
  }
  return join(root, resolved);
}

/** Returns a text file below a root directory; empty if it does not exist, is not a regular file, or is larger than 4 MiB. */
export function readInRoot(root: string, path: string): string {
  const resolved = resolveInRoot(root, path);
  const stat = resolved === undefined ? undefined : statSync(resolved, { throwIfNoEntry: false });
  return resolved !== undefined && stat?.isFile() === true && stat.size <= maxFileBytes ? readFileSync(resolved, 'utf8') : '';
}

function isLink(path: string): boolean {
  try {
    return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOTDIR') return false;
    throw error;
  }
}
