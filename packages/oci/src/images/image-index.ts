import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { writeAtomic } from '@oarlock/primitives/os/atomic-file';
import type { Logger } from '@oarlock/primitives/logger';
import { diskError } from '../disk-error.ts';
import type { Digest } from '../content/digest.ts';
import { OciError } from '../oci-error.ts';

/** One image as `images.json` has it. */
export interface IndexEntry {
  /** Digest of the config. */
  readonly id: Digest;
  readonly manifestDigest: Digest;
  /** Digests of all manifests and indexes that led to the image; their blobs are kept. */
  readonly blobs: readonly Digest[];
  readonly chainIds: readonly Digest[];
  readonly sizeBytes: number;
  /** Normalized names with tags. */
  readonly tags: readonly string[];
  /** Normalized names with digests. */
  readonly digests: readonly string[];
  readonly pinned: boolean;
}

/** The names of images, kept in one file that is replaced as a whole. */
export class ImageIndex {
  readonly #file: string;
  #entries: ReadonlyMap<Digest, IndexEntry> = new Map();
  #names: ReadonlyMap<string, Digest> = new Map();

  private constructor(directory: string) {
    this.#file = join(directory, 'images.json');
  }

  /** @throws OciError `InvalidContent` if the file is damaged */
  static async open(directory: string, log: Logger): Promise<ImageIndex> {
    await mkdir(directory, { recursive: true, mode: 0o711 });
    const index = new ImageIndex(directory);
    try {
      const { images } = JSON.parse(await readFile(index.#file, 'utf8')) as { readonly images: readonly IndexEntry[] };
      index.#replace(new Map(images.map((entry) => [entry.id, entry])));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return index;
      log.error({ err: error, file: index.#file }, 'the list of images is damaged');
      throw new OciError('InvalidContent', `${index.#file} is damaged; remove the file to pull the images again`, { cause: error });
    }
    return index;
  }

  list(): readonly IndexEntry[] {
    return [...this.#entries.values()];
  }
  get(id: Digest): IndexEntry | undefined {
    return this.#entries.get(id);
  }
  /** Returns the id that has a name with a tag or digest. */
  idOf(name: string): Digest | undefined {
    return this.#names.get(name);
  }

  /** Replaces entries and moves their tags from other images. The change is on the disk when the promise resolves. */
  async update(changes: readonly IndexEntry[], removed: readonly Digest[] = []): Promise<void> {
    const entries = new Map(this.#entries);
    for (const id of removed) entries.delete(id);
    for (const change of changes) {
      for (const tag of change.tags) {
        const owner = entries.get(this.#names.get(tag) ?? '');
        if (owner && owner.id !== change.id) entries.set(owner.id, { ...owner, tags: owner.tags.filter((each) => each !== tag) });
      }
      entries.set(change.id, change);
    }
    const text = JSON.stringify({ version: 1, images: [...entries.values()] });
    try {
      await writeAtomic(this.#file, text, { sync: true });
    } catch (error) {
      throw diskError(error);
    }
    this.#replace(entries);
  }

  #replace(entries: ReadonlyMap<Digest, IndexEntry>): void {
    this.#entries = entries;
    this.#names = new Map(
      [...entries.values()].flatMap(({ id, tags, digests }) => [...tags, ...digests].map((name) => [name, id] as const)),
    );
  }
}
