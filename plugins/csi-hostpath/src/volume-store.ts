import { mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { ContentSource } from '@oarlock/csi/csi-types';

export interface StoredVolume {
  readonly kind: 'volume';
  readonly id: string;
  /** As the caller named it: the same name is the same volume. */
  readonly name: string;
  readonly bytes: number;
  readonly block: boolean;
  readonly parameters: Readonly<Record<string, string>>;
  readonly source?: ContentSource;
  /** What ControllerModifyVolume changes. */
  readonly mutable?: Readonly<Record<string, string>>;
  /** By node: how it is attached there. */
  readonly attached?: Readonly<Record<string, Attached>>;
  /** It goes with the pod that it was made for. */
  readonly ephemeral?: boolean;
}
export interface Attached {
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
export type Stored = StoredVolume | StoredSnapshot;

/** What there is, a file each, so that a kill at any moment loses nothing that was acknowledged: a file is there when its content is. */
export class VolumeStore {
  readonly #directory: string;
  readonly #volumes = new Map<string, StoredVolume>();
  readonly #snapshots = new Map<string, StoredSnapshot>();
  readonly #names = new Map<string, string>();

  private constructor(directory: string) {
    this.#directory = directory;
  }

  /** Reads what is there, and removes content that belongs to nothing: of what was begun and not acknowledged. */
  static async open(directory: string, { shared = false }: { readonly shared?: boolean } = {}): Promise<VolumeStore> {
    const store = new VolumeStore(directory);
    for (const part of ['state', 'content', 'published', 'staged']) await mkdir(join(directory, part), { recursive: true, mode: 0o700 });
    for (const file of await readdir(join(directory, 'state'))) {
      const path = join(directory, 'state', file);
      if (file.endsWith('.json')) store.#remember(JSON.parse(await readFile(path, 'utf8')) as Stored);
      else if (!shared) await rm(path);
    }
    // what is nobody's here may be another's who has just begun it
    if (shared) return store;
    for (const id of await readdir(join(directory, 'content')))
      if (!store.#volumes.has(id) && !store.#snapshots.has(id)) await rm(join(directory, 'content', id), { recursive: true });
    return store;
  }

  volume(id: string): StoredVolume | undefined {
    return this.#volumes.get(id);
  }
  /** As it is on the disk, where another process may have written it. */
  async fresh(id: string): Promise<StoredVolume | undefined> {
    if (id !== basename(id)) return undefined;
    const text = await readFile(this.#file(id), 'utf8').catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error;
      return undefined;
    });
    const stored = text === undefined ? undefined : (JSON.parse(text) as Stored);
    return stored?.kind === 'volume' ? stored : undefined;
  }
  snapshot(id: string): StoredSnapshot | undefined {
    return this.#snapshots.get(id);
  }
  named(kind: Stored['kind'], name: string): Stored | undefined {
    const id = this.#names.get(`${kind} ${name}`);
    return id === undefined ? undefined : (this.#volumes.get(id) ?? this.#snapshots.get(id));
  }
  /** In the order of their ids. */
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

  /** A directory, or a file where the content is a block device's. */
  content(id: string): string {
    return join(this.#directory, 'content', id);
  }

  async put(stored: Stored): Promise<void> {
    const path = this.#file(stored.id);
    const file = await open(`${path}.next`, 'w', 0o600);
    try {
      await file.writeFile(JSON.stringify(stored));
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(`${path}.next`, path);
    await this.#sync();
    this.#remember(stored);
  }

  async remove({ kind, id, name }: Stored): Promise<void> {
    await rm(this.#file(id), { force: true });
    for (const part of ['published', 'staged']) await rm(join(this.#directory, part, `${id}.json`), { force: true });
    await this.#sync();
    this.#volumes.delete(id);
    this.#snapshots.delete(id);
    this.#names.delete(`${kind} ${name}`);
    await rm(this.content(id), { recursive: true, force: true });
  }

  #file(id: string): string {
    return join(this.#directory, 'state', `${id}.json`);
  }
  async #sync(): Promise<void> {
    const directory = await open(join(this.#directory, 'state'), 'r');
    try {
      await directory.sync();
    } finally {
      await directory.close();
    }
  }
  #remember(stored: Stored): void {
    if (stored.kind === 'volume') this.#volumes.set(stored.id, stored);
    else this.#snapshots.set(stored.id, stored);
    this.#names.set(`${stored.kind} ${stored.name}`, stored.id);
  }
}
