import { Duplex } from 'node:stream';
import { resetStatus, SpdyError } from './frames.ts';
import type { Headers } from './internal/header-block.ts';

/** What a stream asks of its connection. */
export interface StreamTransport {
  /** `done` when more may come. */
  data(stream: SpdyStream, chunks: readonly Buffer[], done: (error?: Error | null) => void): void;
  fin(stream: SpdyStream, done: (error?: Error | null) => void): void;
  reply(stream: SpdyStream, headers: Headers): void;
  reset(stream: SpdyStream, status: number): void;
  /** The consumer fell behind, or took what it had. */
  block(stream: SpdyStream): void;
  unblock(stream: SpdyStream): void;
  forget(stream: SpdyStream): void;
}

/** How the peer's side of a stream ended: by FIN, by RST_STREAM, or because the connection did. */
export type StreamEnd = 'fin' | 'reset' | 'cut';

/**
 * One stream of a connection. Its halves close independently: `end()` sends FIN and reading goes on.
 * When the peer resets the stream or the connection ends, what was received is still read, then comes `end`; `ended` says which it was.
 * What is written after a reset goes nowhere, and no more is asked for: the peer has said that it does not want it.
 */
export class SpdyStream extends Duplex {
  readonly id: number;
  /** Of SYN_STREAM. */
  readonly headers: Headers;
  /** The peer's SYN_REPLY. Rejects when it resets the stream, or the connection ends, before that. */
  readonly replied: Promise<Headers>;
  ended: StreamEnd | undefined;
  resetStatus: number | undefined;
  readonly #port: StreamTransport;
  #resolveReply!: (headers: Headers) => void;
  #rejectReply!: (error: Error) => void;
  #behind = false;

  constructor(port: StreamTransport, id: number, headers: Headers, highWaterMark: number) {
    super({ allowHalfOpen: true, highWaterMark });
    this.#port = port;
    this.id = id;
    this.headers = headers;
    this.replied = new Promise((resolve, reject) => {
      this.#resolveReply = resolve;
      this.#rejectReply = reject;
    });
    // who does not wait for the reply learns of the failure by the stream itself
    this.replied.catch(() => {});
    this.once('end', () => {
      if (this.ended !== 'fin') this.destroy();
    });
  }

  /** Accepts a stream that the peer opened. */
  reply(headers: Headers = {}): void {
    this.#port.reply(this, headers);
  }

  /** Ends both halves at once; the peer is told. */
  reset(status: number = resetStatus.cancel): void {
    this.#port.reset(this, status);
    this.destroy();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    // not done, or a source without an end would be drained in one go, with nobody getting a turn to stop it
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
    this.#rejectReply(error ?? new SpdyError('Reset', `stream ${this.id} was ended before it was answered`));
    this.#port.forget(this);
    done(error);
  }

  /** For the connection: the peer's answer. */
  handleReply(headers: Headers): void {
    this.#resolveReply(headers);
  }

  /** For the connection: data from the peer. True when the consumer keeps up. */
  handleData(bytes: Buffer): boolean {
    if (this.ended || this.destroyed) return true;
    if (this.push(bytes)) return true;
    this.#behind = true;
    this.#port.block(this);
    return false;
  }

  /** For the connection: nothing more comes. */
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
