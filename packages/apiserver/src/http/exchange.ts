import type { Duplex } from 'node:stream';
import type { IncomingHttpHeaders } from 'node:http';
import type { Readable } from 'node:stream';
import type { ClientConnection } from './client-connection.ts';

export type HeaderValue = string | readonly string[];

/** One request and its response, independent of the version of HTTP. */
export interface Exchange {
  readonly method: string;
  /** Path and query as the client sent them. */
  readonly target: string;
  /** Names in lower case. */
  readonly headers: IncomingHttpHeaders;
  readonly connection: ClientConnection;
  /** Aborts if the client disconnects before the response is complete, and when `cancel` is called. Created on first use. */
  readonly signal: AbortSignal;
  /** `fresh`: no response yet. `open`: the response head is sent and its body is streamed. `sent`: the response is complete. */
  readonly state: 'fresh' | 'open' | 'sent';
  /** Of the response; 0 while the state is `fresh`. */
  readonly statusCode: number;
  /** Bytes of the response body written to the connection so far. */
  readonly bytesSent: number;
  /** Aborts the signal and stops reading the request body. */
  cancel(reason: unknown): void;
  setHeader(name: string, value: HeaderValue): void;
  /** Returns the request body as a stream, for forwarding; undefined if there is none. Call it at most once, and not with `readBody`. */
  requestStream(): Readable | undefined;
  /**
   * Returns the whole body, which counts towards the bound of all bodies until `releaseBody`.
   * @throws StatusError `RequestEntityTooLarge` beyond `limit` bytes; `TooManyRequests` beyond the bound of all bodies; `BadRequest` if the
   * client ends early; the reason of `cancel`
   */
  readBody(limit: number): Promise<Buffer>;
  /** Ends the accounting of the body. Called at the end of the request. */
  releaseBody(): void;
  /** Sends head and body. Does nothing if a response has begun. */
  send(code: number, body: Buffer | string): void;
  /** Sends the head and returns a stream for the body. If a response has begun, the stream is closed. */
  openStream(code: number): ResponseStream;
  /** Resets the response: the client sees an error, not an end. */
  abort(): void;
}

/** The body of a streamed response. Writes after the client has disconnected are dropped. */
export interface ResponseStream {
  /** Writes the chunks together. False: wait for `waitForDrain` before the next write. The chunks are not copied and must not change. */
  write(chunks: readonly Buffer[]): boolean;
  /** True if each chunk is delivered as one message, so that chunks must not be split. Absent: false. */
  readonly isMessageBased?: boolean;
  /** Resolves when the stream accepts more data, and when the client has disconnected. */
  waitForDrain(): Promise<void>;
  readonly closed: boolean;
  end(): void;
}

export const byteLength = (chunks: readonly Buffer[]): number => {
  let bytes = 0;
  for (const { length } of chunks) bytes += length;
  return bytes;
};

/** A stream that drops everything. */
export const closedStream: ResponseStream = { closed: true, write: () => true, waitForDrain: () => Promise.resolve(), end() {} };

/** Creates the signal of an exchange on first use, because most handlers do not need one. */
export class LazySignal {
  readonly #onDisconnect: (listener: () => void) => void;
  #abort: AbortController | undefined;
  #reason: unknown;
  #cancelled = false;

  /** `onDisconnect` is called at most once; it calls its listener when the client disconnects, at once if it already has. */
  constructor(onDisconnect: (listener: () => void) => void) {
    this.#onDisconnect = onDisconnect;
  }

  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      const abort = new AbortController();
      this.#abort = abort;
      if (this.#cancelled) abort.abort(this.#reason);
      else
        this.#onDisconnect(() => {
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

/** A request to upgrade the connection to a byte stream. */
export interface UpgradeRequest {
  readonly socket: Duplex;
  readonly head: Buffer;
  /** Records that the exchange was answered with this code: HTTP no longer applies to the connection. */
  begin(code: number): void;
}
