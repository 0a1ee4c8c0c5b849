import { open } from 'node:fs/promises';
import type { Clock } from '@oarlock/primitives/clock';
import { errorText } from '@oarlock/primitives/error-text';
import { elementOf, elementsOf, S3Error } from './s3-error.ts';
import { S3Transport, type S3Settings } from './s3-transport.ts';

export interface S3Object {
  readonly key: string;
  readonly bytes: number;
  /** RFC 3339. */
  readonly modifiedAt: string;
}

/** Files up to this size are uploaded by one request, and others in parts of it: 10,000 parts are 156 GiB. One part is in memory at a time. */
const defaultPartBytes = 16 * 1024 * 1024;
/** Bounds of a listing: a store has 1,000 keys on a page, keys of at most 1,024 bytes, and decides how many pages there are. */
const maxPages = 1000;
const maxObjects = 100_000;
const maxListBytes = 64 * 1024 * 1024;
const maxKeyBytes = 1024;

/** The objects of a bucket of an S3-compatible store. */
export class S3Bucket {
  readonly #transport: S3Transport;
  readonly #partBytes: number;

  constructor(settings: S3Settings, { clock, partBytes = defaultPartBytes }: { readonly clock: Clock; readonly partBytes?: number }) {
    this.#transport = new S3Transport(settings, clock);
    this.#partBytes = partBytes;
  }

  describe(key: string): string {
    return this.#transport.describe(key);
  }

  /** Uploads a file. The object appears when it is complete. @throws S3Error */
  async upload(key: string, path: string, signal: AbortSignal): Promise<void> {
    const file = await open(path, 'r');
    try {
      const { size } = await file.stat();
      const read = async (offset: number): Promise<Buffer> => {
        const bytes = Buffer.alloc(Math.min(this.#partBytes, size - offset));
        for (let at = 0; at < bytes.length; ) {
          const { bytesRead } = await file.read(bytes, at, bytes.length - at, offset + at);
          if (bytesRead === 0) throw new Error(`${path} became shorter while it was uploaded`);
          at += bytesRead;
        }
        return bytes;
      };
      if (size <= this.#partBytes) await this.#transport.text({ method: 'PUT', key, body: await read(0), signal });
      else await this.#uploadParts(key, { size, read, signal });
    } finally {
      await file.close();
    }
  }

  /** Yields the content of an object. @throws S3Error `NotFound` */
  async *download(key: string, signal: AbortSignal): AsyncGenerator<Buffer> {
    const response = await this.#transport.stream({ method: 'GET', key, signal });
    try {
      for await (const chunk of response as AsyncIterable<Buffer>) yield chunk;
    } catch (error) {
      throw new S3Error('Unavailable', `the download of ${this.describe(key)} ended early: ${errorText(error)}`, { cause: error });
    } finally {
      response.destroy();
    }
  }

  /** Returns the objects whose keys start with a prefix, in the order of their keys. @throws S3Error `Rejected` if the listing exceeds a bound */
  async list(prefix: string, signal: AbortSignal): Promise<readonly S3Object[]> {
    const objects: S3Object[] = [];
    let token: string | undefined;
    let bytes = 0;
    for (let page = 0; page < maxPages; page += 1) {
      const query = {
        'list-type': '2',
        'encoding-type': 'url',
        prefix,
        ...(token !== undefined && { 'continuation-token': token }),
      };
      const { body } = await this.#transport.text({ method: 'GET', key: '', query, signal });
      bytes += body.length;
      if (bytes > maxListBytes) throw this.#tooLarge(prefix, `more than ${maxListBytes} bytes`);
      for (const content of elementsOf(body, 'Contents')) {
        if (objects.length === maxObjects) throw this.#tooLarge(prefix, `more than ${maxObjects} objects`);
        objects.push(this.#objectOf(content));
      }
      const next = elementOf(body, 'NextContinuationToken');
      if (elementOf(body, 'IsTruncated') !== 'true' || next === undefined) return objects;
      if (next === token) throw new S3Error('Rejected', `the list of ${this.describe(prefix)} repeats a page`);
      token = next;
    }
    throw this.#tooLarge(prefix, `more than ${maxPages} pages`);
  }

  #tooLarge(prefix: string, what: string): S3Error {
    return new S3Error('Rejected', `the list of ${this.describe(prefix)} has ${what}: use a bucket or prefix for the snapshots only`);
  }

  #objectOf(content: string): S3Object {
    const encoded = (elementOf(content, 'Key') ?? '').replaceAll('+', ' ');
    let key: string;
    try {
      key = decodeURIComponent(encoded);
    } catch (cause) {
      throw new S3Error('Rejected', 'the store listed a key that is not URL-encoded', { cause });
    }
    if (Buffer.byteLength(key) > maxKeyBytes) throw new S3Error('Rejected', `the store listed a key of more than ${maxKeyBytes} bytes`);
    return { key, bytes: Number(elementOf(content, 'Size') ?? 0), modifiedAt: elementOf(content, 'LastModified') ?? '' };
  }

  /** Deletes an object; does nothing if there is none. */
  async remove(key: string, signal: AbortSignal): Promise<void> {
    await this.#transport.text({ method: 'DELETE', key, signal });
  }

  async #uploadParts(key: string, { size, read, signal }: PartsOfFile): Promise<void> {
    const { body } = await this.#transport.text({ method: 'POST', key, query: { uploads: '' }, signal });
    const uploadId = elementOf(body, 'UploadId');
    if (uploadId === undefined) throw new S3Error('Rejected', `the store started no upload of ${this.describe(key)}`);
    try {
      const parts: string[] = [];
      for (let offset = 0; offset < size; offset += this.#partBytes) {
        const query = { partNumber: String(parts.length + 1), uploadId };
        const { headers } = await this.#transport.text({ method: 'PUT', key, query, body: await read(offset), signal });
        const tag = escapeText(headers.etag ?? '');
        parts.push(`<Part><PartNumber>${parts.length + 1}</PartNumber><ETag>${tag}</ETag></Part>`);
      }
      const list = Buffer.from(`<CompleteMultipartUpload>${parts.join('')}</CompleteMultipartUpload>`);
      const done = await this.#transport.text({ method: 'POST', key, query: { uploadId }, body: list, signal });
      // the store may report a failure after it has sent the status 200
      if (done.body.includes('<Error>'))
        throw new S3Error('Unavailable', `the upload of ${this.describe(key)} failed: ${elementOf(done.body, 'Code') ?? 'unknown'}`);
    } catch (error) {
      await this.#abortUpload(key, uploadId, error);
      throw error;
    }
  }

  /** Deletes the parts of a failed upload, which would take space. A failure is part of the first error. */
  async #abortUpload(key: string, uploadId: string, error: unknown): Promise<void> {
    try {
      // not the signal of the upload, which may have aborted
      await this.#transport.text({ method: 'DELETE', key, query: { uploadId }, signal: AbortSignal.timeout(10_000) });
    } catch (second) {
      if (error instanceof Error) error.message += `; its parts could not be deleted either: ${errorText(second)}`;
    }
  }
}

interface PartsOfFile {
  readonly size: number;
  read(offset: number): Promise<Buffer>;
  readonly signal: AbortSignal;
}

const escapeText = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
