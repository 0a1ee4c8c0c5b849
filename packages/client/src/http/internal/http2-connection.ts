import { connect, constants, type ClientHttp2Session, type ClientHttp2Stream } from 'node:http2';
import type { TLSSocket } from 'node:tls';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import { TransportError, type HttpConnection, type HttpRequest, type HttpResponse } from '../connection.ts';

const streamWindow = 1024 * 1024;
const sessionWindow = 16 * 1024 * 1024;
/**
 * Time in milliseconds without incoming data after which the connection is pinged; `pingMs` later without a response, it is closed (client-go's
 * values).
 */
const silenceMs = 30_000;
const pingMs = 15_000;

/** One HTTP/2 session. It keeps the process alive only during requests. */
export class Http2Connection implements HttpConnection {
  readonly #session: ClientHttp2Session;
  readonly #socket: TLSSocket;
  readonly #clock: Clock;
  #open = true;
  #active = 0;
  #timer: Timer;

  /** `socket` has negotiated `h2`. */
  constructor(origin: string, socket: TLSSocket, clock: Clock) {
    this.#socket = socket;
    this.#clock = clock;
    this.#session = connect(origin, {
      createConnection: () => socket,
      maxSessionMemory: 128,
      settings: { enablePush: false, initialWindowSize: streamWindow },
    });
    const closed = () => {
      this.#open = false;
    };
    this.#session.on('error', closed);
    this.#session.once('goaway', closed);
    this.#session.once('close', () => {
      closed();
      this.#timer.cancel();
    });
    this.#session.once('connect', () => this.#session.setLocalWindowSize(sessionWindow));
    this.#session.unref();
    this.#timer = this.#monitor();
  }

  get isUsable(): boolean {
    // reserves 8 streams, so that short requests are possible when watches use the others
    const limit = this.#session.remoteSettings?.maxConcurrentStreams ?? 100;
    return this.#open && !this.#session.closed && !this.#session.destroyed && this.#active < Math.max(1, limit - 8);
  }

  get isClosed(): boolean {
    return this.#session.destroyed;
  }

  request({ method, path, headers, body, signal }: HttpRequest): Promise<HttpResponse> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(signal.reason);
        return;
      }
      let stream: ClientHttp2Stream;
      try {
        stream = this.#session.request({ ...headers, ':method': method, ':path': path }, { endStream: body === undefined });
      } catch (cause) {
        reject(new TransportError('Refused', 'the connection was closing', { cause }));
        return;
      }
      this.#track(stream);
      const cancel = () => stream.close(constants.NGHTTP2_CANCEL);
      const abort = () => {
        cancel();
        reject(signal?.reason);
      };
      signal?.addEventListener('abort', abort, { once: true });
      // stays for the lifetime of the stream: errors after the headers reach the reader of the body
      stream.on('error', (cause) => reject(transportError(stream, cause)));
      stream.once('close', () => {
        signal?.removeEventListener('abort', abort);
        reject(transportError(stream, undefined));
      });
      stream.once('response', (head) => resolve({ status: head[':status'] ?? 0, headers: head, body: readBody(stream, signal), cancel }));
      if (body !== undefined) stream.end(body);
    });
  }

  destroy(): void {
    this.#open = false;
    this.#session.destroy();
  }

  #track(stream: ClientHttp2Stream): void {
    if (this.#active++ === 0) this.#session.ref();
    stream.once('close', () => {
      if (--this.#active === 0 && !this.#session.destroyed) this.#session.unref();
    });
  }

  #monitor(): Timer {
    const bytesRead = this.#socket.bytesRead;
    return this.#clock.after(silenceMs, () => {
      if (this.#session.destroyed) return;
      if (this.#socket.bytesRead !== bytesRead) {
        this.#timer = this.#monitor();
        return;
      }
      this.#timer = this.#clock.after(pingMs, () =>
        this.#session.destroy(new Error(`the server has been silent for ${(silenceMs + pingMs) / 1000} s`)),
      );
      this.#session.ping((error) => {
        if (error !== null) return; // the session then closes with this error
        this.#timer.cancel();
        this.#timer = this.#monitor();
      });
    });
  }
}

async function* readBody(stream: ClientHttp2Stream, signal: AbortSignal | undefined): AsyncGenerator<Buffer> {
  try {
    for await (const chunk of stream) yield chunk as Buffer;
  } catch (cause) {
    signal?.throwIfAborted();
    throw transportError(stream, cause);
  }
  signal?.throwIfAborted();
  // for its reader, a stream that was reset ends like any other
  if (stream.aborted || (stream.rstCode !== undefined && stream.rstCode !== constants.NGHTTP2_NO_ERROR))
    throw transportError(stream, undefined);
}

function transportError(stream: ClientHttp2Stream, cause: unknown): TransportError {
  const isRejected =
    stream.rstCode === constants.NGHTTP2_REFUSED_STREAM ||
    (cause instanceof Error &&
      'code' in cause &&
      (cause.code === 'ERR_HTTP2_GOAWAY_SESSION' || cause.code === 'ERR_HTTP2_INVALID_SESSION'));
  const why = cause instanceof Error ? cause.message : 'the connection was lost';
  return new TransportError(isRejected ? 'Refused' : 'Lost', why, { cause });
}
