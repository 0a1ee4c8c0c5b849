import type { Readable } from 'node:stream';
import { constants, type IncomingHttpHeaders, type OutgoingHttpHeaders, type ServerHttp2Stream } from 'node:http2';
import { closeHttp2Stream, destroyHttp2 } from '@oarlock/primitives/net/http2';
import { byteLength, closedStream, type Exchange, type HeaderValue, LazySignal, type ResponseStream } from '../exchange.ts';
import type { ClientConnection } from '../client-connection.ts';
import { timedOut } from '../errors.ts';
import { BodyReservation, type RequestBodyMemory } from '../request-body-memory.ts';
import { BodyReader } from './body-reader.ts';
import { waitForDrain } from './drain.ts';
import type { ClientPhase, ClientProgress, MonitoredExchange } from './client-progress.ts';

/** The headers of an HTTP/2 request, as an object and as lines. */
export interface Http2Headers {
  readonly headers: IncomingHttpHeaders;
  readonly rawHeaders: readonly string[];
}

const noBody = Buffer.alloc(0);

/** A request over HTTP/2. */
export class Http2Exchange implements MonitoredExchange {
  readonly method: string;
  readonly target: string;
  readonly headers: IncomingHttpHeaders;
  readonly rawHeaders: readonly string[];
  readonly connection: ClientConnection;
  readonly #stream: ServerHttp2Stream;
  readonly #headers: OutgoingHttpHeaders = {};
  readonly #signal: LazySignal;
  #state: Exchange['state'] = 'fresh';
  #code = 0;
  #sent = 0;
  #isBodyUsed = false;
  #isAborted = false;
  readonly #reservation: BodyReservation;
  #body: BodyReader | undefined;

  constructor(stream: ServerHttp2Stream, { headers, rawHeaders }: Http2Headers, connection: ClientConnection, bodies: RequestBodyMemory) {
    this.method = headers[':method'] ?? 'GET';
    this.target = headers[':path'] ?? '/';
    this.headers = headers;
    this.rawHeaders = rawHeaders;
    this.connection = connection;
    this.#reservation = new BodyReservation(bodies);
    this.#stream = stream;
    this.#signal = new LazySignal((disconnected) => {
      if (stream.destroyed) disconnected();
      else
        stream.once('close', () => {
          // a response that was written completely has been sent when the stream closes, even if `finish` has not been emitted
          if (!stream.writableEnded || stream.rstCode !== constants.NGHTTP2_NO_ERROR) disconnected();
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
    this.#body?.fail(reason);
    this.#signal.cancel(reason);
  }

  setHeader(name: string, value: HeaderValue): void {
    this.#headers[name] = typeof value === 'string' ? value : [...value];
  }

  requestStream(): Readable | undefined {
    if (this.#stream.endAfterHeaders) return undefined;
    this.#isBodyUsed = true;
    return this.#stream;
  }

  readBody(limit: number): Promise<Buffer> {
    this.#isBodyUsed = true;
    if (this.#stream.endAfterHeaders) return Promise.resolve(noBody);
    const length = this.headers['content-length'];
    this.#body = new BodyReader(this.#stream, { length, limit, reservation: this.#reservation, endAtLength: true });
    return this.#body.body;
  }

  releaseBody(): void {
    this.#reservation.release();
  }

  send(code: number, body: Buffer | string): void {
    if (this.#state !== 'fresh') return;
    this.#state = 'sent';
    this.#code = code;
    if (this.#stream.closed) return;
    const bodiless = this.method === 'HEAD' || body.length === 0;
    const length = Buffer.byteLength(body);
    if (this.method !== 'HEAD') this.#sent = length;
    this.#headers['content-length'] = String(length);
    this.#stream.respond({ ':status': code, ...this.#headers }, { endStream: bodiless });
    if (!bodiless) this.#stream.end(body);
    // without a body Node resumes the stream itself when it closes; to do so here would destroy the stream before its last write completes, for
    // which Node creates an error object each time
    if (!this.#isBodyUsed && !this.#stream.endAfterHeaders) this.#stream.resume();
    // the client need not send the rest of a body that is no longer read (RFC 9113, section 8.1)
    else if (this.#body?.isComplete === false) closeHttp2Stream(this.#stream, constants.NGHTTP2_NO_ERROR);
  }

  openStream(code: number): ResponseStream {
    if (this.#state !== 'fresh') return closedStream;
    this.#state = 'open';
    this.#code = code;
    if (!this.#stream.closed) this.#stream.respond({ ':status': code, ...this.#headers });
    if (!this.#isBodyUsed) this.#stream.resume();
    return new Http2ResponseStream(this.#stream, {
      count: (bytes) => {
        this.#sent += bytes;
      },
      isAborted: () => this.#isAborted,
    });
  }

  // `close` with a code would look like a complete response to the client
  abort(): void {
    this.#isAborted = true;
    destroyHttp2(this.#stream, new Error('the response could not be completed'));
  }

  clientProgress(): ClientProgress | undefined {
    const stream = this.#stream;
    if (this.#state === 'sent' || stream.writableFinished) return { phase: 'response', count: 0 };
    if (this.#body?.isReading === true) return { phase: 'body', count: this.#body.received };
    return this.#state === 'open' && stream.writableLength > 0 ? { phase: 'stream', count: this.#sent - stream.writableLength } : undefined;
  }

  timeOut(phase: ClientPhase): void {
    if (phase === 'body') this.#body?.fail(timedOut());
    else if (this.#stream.writableFinished) closeHttp2Stream(this.#stream, constants.NGHTTP2_NO_ERROR);
    else this.abort();
  }

  /** Node closes the streams of a session with it. */
  disconnect(): void {}
}

class Http2ResponseStream implements ResponseStream {
  readonly #stream: ServerHttp2Stream;
  readonly #count: (bytes: number) => void;
  readonly #isAborted: () => boolean;
  constructor(
    stream: ServerHttp2Stream,
    { count, isAborted }: { readonly count: (bytes: number) => void; readonly isAborted: () => boolean },
  ) {
    this.#stream = stream;
    this.#count = count;
    this.#isAborted = isAborted;
  }
  get closed() {
    return this.#isAborted() || this.#stream.destroyed || this.#stream.closed;
  }

  write(chunks: readonly Buffer[]): boolean {
    if (this.closed) return true;
    this.#count(byteLength(chunks));
    let accepted = true;
    this.#stream.cork();
    for (const chunk of chunks) accepted = this.#stream.write(chunk);
    this.#stream.uncork();
    return accepted;
  }

  waitForDrain(): Promise<void> {
    return waitForDrain(this.#stream);
  }
  end(): void {
    if (!this.closed) this.#stream.end();
  }
}
