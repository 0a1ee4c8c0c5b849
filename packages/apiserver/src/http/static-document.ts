import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { constants, gunzip, gzip } from 'node:zlib';
import type { Exchange } from './exchange.ts';
import { acceptsGzip } from '../endpoints/negotiation/negotiation.ts';
import { minGzipBytes } from './internal/body-writer.ts';

const compress = promisify(gzip);
const expand = promisify(gunzip);

/** An immutable document with its entity tag. */
export interface StaticDocument {
  readonly contentType: string;
  readonly etag: string;
  readonly bytes: Buffer;
  /** True if `bytes` contains the document compressed with gzip. */
  readonly compressed: boolean;
}

export const etagOf = (content: string | Buffer): string => `"${createHash('sha256').update(content).digest('hex').toUpperCase()}"`;

export function staticDocument(contentType: string, content: string | Buffer): StaticDocument {
  return { contentType, etag: etagOf(content), bytes: Buffer.from(content), compressed: false };
}

/** Returns a document that is kept only in compressed form, for large documents that are rarely read. */
export async function compressedDocument(contentType: string, content: Buffer, etag = etagOf(content)): Promise<StaticDocument> {
  return { contentType, etag, bytes: await compress(content, { level: constants.Z_DEFAULT_COMPRESSION }), compressed: true };
}

/** Sends a document, or 304 if the `If-None-Match` header contains its entity tag. The caller sets other headers. */
export async function sendDocument(exchange: Exchange, { contentType, etag, bytes, compressed }: StaticDocument): Promise<void> {
  exchange.setHeader('ETag', etag);
  exchange.setHeader('Vary', compressed || bytes.length > minGzipBytes ? 'Accept, Accept-Encoding' : 'Accept');
  if (exchange.headers['if-none-match']?.split(',').some((tag) => tag.trim() === etag)) {
    exchange.send(304, '');
    return;
  }
  exchange.setHeader('Content-Type', contentType);
  const gzipAccepted = acceptsGzip(exchange.headers['accept-encoding'] as string | undefined);
  if (compressed ? gzipAccepted : gzipAccepted && bytes.length > minGzipBytes) {
    exchange.setHeader('Content-Encoding', 'gzip');
    exchange.send(200, compressed ? bytes : await compress(bytes, { level: constants.Z_BEST_SPEED }));
  } else {
    exchange.send(200, compressed ? await expand(bytes) : bytes);
  }
}
