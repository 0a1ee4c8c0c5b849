import { Duplex } from 'node:stream';
import { resetStatus, SpdyError } from './frames.ts';
import type { Headers } from './internal/header-block.ts';

/** The connection's interface for streams. */
export interface StreamTransport {
  /** Calls `done` when the stream may send more. */
  data(stream: SpdyStream, chunks: readonly Buffer[], done: (error?: Error | null) => void): void;
  fin(stream: SpdyStream, done: (error?: Error | null) => void): void;
  reply(stream: SpdyStream, headers: Headers): void;
  reset(stream: SpdyStream, status: number): void;
  /** Called with a stream whose consumer became slow; the next method is called when the consumer has caught up. */
  block(stream: SpdyStream): void;
  unblock(stream: SpdyStream): void;
  forget(stream: SpdyStream): void;
}

/** How the peer's half of a stream ended: `fin` by FIN, `reset` by RST_STREAM, `cut` because the connection ended. */
export type StreamEnd = 'fin' | 'reset' | 'cut';

/** The id and the headers of a stream, and how many bytes it buffers. */
export interface SpdyStreamOptions {
  readonly id: number;
  readonly headers: Headers;
  readonly highWaterMark: number;
}

/**
 * One stream of a connection. Its halves close independently: after `end()` sends FIN, reading continues. When the peer resets the stream
 * or the connection ends, received data is still read, then `end` is emitted; `ended` has the reason. Writes after a reset are discarded
 * and their callbacks are not called, because the peer does not read them.
 */
export class SpdyStream extends Duplex {
  readonly id: number;
  /** The headers of SYN_STREAM. */
  readonly headers: Headers;
  /** The peer's SYN_REPLY. Rejects if the peer resets the stream, or the connection ends, before the reply. */
  readonly replied: Promise<Headers>;
  ended: StreamEnd | undefined;
  resetStatus: number | undefined;
  readonly #port: StreamTransport;
  #resolveReply!: (headers: Headers) => void;
  #rejectReply!: (error: Error) => void;
  #behind = false;

  constructor(port: StreamTransport, { id, headers, highWaterMark }: SpdyStreamOptions) {
    super({ allowHalfOpen: true, highWaterMark });
    this.#port = port;
    this.id = id;
    this.headers = headers;
    this.replied = new Promise((resolve, reject) => {
      this.#resolveReply = resolve;
      this.#rejectReply = reject;
    });
    // callers that do not await the reply receive the failure as an error of the stream
    this.replied.catch(() => {});
    // a broken connection fails its streams also while nothing listens; their users handle the close
    this.on('error', () => {});
    this.once('end', () => {
      if (this.ended !== 'fin') this.destroy();
    });
  }

  /** Accepts a stream that the peer opened. */
  reply(headers: Headers = {}): void {
    this.#port.reply(this, headers);
  }

  /** Ends both halves immediately and sends RST_STREAM. */
  reset(status: number = resetStatus.cancel): void {
    this.#port.reset(this, status);
    this.destroy();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    // the callback is not called: otherwise an endless source would be drained in one go, without a chance to stop it
    if (this.ended === 'reset' || this.ended === 'cut') return;
    if (chunk.length === 0) done();
    else this.#port.data(this, [chunk], done);
  }

  override _writev(chunks: readonly { readonly chunk: Buffer }[], done: (error?: Error | null) => void): void {
    if (this.ended === 'reset' || this.ended === 'cut') return;
    this.#port.data(
      this,
      chunks.map(({ chunk }) => chunk),
      done,
    );
  }

  override _final(done: (error?: Error | null) => void): void {
    if (this.ended === 'reset' || this.ended === 'cut') done();
    else this.#port.fin(this, done);
  }

  override _read(): void {
    if (!this.#behind) return;
    this.#behind = false;
    this.#port.unblock(this);
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    const over = this.ended === 'reset' || this.ended === 'cut' || (this.ended === 'fin' && this.writableFinished);
    if (!over) this.#port.reset(this, resetStatus.cancel);
    this.#rejectReply(error ?? new SpdyError('Reset', `stream ${this.id} ended before the peer replied`));
    this.#port.forget(this);
    done(error);
  }

  /** Handles the peer's reply. Only the connection calls it. */
  handleReply(headers: Headers): void {
    this.#resolveReply(headers);
  }

  /** Handles data of the peer. Returns true if the consumer keeps up. Only the connection calls it. */
  handleData(bytes: Buffer): boolean {
    if (this.ended || this.destroyed) return true;
    if (this.push(bytes)) return true;
    this.#behind = true;
    this.#port.block(this);
    return false;
  }

  /** Handles the end of the peer's half. Only the connection calls it. */
  handleEnd(how: StreamEnd, status?: number): void {
    if (this.ended === 'reset' || this.ended === 'cut') return;
    const before = this.ended;
    this.ended = how;
    this.resetStatus = status;
    if (how !== 'fin')
      this.#rejectReply(
        how === 'reset'
          ? new SpdyError('Reset', `the peer reset stream ${this.id} with status ${status}`, { ...(status !== undefined && { status }) })
          : new SpdyError('Closed', 'the connection ended'),
      );
    if (before === 'fin') {
      if (this.readableEnded) this.destroy();
    } else if (!this.destroyed) this.push(null);
  }
}
