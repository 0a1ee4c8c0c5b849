import { mkdirSync, readdirSync, readlinkSync, rmSync, statSync, symlinkSync, writeFileSync, type Dirent } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { createMountPoint, depthOf, statOrUndefined } from './file-paths.ts';
import { fstabLine } from './fstab.ts';
import { isWithin, lockedFlags, type MountEntry } from '@oarlock/process-supervisor/host/mount-table';

/** A file or directory at a path of the container. */
export interface MountItem {
  readonly source: string;
  readonly isDirectory: boolean;
  readonly readonly: boolean;
  /**
   * The owner of the content. `container`: a directory that the runtime created for the container, in which it may create mount points. `node`: the
   * node. `volume`: possibly the pod, so mount points in it need `createNestedMountPoint`.
   */
  readonly owner: 'container' | 'node' | 'volume';
}

/** A mount below a volume. It is made after the others, and its place is verified. */
export interface NestedMount {
  readonly source: string;
  readonly target: string;
  readonly options: string;
}

/** A directory of the node with more entries is not mirrored: each entry costs one mount. */
const maxMirroredEntries = 1000;

export interface MountTreeOptions {
  /** The directory that becomes the container's root. */
  readonly root: string;
  readonly table: readonly MountEntry[];
  /** True if the files of the node are read-only. `/proc` is never read-only. */
  readonly readonly: boolean;
  /** Creates a directory of the container. */
  create(name: string, mode: number): string;
}

/**
 * The file system of a container, as mounts below a new root directory. The new root mirrors `/`: it is a directory of the container, on whose
 * entries those of the node are bind-mounted. Further directories of the node are mirrored if a mount point in them is missing, so that every path
 * can be mounted at and nothing is created on the node.
 */
export class MountTree {
  readonly #options: MountTreeOptions;
  readonly #items = new Map<string, MountItem>();

  constructor(options: MountTreeOptions) {
    this.#options = options;
    this.#mirror('/', options.root);
  }

  get(at: string): MountItem | undefined {
    return this.#items.get(at);
  }

  paths(owner: MountItem['owner']): readonly string[] {
    return [...this.#items].filter(([, item]) => item.owner === owner).map(([at]) => at);
  }

  /** Returns the item that a path is in, and the path of the item. */
  itemOf(at: string): readonly [path: string, item: MountItem] {
    for (let path = at; ; path = dirname(path)) {
      const item = this.#items.get(path);
      if (item) return [path, item];
    }
  }

  /** Adds an item. Returns false if its mount point is missing and cannot be created. `at` is a real path of the container. */
  add(at: string, item: MountItem): boolean {
    const [, parent] = this.itemOf(dirname(at));
    const found = statOrUndefined(at);
    const replaces = found !== undefined && found.isDirectory() !== item.isDirectory;
    const needsEntry = parent.owner === 'node' && (found === undefined || replaces);
    if (needsEntry && !this.#mirror(existingDirectory(dirname(at)))) return false;
    const [path, { owner, source }] = this.itemOf(dirname(at));
    // an entry of another type, or a link to nothing, is not a mount point
    if (owner === 'container' && path === dirname(at) && (found === undefined || replaces))
      rmSync(join(source, basename(at)), { recursive: true, force: true });
    for (const below of this.#items.keys()) if (below !== at && isWithin(below, at) && item.owner === 'volume') this.#items.delete(below);
    this.#items.set(at, item);
    return true;
  }

  /** Adds the mounts of the node below read-only directories: a read-only bind mount does not apply to them. `skip` excludes paths. */
  addReadOnlySubmounts(skip: (path: string) => boolean): void {
    for (const { mountPoint, writable } of this.#options.table) {
      if (!writable || this.#items.has(mountPoint) || skip(mountPoint)) continue;
      const [, { owner, readonly }] = this.itemOf(mountPoint);
      // a mount that this user cannot reach is not reachable for its pods
      const found = owner === 'node' && readonly ? statOrUndefined(mountPoint) : undefined;
      if (found) this.#items.set(mountPoint, { source: mountPoint, isDirectory: found.isDirectory(), readonly: true, owner: 'node' });
    }
  }

  /** Creates the mount points. Returns the fstab entries in the order of mounting, and the mounts below volumes. */
  mounts(): {
    readonly lines: readonly string[];
    readonly nested: readonly (NestedMount & { readonly volume: string; readonly at: string })[];
  } {
    const { root } = this.#options;
    const lines: string[] = [];
    const nested: (NestedMount & { readonly volume: string; readonly at: string })[] = [];
    for (const [at, item] of [...this.#items].sort(([a], [b]) => depthOf(a) - depthOf(b))) {
      const target = join(root, at);
      if (at === '/') {
        // the new root is below one of its own entries, which are mounted with what is mounted in them
        lines.push(fstabLine(item.source, root, { options: `rbind,unbindable${item.readonly ? ',ro' : ''}` }));
        continue;
      }
      const [path, parent] = this.itemOf(dirname(at));
      const options = this.#optionsOf(item);
      if (parent.owner === 'volume') {
        nested.push({ source: item.source, target, options, volume: path, at });
        continue;
      }
      if (parent.owner === 'container') createMountPoint(parent.source, join(parent.source, relative(path, at)), item.isDirectory);
      // a file of the node may have been removed in the meantime
      lines.push(fstabLine(item.source, target, { options: `${options}${item.owner === 'node' ? ',nofail' : ''}` }));
    }
    return { lines, nested };
  }

  #optionsOf({ source, readonly }: MountItem): string {
    // remounting read-only would clear the other flags of the mount, which the kernel denies in a user namespace
    return readonly ? ['rbind', 'ro', ...lockedFlags(source, this.#options.table)].join(',') : 'rbind';
  }

  /** Replaces a directory of the node by a directory of the container with the same entries. Returns false if that is not possible. */
  #mirror(path: string, own?: string): boolean {
    if (this.#items.get(path)?.owner === 'container') return true;
    const entries = entriesOf(path);
    if (!entries || entries.length > maxMirroredEntries) return false;
    const { readonly, create } = this.#options;
    const source = own ?? create('mirror', statSync(path).mode & 0o7777);
    for (const entry of entries) {
      const at = join(path, entry.name);
      const target = join(source, entry.name);
      if (entry.isSymbolicLink()) symlinkSync(readlinkSync(at), target);
      else if (entry.isDirectory()) mkdirSync(target);
      else writeFileSync(target, '');
      // a file system that this user cannot reach, or that is disconnected, cannot be mounted again
      if (!entry.isSymbolicLink() && !this.#items.has(at) && statOrUndefined(at) !== undefined)
        this.#items.set(at, { source: at, isDirectory: entry.isDirectory(), readonly: readonly && at !== '/proc', owner: 'node' });
    }
    this.#items.set(path, { source, isDirectory: true, readonly, owner: 'container' });
    return true;
  }
}

/** Returns the nearest directory on the path that exists on the node. */
function existingDirectory(path: string): string {
  return path === '/' || statOrUndefined(path)?.isDirectory() ? path : existingDirectory(dirname(path));
}

/** Returns the entries of a directory, or undefined if this user cannot list it. */
function entriesOf(path: string): readonly Dirent[] | undefined {
  try {
    return readdirSync(path, { withFileTypes: true });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EACCES' || code === 'ENOENT') return undefined;
    throw error;
  }
}
