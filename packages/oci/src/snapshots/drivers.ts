import { chmod, chown, lstat, mkdir } from 'node:fs/promises';
import { join, relative } from 'node:path';
import type { StoredLayer } from '../layers/layer-store.ts';
import type { TreeWorkers } from '../layers/tree-workers.ts';
import type { RootFilesystem, Snapshot, SnapshotterKind } from '../snapshotter.ts';
import type { OverlayWhiteouts } from './overlay-whiteouts.ts';

export interface DriverSnapshot {
  readonly kind: Snapshot['kind'];
  /** Directory of the snapshot. */
  readonly folder: string;
  /** The layers of the image, the lowest first. */
  readonly layers: readonly StoredLayer[];
}

/** How a snapshotter makes roots from layers. */
export interface SnapshotDriver {
  readonly kind: SnapshotterKind;
  /** Fills the existing directory of a snapshot. */
  create(snapshot: DriverSnapshot, signal: AbortSignal): Promise<void>;
  root(snapshot: DriverSnapshot): RootFilesystem;
  /** Returns the directory whose usage is that of the snapshot. */
  usageFolder(folder: string): string;
}

export interface OverlayDriverOptions {
  readonly kind: 'overlayfs' | 'fuse-overlayfs';
  /** Directory of the store, to which paths in mount options are relative. */
  readonly directory: string;
  readonly whiteouts: OverlayWhiteouts;
  readonly privileged: boolean;
  /** Options for every mount, such as `userxattr`. */
  readonly mountOptions: readonly string[];
}

/** Mounts the layers with overlayfs; the writable layer of a container is `files` in the snapshot's directory. */
export class OverlayDriver implements SnapshotDriver {
  readonly #options: OverlayDriverOptions;

  constructor(options: OverlayDriverOptions) {
    this.#options = options;
  }
  get kind(): SnapshotterKind {
    return this.#options.kind;
  }

  async create({ folder, layers }: DriverSnapshot): Promise<void> {
    await this.#options.whiteouts.write(layers);
    for (const name of ['files', 'work', 'empty']) await mkdir(join(folder, name), { mode: 0o755 });
    const top = layers.at(-1);
    if (!top) return;
    // the root of the mount has the mode and owner of the upper directory
    const { mode, uid, gid } = await lstat(top.files);
    if (this.#options.privileged) await chown(join(folder, 'files'), uid, gid);
    await chmod(join(folder, 'files'), mode & 0o7777);
  }

  root({ kind, folder, layers }: DriverSnapshot): RootFilesystem {
    const { directory, mountOptions } = this.#options;
    const empty = join(folder, 'empty');
    const [first] = layers;
    // overlayfs needs two lower directories without an upper one
    if (kind === 'view' && layers.length < 2) return { path: first?.files ?? empty };
    const below = layers.length === 0 ? [empty] : layers.map(({ files }) => files).reverse();
    const lower = `lowerdir=${below.map((path) => relative(directory, path)).join(':')}`;
    const upper =
      kind === 'view'
        ? ['ro']
        : [`upperdir=${relative(directory, join(folder, 'files'))}`, `workdir=${relative(directory, join(folder, 'work'))}`];
    return {
      mount: {
        type: this.#options.kind === 'overlayfs' ? 'overlay' : 'fuse-overlayfs',
        options: [...mountOptions, ...upper, lower],
        directory,
      },
    };
  }

  usageFolder(folder: string): string {
    return join(folder, 'files');
  }
}

/** Copies the files of all layers, as reflinks where the file system has them. Views share the layers' files by hard links. */
export class CopyDriver implements SnapshotDriver {
  readonly kind = 'copy';
  readonly #workers: TreeWorkers;
  readonly #privileged: boolean;

  constructor(workers: TreeWorkers, privileged: boolean) {
    this.#workers = workers;
    this.#privileged = privileged;
  }

  async create({ kind, folder, layers }: DriverSnapshot, signal: AbortSignal): Promise<void> {
    await this.#workers.run(
      'copy',
      {
        layers: layers.map(({ files, whiteouts, opaques, xattrs }) => ({ files, whiteouts, opaques, xattrs })),
        target: join(folder, 'files'),
        staging: join(folder, 'staging'),
        shareFiles: kind === 'view',
        privileged: this.#privileged,
      },
      signal,
    );
  }

  root({ folder }: DriverSnapshot): RootFilesystem {
    return { path: join(folder, 'files') };
  }
  usageFolder(folder: string): string {
    return join(folder, 'files');
  }
}
