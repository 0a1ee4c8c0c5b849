import { createReadStream } from 'node:fs';
import { mkdir, open, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { createHash, randomBytes, type Hash } from 'node:crypto';
import { join } from 'node:path';
import { OciError } from '../oci-error.ts';
import { diskError } from '../disk-error.ts';
import { digestOf, hexOf, isDigest, type Digest } from './digest.ts';

export interface StoredBlob {
  readonly digest: Digest;
  readonly size: number;
}

export interface PartialBlob {
  readonly digest: Digest;
  readonly file: string;
}

/** Returns the digest of a partial download by the name of its file; undefined for other files. */
function partialDigest(name: string): Digest | undefined {
  const [, hex] = /^([0-9a-f]{64})\.[0-9a-f]{16}$/.exec(name) ?? [];
  const digest = `sha256:${hex}`;
  return isDigest(digest) ? digest : undefined;
}

/** Verified blobs by digest in `blobs/sha256`, and partial downloads in `partial`. A blob appears by a rename after it is complete and on the disk. */
export class ContentStore {
  readonly #blobs: string;
  readonly #partial: string;
  readonly #sizes = new Map<Digest, number>();

  private constructor(directory: string) {
    this.#blobs = join(directory, 'blobs', 'sha256');
    this.#partial = join(directory, 'partial');
  }

  static async open(directory: string): Promise<ContentStore> {
    const store = new ContentStore(directory);
    await mkdir(store.#blobs, { recursive: true, mode: 0o700 });
    await mkdir(store.#partial, { recursive: true, mode: 0o700 });
    for (const name of await readdir(store.#blobs)) {
      const digest = `sha256:${name}`;
      if (isDigest(digest)) store.#sizes.set(digest, (await stat(join(store.#blobs, name))).size);
      else await rm(join(store.#blobs, name), { recursive: true, force: true });
    }
    // uploads under random names cannot be resumed
    for (const name of await readdir(store.#partial))
      if (partialDigest(name) === undefined) await rm(join(store.#partial, name), { force: true });
    return store;
  }

  has(digest: Digest): boolean {
    return this.#sizes.has(digest);
  }
  path(digest: Digest): string {
    return join(this.#blobs, hexOf(digest));
  }
  /** Returns the path of what a registry has sent of a blob. Another one does not continue it: its bytes may be wrong. */
  partialPath(digest: Digest, registry: string): string {
    return join(this.#partial, `${hexOf(digest)}.${hexOf(digestOf(Buffer.from(registry))).slice(0, 16)}`);
  }
  /** Returns an absent path for content whose digest is not known yet; a restart removes what remains there. */
  temporaryPath(): string {
    return join(this.#partial, `new-${randomBytes(8).toString('hex')}`);
  }
  blobs(): readonly StoredBlob[] {
    return [...this.#sizes].map(([digest, size]) => ({ digest, size }));
  }
  /** Returns the partial downloads. */
  async partials(): Promise<readonly PartialBlob[]> {
    return (await readdir(this.#partial)).flatMap((name) => {
      const digest = partialDigest(name);
      return digest === undefined ? [] : [{ digest, file: join(this.#partial, name) }];
    });
  }

  /** Returns a blob in memory. @throws OciError `NotFound`, `InvalidContent` if the file was changed */
  async read(digest: Digest, maxBytes: number): Promise<Buffer> {
    const size = this.#sizes.get(digest);
    if (size === undefined) throw new OciError('NotFound', `content ${digest}: not found`);
    if (size > maxBytes) throw new OciError('TooLarge', `content ${digest} has ${size} bytes; the limit is ${maxBytes}`);
    const bytes = await readFile(this.path(digest));
    if (digestOf(bytes) !== digest) throw new OciError('InvalidContent', `content ${digest}: the file has another digest`);
    return bytes;
  }

  /** Stores bytes under their digest. @throws OciError `NoSpace` */
  async write(bytes: Buffer): Promise<Digest> {
    const digest = digestOf(bytes);
    if (this.has(digest)) return digest;
    const temporary = this.temporaryPath();
    try {
      const handle = await open(temporary, 'wx', 0o600);
      try {
        await handle.writeFile(bytes);
        await handle.sync();
      } finally {
        await handle.close();
      }
      await this.commit(temporary, digest, bytes.length);
    } catch (error) {
      await rm(temporary, { force: true });
      throw diskError(error);
    }
    return digest;
  }

  /** Makes a verified file a blob. */
  async commit(file: string, digest: Digest, size: number): Promise<void> {
    await rename(file, this.path(digest));
    this.#sizes.set(digest, size);
  }

  /** Removes a blob, and returns the bytes that were freed. */
  async remove(digest: Digest): Promise<number> {
    const size = this.#sizes.get(digest);
    this.#sizes.delete(digest);
    await rm(this.path(digest), { force: true });
    return size ?? 0;
  }

  /** Removes a partial download, and returns the bytes that were freed. */
  async removePartial({ file }: PartialBlob): Promise<number> {
    const size = await sizeOf(file);
    await rm(file, { force: true });
    return size;
  }
}

/** Returns the size of a file; 0 if it does not exist. */
export async function sizeOf(file: string): Promise<number> {
  try {
    return (await stat(file)).size;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 0;
    throw error;
  }
}

/** Returns a hash that has the content of a file. */
export async function hashFile(file: string): Promise<Hash> {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(file, { highWaterMark: 1024 * 1024 })) hash.update(chunk as Buffer);
  return hash;
}
