import { constants, type ClientHttp2Session, type ClientHttp2Stream } from 'node:http2';
import type { TLSSocket } from 'node:tls';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import { goErrorText } from '@oarlock/primitives/net/go-error-text';
import { connectHttp2, destroyHttp2, setReceiveWindow } from '@oarlock/primitives/net/http2';
import type { KeepAliveTiming } from '../server-list.ts';
import { TransportError, type HttpConnection, type HttpRequest, type HttpResponse } from '../connection.ts';

const streamWindow = 1024 * 1024;
const sessionWindow = 16 * 1024 * 1024;
/** Number of checks for incoming data within the time of silence. */
const checksPerSilence = 3;

export interface Http2ConnectionOptions {
  /** A socket that has negotiated `h2`. */
  readonly socket: TLSSocket;
  readonly clock: Clock;
  /** Returns the timing of the detection of a silent server. */
  readonly timing: () => Pick<KeepAliveTiming, 'silenceMs' | 'pingMs'>;
  /** Called once when the server ends the connection, becomes silent or rejects further requests; not after `destroy`. */
  readonly onLost?: () => void;
}

/** One HTTP/2 session. It keeps the process alive only during requests. */
export class Http2Connection implements HttpConnection {
  readonly #session: ClientHttp2Session;
  readonly #socket: TLSSocket;
  readonly #options: Http2ConnectionOptions;
  #open = true;
  #active = 0;
  #timer: Timer;

  constructor(origin: string, options: Http2ConnectionOptions) {
    const { socket } = options;
    this.#socket = socket;
    this.#options = options;
    this.#session = connectHttp2(origin, {
      createConnection: () => socket,
      maxSessionMemory: 128,
      settings: { initialWindowSize: streamWindow },
    });
    const closed = () => this.#lose();
    this.#session.on('error', closed);
    this.#session.once('goaway', closed);
    this.#session.once('close', () => {
      closed();
      this.#timer.cancel();
    });
    this.#session.once('connect', () => setReceiveWindow(this.#session, sessionWindow));
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
    destroyHttp2(this.#session);
  }

  #track(stream: ClientHttp2Stream): void {
    if (this.#active++ === 0) this.#session.ref();
    stream.once('close', () => {
      if (--this.#active === 0 && !this.#session.destroyed) this.#session.unref();
    });
  }

  /** Applies changed timing: measures the silence of the server from now. */
  restartMonitor(): void {
    if (this.#session.destroyed) return;
    this.#timer.cancel();
    this.#timer = this.#monitor();
  }

  /** Waits until the server has been silent for `silenceMs`. Compares counts of bytes, because the session reads the socket natively. */
  #monitor(silentSince = this.#options.clock.monotonic()): Timer {
    const bytesRead = this.#socket.bytesRead;
    const { clock, timing } = this.#options;
    const { silenceMs } = timing();
    return clock.after(silenceMs / checksPerSilence, () => {
      if (this.#session.destroyed) return;
      const now = clock.monotonic();
      if (this.#socket.bytesRead !== bytesRead) this.#timer = this.#monitor(now);
      else this.#timer = now - silentSince >= silenceMs ? this.#ping() : this.#monitor(silentSince);
    });
  }

  /** Pings the server, and closes the connection if it stays silent. */
  #ping(): Timer {
    const bytesRead = this.#socket.bytesRead;
    const { clock, timing } = this.#options;
    const { silenceMs, pingMs } = timing();
    const timer = clock.after(pingMs, () => {
      // after a stall of this process, an answer that arrived in time has not been read yet
      setImmediate(() => {
        if (this.#timer !== timer || this.#session.destroyed) return;
        if (this.#socket.bytesRead !== bytesRead) this.#timer = this.#monitor();
        else this.#abandon(new Error(`the server has been silent for ${(silenceMs + pingMs) / 1000} s`));
      });
    });
    this.#session.ping((error) => {
      if (error !== null || this.#timer !== timer) return; // the session then closes with this error
      timer.cancel();
      this.#timer = this.#monitor();
    });
    return timer;
  }

  /** Ends the connection. Reports the loss first, because the streams that fail are sent again before the session has closed. */
  #abandon(error: Error): void {
    this.#lose();
    destroyHttp2(this.#session, error);
  }

  #lose(): void {
    if (this.#open) this.#options.onLost?.();
    this.#open = false;
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
  const why = cause instanceof Error ? goErrorText(cause) : 'the connection was lost';
  return new TransportError(isRejected ? 'Refused' : 'Lost', why, { cause });
}
