import { createHash, type Hash } from 'node:crypto';
import { open, rm, type FileHandle } from 'node:fs/promises';
import { errorText } from '@oarlock/primitives/error-text';
import { hashFile, sizeOf, type ContentStore } from '../content/content-store.ts';
import type { Digest } from '../content/digest.ts';
import { OciError } from '../oci-error.ts';
import { diskError } from '../disk-error.ts';
import type { HttpResponse } from './http-client.ts';
import type { RegistryClient } from './registry-client.ts';

export interface DownloadRequest {
  readonly digest: Digest;
  readonly size: number;
  /** The registry that the blob is pulled from. */
  readonly source: string;
  readonly signal: AbortSignal;
  onBytes(bytesDone: number): void;
}

/**
 * Downloads a blob into the content store, and continues a partial download. The digest is computed while the bytes arrive. A blob with another digest or
 * size is removed; other failures keep the partial file, except a full disk.
 *
 * @throws OciError `InvalidContent`, `NotFound`, `Unauthorized`, `Unavailable`, `NoSpace`
 */
export async function downloadBlob(content: ContentStore, registry: RegistryClient, request: DownloadRequest): Promise<void> {
  const { digest, size, source, signal } = request;
  const file = content.partialPath(digest, source);
  const existing = await sizeOf(file);
  if (existing > size) await rm(file, { force: true });
  const handle = await open(file, existing > size || existing === 0 ? 'w' : 'r+', 0o600);
  const download = new Download(handle, request);
  try {
    if (existing > 0 && existing <= size) download.resume(existing, await hashFile(file));
    if (download.bytesDone < size || size === 0)
      await registry.blob(digest, {
        offset: () => download.bytesDone,
        read: (response, offset) => download.read(response, offset),
        bodyTimeoutMs: Number.POSITIVE_INFINITY,
        signal,
      });
    download.verify();
    await handle.datasync();
  } catch (error) {
    const failure = diskError(error);
    if (failure instanceof OciError && (failure.code === 'InvalidContent' || failure.code === 'NoSpace')) await rm(file, { force: true });
    throw failure;
  } finally {
    await handle.close();
  }
  await content.commit(file, digest, size);
}

class Download {
  readonly #handle: FileHandle;
  readonly #request: DownloadRequest;
  #hash: Hash = createHash('sha256');
  bytesDone = 0;

  constructor(handle: FileHandle, request: DownloadRequest) {
    this.#handle = handle;
    this.#request = request;
  }

  resume(bytesDone: number, hash: Hash): void {
    this.bytesDone = bytesDone;
    this.#hash = hash;
  }

  /** Writes a body at an offset. @throws OciError `Unavailable` if the body ends early, `InvalidContent` if it is too long or has another digest */
  async read({ body }: HttpResponse, offset: number): Promise<void> {
    const { size, digest, onBytes } = this.#request;
    if (offset !== this.bytesDone) {
      this.#hash = createHash('sha256');
      this.bytesDone = 0;
    }
    try {
      for await (const chunk of body) {
        const bytes = chunk as Buffer;
        if (this.bytesDone + bytes.length > size)
          throw new OciError('InvalidContent', `the registry sent more than the ${size} bytes of ${digest}`);
        this.#hash.update(bytes);
        for (let at = 0; at < bytes.length; )
          at += (await this.#handle.write(bytes, at, bytes.length - at, this.bytesDone + at)).bytesWritten;
        this.bytesDone += bytes.length;
        onBytes(this.bytesDone);
      }
    } catch (error) {
      body.destroy();
      const failure = diskError(error);
      if (failure instanceof OciError) throw failure;
      throw new OciError('Unavailable', `downloading ${digest} failed after ${this.bytesDone} of ${size} bytes: ${errorText(error)}`, {
        cause: error,
      });
    }
    if (this.bytesDone < size)
      throw new OciError('Unavailable', `downloading ${digest} failed: the response ended after ${this.bytesDone} of ${size} bytes`);
    this.#check();
  }

  verify(): void {
    if (this.bytesDone !== this.#request.size) throw new OciError('InvalidContent', `the size of ${this.#request.digest} is wrong`);
    this.#check();
  }

  #check(): void {
    const actual = `sha256:${this.#hash.copy().digest('hex')}`;
    if (actual === this.#request.digest) return;
    // the next attempt starts again
    this.bytesDone = 0;
    this.#hash = createHash('sha256');
    throw new OciError('InvalidContent', `unexpected digest of content: ${actual}, expected ${this.#request.digest}`);
  }
}
