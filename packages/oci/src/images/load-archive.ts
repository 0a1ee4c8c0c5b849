import { createHash } from 'node:crypto';
import { closeSync, openSync, writeSync } from 'node:fs';
import { readFile, rm } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { decompressed, decompressionError } from '../archive/decompression.ts';
import type { TarEntry } from '../archive/tar-header.ts';
import { TarParser, type TarHandler } from '../archive/tar-parser.ts';
import { displayPath } from '../archive/byte-path.ts';
import { diskError } from '../disk-error.ts';
import { pathComponents } from '../layers/layer-tree.ts';
import type { ContentStore } from '../content/content-store.ts';
import type { Digest } from '../content/digest.ts';
import { OciError } from '../oci-error.ts';

const maxFiles = 10_000;
const maxBytes = 256 * 1024 ** 3;
const maxLinks = 10;

export interface SpooledFile {
  readonly file: string;
  readonly digest: Digest;
  readonly size: number;
}

/** The files of an archive, written to the content store's directory for partial content while the archive is read. */
export class SpooledArchive {
  readonly #files = new Map<string, SpooledFile>();
  readonly #links = new Map<string, string>();

  /** @throws OciError `InvalidContent`, `TooLarge`, `NoSpace` */
  static async read(archive: Readable, content: ContentStore, signal: AbortSignal): Promise<SpooledArchive> {
    const spool = new SpooledArchive();
    const writer = new SpoolWriter(content, spool.#files, spool.#links);
    const abort = () => archive.destroy(signal.reason instanceof Error ? signal.reason : new Error('aborted'));
    signal.addEventListener('abort', abort, { once: true });
    try {
      signal.throwIfAborted();
      const parser = new TarParser(writer);
      for await (const chunk of decompressed(archive as AsyncIterable<Buffer>)) parser.push(chunk);
      parser.end();
      return spool;
    } catch (error) {
      writer.close();
      await spool.remove();
      signal.throwIfAborted();
      throw diskError(decompressionError(error));
    } finally {
      signal.removeEventListener('abort', abort);
      archive.destroy();
    }
  }

  /** Returns a file by its path in the archive; symbolic links between files, which older versions of docker write, are followed. */
  get(path: string): SpooledFile | undefined {
    let at = pathComponents(path).join('/');
    for (let links = 0; links < maxLinks; links += 1) {
      const target = this.#links.get(at);
      if (target === undefined) return this.#files.get(at);
      at = target;
    }
    return undefined;
  }

  /** Returns a small file. @throws OciError `TooLarge` */
  async bytes(path: string, limit: number): Promise<Buffer | undefined> {
    const found = this.get(path);
    if (!found) return undefined;
    if (found.size > limit) throw new OciError('TooLarge', `${path} has more than ${limit} bytes`);
    return readFile(found.file);
  }

  /** Makes a file a blob of the store. */
  async commit({ digest, file, size }: SpooledFile, content: ContentStore): Promise<void> {
    if (!content.has(digest)) await content.commit(file, digest, size);
  }

  /** Removes the files that did not become blobs. */
  async remove(): Promise<void> {
    for (const { file } of this.#files.values()) await rm(file, { force: true });
  }
}

class SpoolWriter implements TarHandler {
  readonly #content: ContentStore;
  readonly #files: Map<string, SpooledFile>;
  readonly #links: Map<string, string>;
  #open:
    | {
        readonly path: string;
        readonly file: string;
        readonly descriptor: number;
        readonly hash: ReturnType<typeof createHash>;
        size: number;
      }
    | undefined;
  #total = 0;

  constructor(content: ContentStore, files: Map<string, SpooledFile>, links: Map<string, string>) {
    this.#content = content;
    this.#files = files;
    this.#links = links;
  }

  entry(entry: TarEntry): void {
    if (this.#files.size + this.#links.size >= maxFiles) throw new OciError('TooLarge', `the archive has more than ${maxFiles} files`);
    const path = pathComponents(entry.path).join('/');
    if (entry.type === 'symlink' || entry.type === 'link') {
      const base = entry.type === 'symlink' ? path.split('/').slice(0, -1).join('/') : '';
      this.#links.set(path, pathComponents(`${base}/${entry.linkPath}`).join('/'));
    } else if (entry.type === 'file') {
      if (this.#files.has(path)) throw new OciError('InvalidContent', `the archive has ${displayPath(path)} twice`);
      const file = this.#content.temporaryPath();
      this.#open = { path, file, descriptor: openSync(file, 'wx', 0o600), hash: createHash('sha256'), size: 0 };
      this.#files.set(path, { file, digest: '', size: 0 });
    } else if (entry.type !== 'directory') throw new OciError('InvalidContent', `the archive has the ${entry.type} ${displayPath(path)}`);
  }

  data(chunk: Buffer, offset: number): void {
    const open = this.#open;
    if (!open) return;
    if (offset !== open.size) throw new OciError('InvalidContent', 'sparse files are not supported in archives of images');
    this.#total += chunk.length;
    if (this.#total > maxBytes) throw new OciError('TooLarge', `the archive has more than ${maxBytes} bytes`);
    for (let at = 0; at < chunk.length; ) at += writeSync(open.descriptor, chunk, at);
    open.hash.update(chunk);
    open.size += chunk.length;
  }

  endOfEntry(): void {
    const open = this.#open;
    if (!open) return;
    const digest = `sha256:${open.hash.digest('hex')}`;
    this.#files.set(open.path, { file: open.file, digest, size: open.size });
    this.close();
    const [, named] = /(?:^|\/)blobs\/sha256\/([a-f0-9]{64})$/.exec(open.path) ?? [];
    if (named !== undefined && digest !== `sha256:${named}`)
      throw new OciError('InvalidContent', `unexpected digest of content: ${digest}, expected sha256:${named}`);
  }

  close(): void {
    if (this.#open) closeSync(this.#open.descriptor);
    this.#open = undefined;
  }
}
