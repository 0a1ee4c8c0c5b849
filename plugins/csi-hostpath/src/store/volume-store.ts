import { mkdir, open, readdir, readFile, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { writeAtomic } from '@oarlock/primitives/os/atomic-file';
import type { VolumeContentSource } from '@oarlock/csi/csi-types';

export interface StoredVolume {
  readonly kind: 'volume';
  readonly id: string;
  /** The name in the CreateVolume request. Calls with the same name return the same volume. */
  readonly name: string;
  readonly bytes: number;
  readonly block: boolean;
  readonly parameters: Readonly<Record<string, string>>;
  readonly source?: VolumeContentSource;
  /** The parameters that ControllerModifyVolume has changed. */
  readonly mutable?: Readonly<Record<string, string>>;
  /** The attachments of the volume, keyed by node id. */
  readonly attached?: Readonly<Record<string, Attachment>>;
  /** True for an inline volume, which NodeUnpublishVolume deletes. */
  readonly ephemeral?: boolean;
}
export interface Attachment {
  readonly readonly: boolean;
  readonly mode: string;
}
export interface StoredSnapshot {
  readonly kind: 'snapshot';
  readonly id: string;
  readonly name: string;
  readonly bytes: number;
  readonly block: boolean;
  readonly volumeId: string;
  readonly createdSeconds: number;
}
export type StoredObject = StoredVolume | StoredSnapshot;

/** Stores volumes and snapshots with one state file each. The state file is written after the content, so that a crash loses no acknowledged call. */
export class VolumeStore {
  readonly #directory: string;
  readonly #volumes = new Map<string, StoredVolume>();
  readonly #snapshots = new Map<string, StoredSnapshot>();
  readonly #names = new Map<string, string>();

  private constructor(directory: string) {
    this.#directory = directory;
  }

  /** Opens a store, and removes content without a state file, which calls left that were not acknowledged. */
  static async open(directory: string, { shared = false }: { readonly shared?: boolean } = {}): Promise<VolumeStore> {
    const store = new VolumeStore(directory);
    for (const part of ['state', 'content', 'published', 'staged']) await mkdir(join(directory, part), { recursive: true, mode: 0o700 });
    for (const file of await readdir(join(directory, 'state'))) {
      const path = join(directory, 'state', file);
      if (file.endsWith('.json')) store.#index(JSON.parse(await readFile(path, 'utf8')) as StoredObject);
      else if (!shared) await rm(path);
    }
    // in a shared directory, another process may be creating this content
    if (shared) return store;
    for (const id of await readdir(join(directory, 'content')))
      if (!store.#volumes.has(id) && !store.#snapshots.has(id)) await rm(join(directory, 'content', id), { recursive: true });
    return store;
  }

  volume(id: string): StoredVolume | undefined {
    return this.#volumes.get(id);
  }
  /** Reads a volume from disk, because another process may have written it. Returns undefined if the volume does not exist. */
  async readVolume(id: string): Promise<StoredVolume | undefined> {
    if (id !== basename(id)) return undefined;
    const text = await readFile(this.#file(id), 'utf8').catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error;
      return undefined;
    });
    const stored = text === undefined ? undefined : (JSON.parse(text) as StoredObject);
    return stored?.kind === 'volume' ? stored : undefined;
  }
  snapshot(id: string): StoredSnapshot | undefined {
    return this.#snapshots.get(id);
  }
  byName(kind: StoredObject['kind'], name: string): StoredObject | undefined {
    const id = this.#names.get(`${kind} ${name}`);
    return id === undefined ? undefined : (this.#volumes.get(id) ?? this.#snapshots.get(id));
  }
  /** Returns all volumes, sorted by id. */
  volumes(): readonly StoredVolume[] {
    return [...this.#volumes.values()].sort((one, other) => (one.id < other.id ? -1 : 1));
  }
  snapshots(): readonly StoredSnapshot[] {
    return [...this.#snapshots.values()].sort((one, other) => (one.id < other.id ? -1 : 1));
  }
  get usedBytes(): number {
    let sum = 0;
    for (const { bytes } of this.#volumes.values()) sum += bytes;
    return sum;
  }
  get directory(): string {
    return this.#directory;
  }

  /** Returns the path of a volume's content: a file for a block device, otherwise a directory. */
  content(id: string): string {
    return join(this.#directory, 'content', id);
  }

  async put(stored: StoredObject): Promise<void> {
    const path = this.#file(stored.id);
    await writeAtomic(path, JSON.stringify(stored), { temporary: `${path}.next`, sync: true });
    await this.#syncDirectory();
    this.#index(stored);
  }

  async remove({ kind, id, name }: StoredObject): Promise<void> {
    await rm(this.#file(id), { force: true });
    for (const part of ['published', 'staged']) await rm(join(this.#directory, part, `${id}.json`), { force: true });
    await this.#syncDirectory();
    this.#volumes.delete(id);
    this.#snapshots.delete(id);
    this.#names.delete(`${kind} ${name}`);
    await rm(this.content(id), { recursive: true, force: true });
  }

  #file(id: string): string {
    return join(this.#directory, 'state', `${id}.json`);
  }
  async #syncDirectory(): Promise<void> {
    const directory = await open(join(this.#directory, 'state'), 'r');
    try {
      await directory.sync();
    } finally {
      await directory.close();
    }
  }
  #index(stored: StoredObject): void {
    if (stored.kind === 'volume') this.#volumes.set(stored.id, stored);
    else this.#snapshots.set(stored.id, stored);
    this.#names.set(`${stored.kind} ${stored.name}`, stored.id);
  }
}
