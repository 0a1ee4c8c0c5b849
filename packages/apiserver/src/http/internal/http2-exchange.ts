import type { Readable } from 'node:stream';
import { constants, type IncomingHttpHeaders, type OutgoingHttpHeaders, type ServerHttp2Stream } from 'node:http2';
import { byteLength, closedStream, readBody, type Exchange, type HeaderValue, LazySignal, type ResponseStream } from '../exchange.ts';
import { roomIn } from './http1-exchange.ts';
import type { ClientConnection } from '../client-certificates.ts';
import { BodyReservation, type RequestBodyMemory } from '../request-body-memory.ts';

/** A request over HTTP/2. */
export class Http2Exchange implements Exchange {
  readonly method: string;
  readonly target: string;
  readonly headers: IncomingHttpHeaders;
  readonly connection: ClientConnection;
  readonly #stream: ServerHttp2Stream;
  readonly #headers: OutgoingHttpHeaders = {};
  readonly #signal: LazySignal;
  readonly #body: BodyReservation;
  #state: Exchange['state'] = 'fresh';
  #code = 0;
  #sent = 0;
  #read = false;
  #bodyRejected = false;

  constructor(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, connection: ClientConnection, bodies: RequestBodyMemory) {
    this.method = headers[':method'] ?? 'GET';
    this.target = headers[':path'] ?? '/';
    this.headers = headers;
    this.connection = connection;
    this.#body = new BodyReservation(bodies);
    this.#stream = stream;
    this.#signal = new LazySignal((gone) => {
      if (stream.destroyed) gone();
      else
        stream.once('close', () => {
          // what was written to its end has gone out when the stream closes, whether or not node has said so by then
          if (!stream.writableEnded || stream.rstCode !== constants.NGHTTP2_NO_ERROR) gone();
        });
    });
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
    if (this.#stream.endAfterHeaders) return undefined;
    this.#read = true;
    return this.#stream;
  }

  async readBody(limit: number): Promise<Buffer> {
    this.#read = true;
    try {
      return await readBody(this.#stream, { length: this.headers['content-length'], limit, reservation: this.#body });
    } catch (error) {
      this.#bodyRejected = true;
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
    if (this.#stream.destroyed) return;
    const bodiless = this.method === 'HEAD' || body.length === 0;
    const length = Buffer.byteLength(body);
    if (this.method !== 'HEAD') this.#sent = length;
    this.#headers['content-length'] = String(length);
    this.#stream.respond({ ':status': code, ...this.#headers }, { endStream: bodiless });
    if (!bodiless) this.#stream.end(body);
    // after the response, the client stops sending a body that is not read (RFC 9113, 8.1)
    if (this.#bodyRejected) this.#stream.close(constants.NGHTTP2_NO_ERROR);
    if (!this.#read) this.#stream.resume();
  }

  openStream(code: number): ResponseStream {
    if (this.#state !== 'fresh') return closedStream;
    this.#state = 'open';
    this.#code = code;
    if (!this.#stream.destroyed) this.#stream.respond({ ':status': code, ...this.#headers });
    if (!this.#read) this.#stream.resume();
    return new Http2ResponseStream(this.#stream, (bytes) => {
      this.#sent += bytes;
    });
  }

  // `close` with a code would let the client see a clean end
  abort(): void {
    this.#stream.destroy(new Error('the answer could not be completed'));
  }
}

class Http2ResponseStream implements ResponseStream {
  readonly #stream: ServerHttp2Stream;
  readonly #count: (bytes: number) => void;
  constructor(stream: ServerHttp2Stream, count: (bytes: number) => void) {
    this.#stream = stream;
    this.#count = count;
  }
  get closed() {
    return this.#stream.destroyed || this.#stream.closed;
  }

  write(chunks: readonly Buffer[]): boolean {
    if (this.closed) return true;
    this.#count(byteLength(chunks));
    let room = true;
    this.#stream.cork();
    for (const chunk of chunks) room = this.#stream.write(chunk);
    this.#stream.uncork();
    return room;
  }

  waitForDrain(): Promise<void> {
    return roomIn(this.#stream);
  }
  end(): void {
    if (!this.closed) this.#stream.end();
  }
}
