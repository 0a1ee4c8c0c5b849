import type { Duplex } from 'node:stream';
import type { IncomingHttpHeaders } from 'node:http';
import type { Readable } from 'node:stream';
import { failure, type StatusError } from '@oarlock/api/status';
import type { ClientConnection } from './client-certificates.ts';
import type { BodyReservation } from './request-body-memory.ts';

export type HeaderValue = string | readonly string[];

/** One request and its answer, whichever version of HTTP carries them. */
export interface Exchange {
  readonly method: string;
  /** Path and query as they came. */
  readonly target: string;
  /** Names in lower case. */
  readonly headers: IncomingHttpHeaders;
  readonly connection: ClientConnection;
  /** Aborts when the client goes away before the answer is complete, and when `cancel` is called. Made at first use. */
  readonly signal: AbortSignal;
  /** `sent`: the answer is complete. `open`: its head is on its way and its body is being written. */
  readonly state: 'fresh' | 'open' | 'sent';
  /** Of the answer; 0 while it is `fresh`. */
  readonly statusCode: number;
  /** Bytes of the answer's body that were given to the connection so far. */
  readonly bytesSent: number;
  /** Aborts the signal: nobody waits for the answer any more. */
  cancel(reason: unknown): void;
  setHeader(name: string, value: HeaderValue): void;
  /** The body as it comes, for who passes it on; undefined when there is none. To be taken at most once, and not with `read`. */
  requestStream(): Readable | undefined;
  /**
   * Returns the whole body, which counts towards the bound of all bodies until `releaseBody`.
   * @throws StatusError `RequestEntityTooLarge` beyond `limit` bytes; `TooManyRequests` beyond the bound of all bodies; `BadRequest` if the
   * client ends early
   */
  readBody(limit: number): Promise<Buffer>;
  /** Ends the accounting of the body. Called at the end of the request. */
  releaseBody(): void;
  /** Sends head and body, unless an answer has begun already. */
  send(code: number, body: Buffer | string): void;
  /** Sends the head now and the body in pieces. Closed from the start when an answer has begun already. */
  openStream(code: number): ResponseStream;
  /** Cuts the answer off: the client sees an error, not an end. */
  abort(): void;
}

/** The body of an answer in the making. Writes after the client has gone are dropped. */
export interface ResponseStream {
  /** Sends the chunks in one go. False: wait for `drained` before writing more. The chunks are not copied and must not change. */
  write(chunks: readonly Buffer[]): boolean;
  /** True if each chunk is delivered as one message, so that chunks must not be split. Absent: false. */
  readonly isMessageBased?: boolean;
  /** Resolves when there is room again, and when the client is gone. */
  waitForDrain(): Promise<void>;
  readonly closed: boolean;
  end(): void;
}

export const byteLength = (chunks: readonly Buffer[]): number => {
  let bytes = 0;
  for (const { length } of chunks) bytes += length;
  return bytes;
};

/** Where nothing can be written any more. */
export const closedStream: ResponseStream = { closed: true, write: () => true, waitForDrain: () => Promise.resolve(), end() {} };

/** The signal of an exchange, made only when somebody wants it: most requests are answered before anybody could. */
export class LazySignal {
  readonly #watchClient: (gone: () => void) => void;
  #abort: AbortController | undefined;
  #reason: unknown;
  #cancelled = false;

  /** `watchClient` is called once at most, and calls `gone` at once or later. */
  constructor(watchClient: (gone: () => void) => void) {
    this.#watchClient = watchClient;
  }

  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      const abort = new AbortController();
      this.#abort = abort;
      if (this.#cancelled) abort.abort(this.#reason);
      else
        this.#watchClient(() => {
          abort.abort();
        });
    }
    return this.#abort.signal;
  }

  cancel(reason: unknown): void {
    if (this.#cancelled) return;
    this.#cancelled = true;
    this.#reason = reason;
    this.#abort?.abort(reason);
  }
}

export const entityTooLarge = (limit: number): StatusError =>
  failure('RequestEntityTooLarge', `Request entity too large: limit is ${limit}`);
export const unexpectedEnd = (): StatusError => failure('BadRequest', 'the client closed the connection before the whole body was read');

interface BodySource {
  on(event: 'data', listener: (chunk: Buffer) => void): unknown;
  on(event: 'end' | 'aborted' | 'close' | 'error', listener: () => void): unknown;
  pause(): unknown;
}

export interface BodyOptions {
  /** The Content-Length. */
  readonly length: string | undefined;
  /** In bytes. */
  readonly limit: number;
  readonly reservation: BodyReservation;
}

/** Collects a body, holding no more than `limit` bytes. */
export function readBody(source: BodySource, { length, limit, reservation }: BodyOptions): Promise<Buffer> {
  if (length !== undefined && Number(length) > limit) return Promise.reject(entityTooLarge(limit));
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    let whole = false;
    source.on('data', (chunk) => {
      size += chunk.length;
      try {
        if (size > limit) throw entityTooLarge(limit);
        reservation.add(chunk.length);
        chunks.push(chunk);
      } catch (error) {
        size = Infinity;
        chunks.length = 0;
        source.pause();
        reject(error);
      }
    });
    source.on('end', () => {
      whole = true;
      resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks));
    });
    for (const event of ['aborted', 'close', 'error'] as const)
      source.on(event, () => {
        if (!whole) reject(unexpectedEnd());
      });
  });
}

/** A request that asks to upgrade its connection to a byte stream. */
export interface UpgradeRequest {
  readonly socket: Duplex;
  readonly head: Buffer;
  /** Records that the exchange was answered with this code: HTTP no longer applies to the connection. */
  begin(code: number): void;
}
