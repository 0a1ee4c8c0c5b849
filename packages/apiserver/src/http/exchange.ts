import type { Duplex } from 'node:stream';
import type { IncomingHttpHeaders } from 'node:http';
import type { Readable } from 'node:stream';
import type { ClientConnection } from './client-connection.ts';

export type HeaderValue = string | readonly string[];

/** An HTTP request and its response, independent of the HTTP version. */
export interface Exchange {
  readonly method: string;
  /** The path and query as the client sent them. */
  readonly target: string;
  /** The request headers, by name in lower case. The lines of a repeated header are joined with commas. */
  readonly headers: IncomingHttpHeaders;
  /** The names and values of the header lines, alternately, as the client sent them. */
  readonly rawHeaders: readonly string[];
  readonly connection: ClientConnection;
  /** Aborts if the client disconnects before the response is complete, or when `cancel` is called. Created on first use. */
  readonly signal: AbortSignal;
  /** The state of the response. `fresh`: not begun. `open`: the head is sent, the body is streamed. `sent`: complete. */
  readonly state: 'fresh' | 'open' | 'sent';
  /** The status code of the response; 0 while the state is `fresh`. */
  readonly statusCode: number;
  /** Bytes of the response body written to the connection so far. */
  readonly bytesSent: number;
  /** Aborts `signal` with this reason, and stops reading the request body. */
  cancel(reason: unknown): void;
  setHeader(name: string, value: HeaderValue): void;
  /** Returns the request body as a stream, for forwarding; undefined if there is no body. Call it at most once, and not together with `readBody`. */
  requestStream(): Readable | undefined;
  /**
   * Returns the complete request body. The body counts towards the limit of all buffered bodies until `releaseBody` is called.
   * @throws StatusError `RequestEntityTooLarge` if the body exceeds `limit` bytes; `TooManyRequests` if all bodies together exceed their limit;
   * `BadRequest` if the client ends the body early; the reason of `cancel`
   */
  readBody(limit: number): Promise<Buffer>;
  /** Stops counting the body towards the limit of all buffered bodies. Called at the end of the request. */
  releaseBody(): void;
  /** Sends a complete response. Does nothing if a response has begun. */
  send(code: number, body: Buffer | string): void;
  /** Sends the response head and returns a stream for the body. If a response has already begun, returns a closed stream. */
  openStream(code: number): ResponseStream;
  /** Resets the response, so that the client sees an error instead of a complete response. */
  abort(): void;
}

/** The body of a streamed response. Data that is written after the client has disconnected is dropped. */
export interface ResponseStream {
  /**
   * Writes the chunks together. Returns false if the caller should wait for `waitForDrain` before the next write. The chunks are not copied and must
   * not change until `waitForDrain` has resolved after a write that returned false.
   */
  write(chunks: readonly Buffer[]): boolean;
  /** True if each chunk is delivered as one message, so that the caller must not split chunks. Default: false. */
  readonly isMessageBased?: boolean;
  /** Resolves when the stream accepts more data or the client has disconnected. */
  waitForDrain(): Promise<void>;
  readonly closed: boolean;
  end(): void;
}

export const byteLength = (chunks: readonly Buffer[]): number => {
  let bytes = 0;
  for (const { length } of chunks) bytes += length;
  return bytes;
};

/** A response stream that drops all data. */
export const closedStream: ResponseStream = { closed: true, write: () => true, waitForDrain: () => Promise.resolve(), end() {} };

/** The abort signal of an exchange, created on first use because most handlers do not need it. */
export class LazySignal {
  readonly #onDisconnect: (listener: () => void) => void;
  #abort: AbortController | undefined;
  #reason: unknown;
  #cancelled = false;

  /**
   * Creates the signal. `onDisconnect` is called at most once; it registers a listener for the client's disconnection, which is called at once if
   * the client has already disconnected.
   */
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

/** A request to upgrade the connection from HTTP to a byte stream. */
export interface UpgradeRequest {
  readonly socket: Duplex;
  readonly head: Buffer;
  /** Marks the exchange as answered with this status code. Afterwards the connection does not use HTTP. */
  begin(code: number): void;
}
