import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import { byteLength, closedStream, readBody, type Exchange, type HeaderValue, LazySignal, type ResponseStream } from '../exchange.ts';
import type { ClientConnection } from '../client-certificates.ts';
import { BodyReservation, type RequestBodyMemory } from '../request-body-memory.ts';

const lineEnd = Buffer.from('\r\n');

/** A request over HTTP/1.1. */
export class Http1Exchange implements Exchange {
  readonly method: string;
  readonly target: string;
  readonly connection: ClientConnection;
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  readonly #headers: Record<string, string | string[]> = {};
  readonly #signal: LazySignal;
  readonly #body: BodyReservation;
  #state: Exchange['state'] = 'fresh';
  #code = 0;
  #sent = 0;

  constructor(request: IncomingMessage, response: ServerResponse, connection: ClientConnection, bodies: RequestBodyMemory) {
    this.method = request.method ?? 'GET';
    this.target = request.url ?? '/';
    this.connection = connection;
    this.#body = new BodyReservation(bodies);
    this.#request = request;
    this.#response = response;
    this.#signal = new LazySignal((gone) => {
      if (response.destroyed) gone();
      else
        response.once('close', () => {
          if (!response.writableFinished) gone();
        });
    });
  }

  get headers() {
    return this.#request.headers;
  }
  get state() {
    return this.#state;
  }
  get statusCode() {
    return this.#code;
  }
  get bytesSent() {
    return this.#sent;
  }
  get signal(): AbortSignal {
    return this.#signal.signal;
  }
  cancel(reason: unknown): void {
    this.#signal.cancel(reason);
  }

  setHeader(name: string, value: HeaderValue): void {
    this.#headers[name] = typeof value === 'string' ? value : [...value];
  }

  requestStream(): Readable | undefined {
    const { 'content-length': length = '0', 'transfer-encoding': coding } = this.#request.headers;
    return coding === undefined && length === '0' ? undefined : this.#request;
  }

  async readBody(limit: number): Promise<Buffer> {
    try {
      return await readBody(this.#request, { length: this.#request.headers['content-length'], limit, reservation: this.#body });
    } catch (error) {
      // what is left of the body would be taken for the next request
      this.setHeader('Connection', 'close');
      throw error;
    }
  }

  releaseBody(): void {
    this.#body.release();
  }

  send(code: number, body: Buffer | string): void {
    if (this.#state !== 'fresh') return;
    this.#state = 'sent';
    this.#code = code;
    const length = Buffer.byteLength(body);
    if (this.method !== 'HEAD') this.#sent = length;
    this.#headers['Content-Length'] = String(length);
    this.#response.writeHead(code, this.#headers).end(this.method === 'HEAD' ? undefined : body);
  }

  openStream(code: number): ResponseStream {
    if (this.#state !== 'fresh') return closedStream;
    this.#state = 'open';
    this.#code = code;
    this.#response.writeHead(code, this.#headers);
    this.#response.flushHeaders();
    const { socket } = this.#response;
    const count = (bytes: number) => {
      this.#sent += bytes;
    };
    return socket !== null && this.#response.chunkedEncoding
      ? new ChunkedResponseStream(this.#response, socket, count)
      : new PlainResponseStream(this.#response, count);
  }

  abort(): void {
    this.#response.destroy();
  }

  /** The connection has become something else than HTTP; this was the answer. */
  handOver(code: number): void {
    this.#state = 'sent';
    this.#code = code;
  }
}

/** Through node's own response: for HTTP/1.0, and behind earlier answers on the same connection. */
class PlainResponseStream implements ResponseStream {
  readonly #response: ServerResponse;
  readonly #count: (bytes: number) => void;
  constructor(response: ServerResponse, count: (bytes: number) => void) {
    this.#response = response;
    this.#count = count;
  }
  get closed() {
    return this.#response.destroyed;
  }

  write(chunks: readonly Buffer[]): boolean {
    if (this.#response.destroyed) return true;
    this.#count(byteLength(chunks));
    let room = true;
    this.#response.cork();
    for (const chunk of chunks) room = this.#response.write(chunk);
    this.#response.uncork();
    return room;
  }

  waitForDrain(): Promise<void> {
    return roomIn(this.#response);
  }
  end(): void {
    this.#response.end();
  }
}

/**
 * Frames the chunks itself and writes them to the socket at once: node's own way costs four writes for each chunk. The response has
 * sent its head by then and sends the last chunk when it ends.
 */
class ChunkedResponseStream implements ResponseStream {
  readonly #response: ServerResponse;
  readonly #socket: Socket;
  readonly #count: (bytes: number) => void;
  constructor(response: ServerResponse, socket: Socket, count: (bytes: number) => void) {
    this.#response = response;
    this.#socket = socket;
    this.#count = count;
  }
  get closed() {
    return this.#socket.destroyed || this.#response.destroyed;
  }

  write(chunks: readonly Buffer[]): boolean {
    if (this.closed) return true;
    const [only] = chunks;
    const size = byteLength(chunks);
    if (size === 0) return true;
    this.#count(size);
    if (chunks.length === 1 && only !== undefined) return this.#socket.write(chunked(only));
    this.#socket.cork();
    this.#socket.write(`${size.toString(16)}\r\n`, 'latin1');
    for (const chunk of chunks) this.#socket.write(chunk);
    const room = this.#socket.write(lineEnd);
    this.#socket.uncork();
    return room;
  }

  waitForDrain(): Promise<void> {
    return roomIn(this.#socket);
  }
  end(): void {
    this.#response.end();
  }
}

const frames = new WeakMap<Buffer, Buffer>();

/** One chunk with its frame around it. All watchers of an event write the same bytes, so they share the framed ones, too. */
function chunked(bytes: Buffer): Buffer {
  let framed = frames.get(bytes);
  if (framed === undefined) {
    framed = Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`, 'latin1'), bytes, lineEnd]);
    frames.set(bytes, framed);
  }
  return framed;
}

interface Writable {
  readonly destroyed: boolean;
  readonly writableNeedDrain: boolean;
  once(event: 'drain' | 'close', listener: () => void): unknown;
  off(event: 'drain' | 'close', listener: () => void): unknown;
}

/** Resolves when a stream takes more, and when it never will again. */
export function roomIn(stream: Writable): Promise<void> {
  if (stream.destroyed || !stream.writableNeedDrain) return Promise.resolve();
  return new Promise((resolve) => {
    const done = () => {
      stream.off('drain', done);
      stream.off('close', done);
      resolve();
    };
    stream.once('drain', done);
    stream.once('close', done);
  });
}
