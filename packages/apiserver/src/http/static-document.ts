import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { constants, gunzip, gzip } from 'node:zlib';
import type { Exchange } from './exchange.ts';
import { acceptsGzip } from '../negotiation/negotiation.ts';
import { minGzipBytes } from './internal/body-writer.ts';

const compress = promisify(gzip);
const expand = promisify(gunzip);

/** A document that does not change: its bytes, compressed when that is worth it, and the tag by which clients know it. */
export interface StaticDocument {
  readonly contentType: string;
  readonly etag: string;
  readonly bytes: Buffer;
  readonly compressed: boolean;
}

export const etagOf = (content: string | Buffer): string => `"${createHash('sha256').update(content).digest('hex').toUpperCase()}"`;

export function staticDocument(contentType: string, content: string | Buffer): StaticDocument {
  return { contentType, etag: etagOf(content), bytes: Buffer.from(content), compressed: false };
}

/** For large documents that are rarely asked for: only the compressed bytes are kept. */
export async function compressedDocument(contentType: string, content: Buffer, etag = etagOf(content)): Promise<StaticDocument> {
  return { contentType, etag, bytes: await compress(content, { level: constants.Z_DEFAULT_COMPRESSION }), compressed: true };
}

/** Sends a document, or 304 to a client that has it. Other headers are the caller's. */
export async function sendDocument(exchange: Exchange, { contentType, etag, bytes, compressed }: StaticDocument): Promise<void> {
  exchange.setHeader('ETag', etag);
  exchange.setHeader('Vary', compressed || bytes.length > minGzipBytes ? 'Accept, Accept-Encoding' : 'Accept');
  if (exchange.headers['if-none-match']?.split(',').some((tag) => tag.trim() === etag)) {
    exchange.send(304, '');
    return;
  }
  exchange.setHeader('Content-Type', contentType);
  const takesGzip = acceptsGzip(exchange.headers['accept-encoding'] as string | undefined);
  if (compressed ? takesGzip : takesGzip && bytes.length > minGzipBytes) {
    exchange.setHeader('Content-Encoding', 'gzip');
    exchange.send(200, compressed ? bytes : await compress(bytes, { level: constants.Z_BEST_SPEED }));
  } else {
    exchange.send(200, compressed ? await expand(bytes) : bytes);
  }
}
