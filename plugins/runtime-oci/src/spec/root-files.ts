import { lstatSync, readFileSync, readlinkSync, type Stats } from 'node:fs';
import { join, posix, resolve } from 'node:path';

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
  const stat = resolved === undefined ? undefined : statAt(resolved);
  return resolved !== undefined && stat?.isFile() === true && stat.size <= maxFileBytes ? readFileSync(resolved, 'utf8') : '';
}

const isLink = (path: string): boolean => statAt(path)?.isSymbolicLink() === true;

/** Returns the attributes of a path itself; undefined if it does not exist, also because a part of it is not a directory. */
export function statAt(path: string): Stats | undefined {
  try {
    return lstatSync(path, { throwIfNoEntry: false });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOTDIR') return undefined;
    throw error;
  }
}

/**
 * Returns a text file of an overlay that is not mounted: that of the topmost layer which has the path. A layer can replace it by a link, which is not
 * followed, or delete it; then the result is empty, as for a file that is too large.
 */
export function readInLayers(layers: readonly string[], path: string): string {
  for (const layer of layers) {
    const resolved = resolveInRoot(layer, posix.dirname(path));
    const stat = resolved === undefined ? undefined : statAt(join(resolved, posix.basename(path)));
    if (!stat || resolved === undefined) continue;
    return stat.isFile() && stat.size <= maxFileBytes ? readFileSync(join(resolved, posix.basename(path)), 'utf8') : '';
  }
  return '';
}

/**
 * Returns whether an overlay that is not mounted has a path without links. A link in a layer counts, also if a layer above replaces it. A path that a layer
 * deletes with a directory above it may count as present.
 */
export function findInLayers(layers: readonly string[], path: string): 'present' | 'absent' | 'link' {
  const parts = path.split('/').filter((part) => part !== '');
  const prefixes = parts.map((_, index) => parts.slice(0, index + 1).join('/'));
  if (layers.some((layer) => prefixes.some((prefix) => isLink(join(layer, prefix))))) return 'link';
  const top = layers.map((layer) => statAt(join(layer, path))).find((stat) => stat !== undefined);
  const isWhiteout = top?.isCharacterDevice() === true && top.rdev === 0;
  return top === undefined || isWhiteout ? 'absent' : 'present';
}

/** Returns the directories of an overlay's layers, the topmost first. */
export function overlayLayers(options: readonly string[], directory: string): readonly string[] {
  const value = (name: string) => options.find((option) => option.startsWith(`${name}=`))?.slice(name.length + 1) ?? '';
  const paths = [value('upperdir'), ...value('lowerdir').split(/(?<!\\):/)].filter((path) => path !== '');
  return paths.map((path) => resolve(directory, path.replaceAll('\\:', ':')));
}
