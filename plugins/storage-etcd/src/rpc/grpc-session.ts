import { constants, type ClientHttp2Session, type ClientHttp2Stream, type IncomingHttpHeaders } from 'node:http2';
import { goErrorText } from '@oarlock/primitives/net/go-error-text';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import { connectHttp2, destroyHttp2, setReceiveWindow } from '@oarlock/primitives/net/http2';
import type { Rpc } from './etcd-messages.ts';
import { frame, FrameReader } from './grpc-frames.ts';
import { GrpcError, decodeGrpcMessage, grpcCode } from '@oarlock/grpc/grpc-error';

export interface TlsFiles {
  readonly ca?: Buffer;
  readonly cert?: Buffer;
  readonly key?: Buffer;
}
export interface SessionOptions {
  readonly clock: Clock;
  /** Interval of pings while calls are open. etcd closes connections with an interval below 5 s. */
  readonly keepaliveMs: number;
  /** Timeout of a ping, and of the connection attempt. */
  readonly pingTimeoutMs: number;
}

/** A bidirectional stream of messages. */
export interface Duplex<Q> {
  send(message: Q): void;
  cancel(): void;
}
export interface Receiver<S> {
  message(message: S): void;
  ended(error: GrpcError): void;
}

const window = { stream: 4 * 1024 * 1024, session: 32 * 1024 * 1024 };

/** Returns the status from trailers, or from headers if there was no message. */
function statusOf(headers: IncomingHttpHeaders): GrpcError | undefined | 'none' {
  const status = headers['grpc-status'];
  if (status === undefined) return 'none';
  if (status === '0') return undefined;
  return new GrpcError(grpcCode(Number(status)), decodeGrpcMessage(String(headers['grpc-message'] ?? '')));
}

/** One HTTP/2 connection to one endpoint. */
export class GrpcSession {
  readonly endpoint: string;
  readonly #session: ClientHttp2Session;
  readonly #options: SessionOptions;
  readonly #closed: Promise<void>;
  #keepalive: Timer | undefined;
  #streams = 0;
  #usable = true;
  #why: Error | undefined;

  private constructor(endpoint: string, session: ClientHttp2Session, options: SessionOptions) {
    this.endpoint = endpoint;
    this.#session = session;
    this.#options = options;
    session.on('error', (error) => {
      this.#why ??= error;
    });
    session.on('goaway', (code) => {
      this.#usable = false;
      this.#why ??= new Error(`the server closes the connection (HTTP/2 code ${code})`);
    });
    this.#closed = new Promise((resolve) => {
      session.once('close', () => {
        this.#usable = false;
        this.#keepalive?.cancel();
        resolve();
      });
    });
    this.#startKeepalive();
  }

  /** Connects to an endpoint. @throws GrpcError `UNAVAILABLE` if the connection fails */
  static open(endpoint: string, tls: TlsFiles, options: SessionOptions): Promise<GrpcSession> {
    return new Promise((resolve, reject) => {
      const session = connectHttp2(endpoint, {
        ...tls,
        settings: { initialWindowSize: window.stream },
        // MiB of data in flight; Node's default of 10 would reject a few concurrent large values
        maxSessionMemory: 1024,
      });
      const timer = options.clock.after(options.pingTimeoutMs, () =>
        destroyHttp2(session, new Error(`no connection within ${options.pingTimeoutMs} ms`)),
      );
      const failed = (error?: Error) => {
        timer.cancel();
        destroyHttp2(session);
        reject(
          new GrpcError('UNAVAILABLE', `${endpoint}: ${error === undefined ? 'the connection closed' : goErrorText(error)}`, {
            notSent: true,
            ...(error && { cause: error }),
          }),
        );
      };
      session.once('error', failed);
      session.once('close', failed);
      session.once('connect', () => {
        // Node emits `connect` also for a session that has been destroyed; `close` follows
        if (session.destroyed) return;
        timer.cancel();
        session.off('error', failed);
        session.off('close', failed);
        setReceiveWindow(session, window.session);
        // a connection of the storage must not keep the process alive
        session.unref();
        resolve(new GrpcSession(endpoint, session, options));
      });
    });
  }

  get usable(): boolean {
    return this.#usable;
  }
  /** Resolves when the connection is closed. */
  get closed(): Promise<void> {
    return this.#closed;
  }

  /** Makes a unary call. @throws GrpcError if the call fails */
  call<Q, S>(rpc: Rpc<Q, S>, request: Uint8Array, timeoutMs: number): Promise<S> {
    return new Promise((resolve, reject) => {
      let answer: Buffer | undefined;
      const timeout = Math.max(1, Math.ceil(timeoutMs));
      const stream = this.#open(rpc.path, {
        headers: { 'grpc-timeout': `${timeout}m` },
        take: (message) => {
          answer = message;
        },
        done: (error) => {
          timer.cancel();
          if (error) {
            reject(error);
            return;
          }
          if (!answer) {
            reject(new GrpcError('INTERNAL', `${rpc.path} returned no message`));
            return;
          }
          try {
            resolve(rpc.decode(answer));
          } catch (cause) {
            reject(new GrpcError('INTERNAL', `the response of ${rpc.path} cannot be decoded`, { cause }));
          }
        },
      });
      const timer = this.#options.clock.after(timeout, () => {
        if (stream) destroyHttp2(stream, new GrpcError('DEADLINE_EXCEEDED', `no response of ${rpc.path} within ${timeout} ms`));
      });
      stream?.end(frame(request));
    });
  }

  /** Opens a bidirectional stream. `ended` is called once, when either side ends it. */
  duplex<Q, S>(rpc: Rpc<Q, S>, headers: Readonly<Record<string, string>>, receiver: Receiver<S>): Duplex<Q> {
    const stream = this.#open(rpc.path, {
      headers,
      take: (message) => receiver.message(rpc.decode(message)),
      done: (error) => {
        receiver.ended(error ?? new GrpcError('UNAVAILABLE', `${rpc.path} was ended by the server`));
      },
    });
    return {
      send: (message) => {
        if (stream?.writable) stream.write(frame(rpc.encode(message)));
      },
      cancel: () => {
        stream?.close(constants.NGHTTP2_CANCEL);
      },
    };
  }

  /** Makes a call whose response is a stream. Messages are received as fast as they are consumed. @throws GrpcError if the call fails */
  async *stream<Q, S>(rpc: Rpc<Q, S>, request: Q, signal: AbortSignal): AsyncGenerator<S> {
    const stream = this.#session.request(
      { ':method': 'POST', ':path': rpc.path, 'content-type': 'application/grpc', te: 'trailers' },
      { signal },
    );
    let status: GrpcError | undefined | 'none' = 'none';
    const take = (headers: IncomingHttpHeaders) => {
      status = statusOf(headers);
    };
    stream.on('response', take);
    stream.on('trailers', take);
    this.#streams += 1;
    const reader = new FrameReader();
    try {
      stream.end(frame(rpc.encode(request)));
      for await (const chunk of stream as AsyncIterable<Buffer>) {
        const messages: Buffer[] = [];
        reader.push(chunk, (message) => messages.push(message));
        for (const message of messages) yield rpc.decode(message);
      }
    } finally {
      this.#streams -= 1;
      stream.close(constants.NGHTTP2_CANCEL);
    }
    const ended = status as GrpcError | undefined | 'none';
    if (ended === 'none') throw new GrpcError('UNAVAILABLE', `${this.endpoint}: ${rpc.path} was interrupted`);
    if (ended !== undefined) throw ended;
  }

  /** Makes the session unusable and closes the connection. Its open calls fail soon afterward. */
  close(why: Error): void {
    this.#why ??= why;
    this.#usable = false;
    destroyHttp2(this.#session);
  }

  /** Opens a stream. `done` is called once, never before this method has returned. Returns undefined if no stream could be opened. */
  #open(
    path: string,
    {
      headers,
      take,
      done,
    }: {
      readonly headers: Readonly<Record<string, string>>;
      readonly take: (message: Buffer) => void;
      readonly done: (error: GrpcError | undefined) => void;
    },
  ): ClientHttp2Stream | undefined {
    let stream: ClientHttp2Stream;
    try {
      if (!this.#usable) throw this.#why ?? new Error('the connection is closed');
      stream = this.#session.request({ ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers', ...headers });
    } catch (cause) {
      queueMicrotask(() =>
        done(
          new GrpcError('UNAVAILABLE', `${this.endpoint}: ${goErrorText(cause)}`, {
            notSent: true,
            cause,
          }),
        ),
      );
      return undefined;
    }
    this.#streams += 1;
    const reader = new FrameReader();
    let status: GrpcError | undefined | 'none' = 'none';
    let fault: Error | undefined;
    stream.on('response', (received) => {
      status = statusOf(received);
      if (status === 'none' && received[':status'] !== 200)
        status = new GrpcError('UNAVAILABLE', `${this.endpoint}: HTTP status ${received[':status']}`);
    });
    stream.on('trailers', (received) => {
      status = statusOf(received);
    });
    stream.on('error', (error) => {
      fault ??= error;
    });
    stream.on('data', (chunk: Buffer) => {
      try {
        reader.push(chunk, take);
      } catch (error) {
        destroyHttp2(stream, error instanceof Error ? error : new Error(String(error)));
      }
    });
    stream.once('close', () => {
      this.#streams -= 1;
      done(status === 'none' ? this.#lost(stream, fault) : status);
    });
    return stream;
  }

  /** Returns the error of a call that ended without a status. */
  #lost(stream: ClientHttp2Stream, fault: Error | undefined): GrpcError {
    if (fault instanceof GrpcError) return fault;
    const cause = this.#why ?? fault;
    const message = `${this.endpoint}: ${cause === undefined ? 'the connection was lost' : goErrorText(cause)}`;
    return new GrpcError('UNAVAILABLE', message, {
      notSent: stream.pending || stream.rstCode === constants.NGHTTP2_REFUSED_STREAM,
      ...(cause && { cause }),
    });
  }

  /** Detects a peer that is gone. Pings only while calls are open, because etcd does not allow others. */
  #startKeepalive(): void {
    this.#keepalive = this.#options.clock.after(this.#options.keepaliveMs, () => {
      if (this.#session.destroyed) return;
      this.#startKeepalive();
      if (this.#streams === 0) return;
      const timer = this.#options.clock.after(this.#options.pingTimeoutMs, () =>
        this.close(new Error(`no response to a ping within ${this.#options.pingTimeoutMs} ms`)),
      );
      this.#session.ping(() => timer.cancel());
    });
  }
}
