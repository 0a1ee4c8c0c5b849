import type { IncomingHttpHeaders } from 'node:http';
import { failure, type StatusError } from '@oarlock/api/status';
import type { Connection } from './tls-connection.ts';

export type HeaderValue = string | readonly string[];

/** One request and its answer, whichever version of HTTP carries them. */
export interface Exchange {
  readonly method: string;
  /** Path and query as they came. */
  readonly target: string;
  /** Names in lower case. */
  readonly headers: IncomingHttpHeaders;
  readonly connection: Connection;
  /** Aborts when the client goes away before the answer is complete. Made at first use. */
  readonly signal: AbortSignal;
  /** The answer's head is on its way: code and headers cannot change any more. */
  readonly begun: boolean;
  setHeader(name: string, value: HeaderValue): void;
  /** The whole body. @throws StatusError `RequestEntityTooLarge` beyond `limit` bytes; `BadRequest` when the client ends early */
  read(limit: number): Promise<Buffer>;
  /** Sends head and body. At most once, and not after `open`. */
  send(code: number, body: Buffer | string): void;
  /** Sends the head now and the body in pieces. */
  open(code: number): Outlet;
  /** Cuts the answer off: the client sees an error, not an end. */
  abort(): void;
}

/** The body of an answer in the making. Writes after the client has gone are dropped. */
export interface Outlet {
  /** Sends the chunks in one go. False: wait for `drained` before writing more. The chunks are not copied and must not change. */
  write(chunks: readonly Buffer[]): boolean;
  /** Resolves when there is room again, and when the client is gone. */
  drained(): Promise<void>;
  readonly closed: boolean;
  end(): void;
}

export const tooLarge = (limit: number): StatusError => failure('RequestEntityTooLarge', `Request entity too large: limit is ${limit}`);
export const cutShort = (): StatusError => failure('BadRequest', 'the client closed the connection before the whole body was read');

interface Source {
  on(event: 'data', listener: (chunk: Buffer) => void): unknown;
  on(event: 'end' | 'aborted' | 'close' | 'error', listener: () => void): unknown;
  pause(): unknown;
}

/** Collects a body, holding no more than `limit` bytes. */
export function collect(source: Source, length: string | undefined, limit: number): Promise<Buffer> {
  if (length !== undefined && Number(length) > limit) return Promise.reject(tooLarge(limit));
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    source.on('data', (chunk) => {
      size += chunk.length;
      if (size <= limit) { chunks.push(chunk); return; }
      chunks.length = 0;
      source.pause();
      reject(tooLarge(limit));
    });
    source.on('end', () => { resolve(chunks.length === 1 ? chunks[0] as Buffer : Buffer.concat(chunks)); });
    for (const event of ['aborted', 'close', 'error'] as const) source.on(event, () => { reject(cutShort()); });
  });
}
