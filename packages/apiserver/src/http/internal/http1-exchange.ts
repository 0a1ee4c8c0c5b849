import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import { byteLength, closedStream, type Exchange, type HeaderValue, LazySignal, type ResponseStream } from '../exchange.ts';
import type { ClientConnection } from '../client-connection.ts';
import { timedOut } from '../errors.ts';
import { BodyReservation, type RequestBodyMemory } from '../request-body-memory.ts';
import { BodyReader } from './body-reader.ts';
import { waitForDrain } from './drain.ts';
import type { ClientPhase, ClientProgress, MonitoredExchange } from './client-progress.ts';

const lineEnd = Buffer.from('\r\n');

/** A request over HTTP/1.1. */
export class Http1Exchange implements MonitoredExchange {
  readonly method: string;
  readonly target: string;
  readonly connection: ClientConnection;
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  readonly #headers: Record<string, string | string[]> = {};
  readonly #signal: LazySignal;
  #state: Exchange['state'] = 'fresh';
  #code = 0;
  #sent = 0;
  readonly #reservation: BodyReservation;
  #body: BodyReader | undefined;

  constructor(request: IncomingMessage, response: ServerResponse, connection: ClientConnection, bodies: RequestBodyMemory) {
    this.method = request.method ?? 'GET';
    this.target = request.url ?? '/';
    this.connection = connection;
    this.#reservation = new BodyReservation(bodies);
    this.#request = request;
    this.#response = response;
    this.#signal = new LazySignal((disconnected) => {
      if (response.destroyed) disconnected();
      else
        response.once('close', () => {
          if (!response.writableFinished) disconnected();
        });
    });
  }

  get headers() {
    return this.#request.headers;
  }
  get rawHeaders() {
    return this.#request.rawHeaders;
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
    this.#body?.fail(reason);
    this.#signal.cancel(reason);
  }

  setHeader(name: string, value: HeaderValue): void {
    this.#headers[name] = typeof value === 'string' ? value : [...value];
  }

  requestStream(): Readable | undefined {
    const { 'content-length': length = '0', 'transfer-encoding': coding } = this.#request.headers;
    return coding === undefined && length === '0' ? undefined : this.#request;
  }

  readBody(limit: number): Promise<Buffer> {
    const { 'content-length': length } = this.#request.headers;
    this.#body = new BodyReader(this.#request, { length, limit, reservation: this.#reservation });
    return this.#body.body;
  }

  releaseBody(): void {
    this.#reservation.release();
  }

  send(code: number, body: Buffer | string): void {
    if (this.#state !== 'fresh') return;
    this.#state = 'sent';
    this.#code = code;
    const length = Buffer.byteLength(body);
    if (this.method !== 'HEAD') this.#sent = length;
    this.#headers['Content-Length'] = String(length);
    // the rest of a body that is no longer read would be parsed as the next request
    if (this.#body !== undefined && !this.#request.complete) this.#headers['Connection'] = 'close';
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

  /**
   * Marks the exchange as complete because the connection was upgraded: the upgrade handler now owns the socket and writes the response
   * itself. `code` is the status code of that response, for metrics and logs.
   */
  handOver(code: number): void {
    this.#state = 'sent';
    this.#code = code;
  }

  clientProgress(): ClientProgress | undefined {
    if (this.#state === 'sent') return { phase: 'response', count: 0 };
    if (this.#body?.isReading === true) return { phase: 'body', count: this.#body.received };
    const { writableLength } = this.#response;
    return this.#state === 'open' && writableLength > 0 ? { phase: 'stream', count: this.#sent - writableLength } : undefined;
  }

  timeOut(phase: ClientPhase): void {
    if (phase === 'body') this.#body?.fail(timedOut());
    else this.#response.destroy();
  }

  disconnect(): void {
    const response = this.#response;
    // Node only closes the response that the socket is assigned to, not those of pipelined requests behind it
    if (response.socket !== null || response.destroyed) return;
    response.destroy();
    response.emit('close');
  }
}

/**
 * A response stream that writes through `ServerResponse`: for HTTP/1.0 clients, and while an earlier response on the same connection is not
 * complete.
 */
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
    let accepted = true;
    this.#response.cork();
    for (const chunk of chunks) accepted = this.#response.write(chunk);
    this.#response.uncork();
    return accepted;
  }

  waitForDrain(): Promise<void> {
    return waitForDrain(this.#response);
  }
  end(): void {
    this.#response.end();
  }
}

/**
 * A response stream that frames the chunks and writes them directly to the socket, because `ServerResponse` needs four writes per chunk.
 * The response head has been sent before; `ServerResponse` sends the last chunk at the end.
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
    const accepted = this.#socket.write(lineEnd);
    this.#socket.uncork();
    return accepted;
  }

  waitForDrain(): Promise<void> {
    return waitForDrain(this.#socket);
  }
  end(): void {
    this.#response.end();
  }
}

const frames = new WeakMap<Buffer, Buffer>();

/** Returns the chunk with its HTTP/1.1 framing. Cached by chunk, because all watchers of an event write the same buffer. */
function chunked(bytes: Buffer): Buffer {
  let framed = frames.get(bytes);
  if (framed === undefined) {
    framed = Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`, 'latin1'), bytes, lineEnd]);
    frames.set(bytes, framed);
  }
  return framed;
}
