import * as fs from 'node:fs';
import { displayPath, osPath, type BytePath } from '../archive/byte-path.ts';
import { OciError } from '../oci-error.ts';
import type { LayerBudget } from './layer-budget.ts';

/** As Linux, which returns ELOOP. */
const maxLinks = 40;
const maxName = 255;
const maxDepth = 512;
const invalid = (path: BytePath, reason: string) => new OciError('InvalidContent', `invalid layer: ${displayPath(path)}: ${reason}`);

/** Splits a path of an archive into its components. `..` at the root is rejected. @throws OciError `InvalidContent` */
export function pathComponents(path: BytePath): readonly string[] {
  const components: string[] = [];
  for (const component of path.split('/')) {
    if (component === '' || component === '.') continue;
    if (component === '..') {
      if (components.pop() === undefined) throw invalid(path, 'the path leaves the root');
    } else if (component.length > maxName) throw invalid(path, `a name has more than ${maxName} bytes`);
    else components.push(component);
    if (components.length > maxDepth) throw invalid(path, `it is deeper than ${maxDepth} directories`);
  }
  return components;
}

const lstat = (path: BytePath): fs.Stats | undefined => fs.lstatSync(osPath(path), { throwIfNoEntry: false });

export interface LayerTreeOptions {
  readonly budget: LayerBudget;
  /** Called with each directory that the archive implies, without an entry. */
  onImplied(path: BytePath): void;
}

/**
 * The directory into which a layer is extracted. No other program writes to it.
 *
 * Paths are resolved as inside a chroot: every component is examined, symbolic links are resolved against the directory as root, and the system calls that
 * follow receive paths without symbolic links. Paths relative to the directory have no leading slash; '' is the directory.
 */
export class LayerTree {
  readonly #root: BytePath;
  /** Directories that were found, from the path in the archive to the path without links. */
  readonly #directories = new Map<string, BytePath>();
  readonly #options: LayerTreeOptions;

  constructor(root: BytePath, options: LayerTreeOptions) {
    this.#root = root;
    this.#options = options;
  }

  absolute(path: BytePath): BytePath {
    return path === '' ? this.#root : `${this.#root}/${path}`;
  }

  stat(path: BytePath): fs.Stats | undefined {
    return lstat(this.absolute(path));
  }

  /** Returns the place of an entry: its parent directory is created if necessary; the last component is not resolved. */
  locate(components: readonly string[]): BytePath {
    const name = components.at(-1);
    if (name === undefined) return '';
    const parent = this.#directory(components.slice(0, -1), true);
    return parent === '' ? name : `${parent}/${name}`;
  }

  /** Returns the place of an existing entry, or undefined. */
  find(components: readonly string[]): BytePath | undefined {
    const name = components.at(-1);
    if (name === undefined) return '';
    const parent = this.#directory(components.slice(0, -1), false);
    if (parent === undefined) return undefined;
    const path = parent === '' ? name : `${parent}/${name}`;
    return this.stat(path) ? path : undefined;
  }

  /** Removes what exists at a place. */
  clear(path: BytePath): void {
    const found = this.stat(path);
    if (!found) return;
    if (found.isDirectory()) fs.rmSync(osPath(this.absolute(path)), { recursive: true, force: true });
    else fs.unlinkSync(osPath(this.absolute(path)));
    if (found.isDirectory() || found.isSymbolicLink()) this.#directories.clear();
  }

  #directory(components: readonly string[], create: true): BytePath;
  #directory(components: readonly string[], create: boolean): BytePath | undefined;
  #directory(components: readonly string[], create: boolean): BytePath | undefined {
    const key = components.join('/');
    const known = this.#directories.get(key);
    if (known !== undefined) return known;
    const path = this.#resolve(key, [...components].reverse(), create);
    if (path === undefined) return undefined;
    this.#options.budget.record(key.length);
    this.#directories.set(key, path);
    return path;
  }

  /** @param pending the components to resolve, the next one last */
  #resolve(path: BytePath, pending: string[], create: boolean): BytePath | undefined {
    let at: string[] = [];
    let links = 0;
    for (let name = pending.pop(); name !== undefined; name = pending.pop()) {
      this.#options.budget.work(1);
      if (name === '' || name === '.') continue;
      if (name === '..') {
        at.pop();
        continue;
      }
      const next = [...at, name].join('/');
      const found = this.stat(next);
      if (found?.isSymbolicLink()) {
        links += 1;
        if (links > maxLinks) throw invalid(path, 'too many levels of symbolic links');
        const target = fs.readlinkSync(osPath(this.absolute(next)), { encoding: 'latin1' });
        if (target.startsWith('/')) at = [];
        pending.push(...target.split('/').reverse());
      } else if (found?.isDirectory()) at.push(name);
      else if (found) throw invalid(path, `${displayPath(next)} is not a directory`);
      else {
        if (!create) return undefined;
        this.#options.budget.implied();
        this.#options.budget.record(next.length);
        fs.mkdirSync(osPath(this.absolute(next)), 0o755);
        this.#options.onImplied(next);
        at.push(name);
      }
    }
    return at.join('/');
  }
}
