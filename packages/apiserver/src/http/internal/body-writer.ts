import { setImmediate } from 'node:timers/promises';
import { constants, createGzip, type Gzip } from 'node:zlib';
import type { Exchange, ResponseStream } from '../exchange.ts';
import { waitForDrain } from './http1-exchange.ts';

/** Answers beyond this are compressed when the client takes gzip, and sent in pieces of twice the size. */
export const minGzipBytes = 128 * 1024;
const flushBytes = 2 * minGzipBytes;
const maxTurnMs = 5;

/**
 * A body that is made piece by piece: sent whole with its length when it stays small, else as it grows, compressed if wanted. It
 * gives way to others between pieces, and goes no faster than the client reads.
 */
export class BodyWriter {
  readonly #exchange: Exchange;
  readonly #code: number;
  readonly #gzip: boolean;
  #piece: Buffer = Buffer.allocUnsafeSlow(16 * 1024);
  #used = 0;
  #outlet: ResponseStream | undefined;
  #turnBegan = performance.now();

  constructor(exchange: Exchange, code: number, { gzip }: { readonly gzip: boolean }) {
    this.#exchange = exchange;
    this.#code = code;
    this.#gzip = gzip;
  }

  /** The client has gone: what is written further is dropped. */
  get closed(): boolean {
    return this.#outlet?.closed ?? false;
  }
  /** There is a piece to flush, or others have waited long enough. */
  get mustFlush(): boolean {
    return this.#used >= minGzipBytes || performance.now() - this.#turnBegan > maxTurnMs;
  }

  add(bytes: Buffer): void {
    const end = this.#used + bytes.length;
    if (end > this.#piece.length) this.#grow(end);
    bytes.copy(this.#piece, this.#used);
    this.#used = end;
  }

  /** Sends what has gathered if it is worth sending. To be called, and waited for, whenever `full`. */
  async flush(): Promise<void> {
    if (this.#used > minGzipBytes) {
      this.#outlet ??= this.#open();
      if (!this.#outlet.write([this.#takePiece()])) await this.#outlet.waitForDrain();
    }
    if (performance.now() - this.#turnBegan > maxTurnMs) await setImmediate();
    this.#turnBegan = performance.now();
  }

  async end(): Promise<void> {
    if (this.#used > minGzipBytes) await this.flush();
    if (this.#outlet === undefined) {
      this.#exchange.send(this.#code, this.#takePiece());
      return;
    }
    if (this.#used > 0) this.#outlet.write([this.#takePiece()]);
    this.#outlet.end();
  }

  #takePiece(): Buffer {
    const piece = this.#piece.subarray(0, this.#used);
    this.#piece = Buffer.allocUnsafeSlow(this.#outlet === undefined ? 0 : flushBytes);
    this.#used = 0;
    return piece;
  }

  #grow(needed: number): void {
    const larger = Buffer.allocUnsafeSlow(Math.max(needed, Math.min(this.#piece.length * 4, flushBytes)));
    this.#piece.copy(larger, 0, 0, this.#used);
    this.#piece = larger;
  }

  #open(): ResponseStream {
    if (!this.#gzip) return this.#exchange.openStream(this.#code);
    this.#exchange.setHeader('Content-Encoding', 'gzip');
    this.#exchange.setHeader('Vary', 'Accept-Encoding');
    return new GzipResponseStream(this.#exchange.openStream(this.#code));
  }
}

/** Compresses on the thread pool what is written to another outlet. */
class GzipResponseStream implements ResponseStream {
  readonly #inner: ResponseStream;
  readonly #gzip: Gzip = createGzip({ level: constants.Z_BEST_SPEED });

  constructor(inner: ResponseStream) {
    this.#inner = inner;
    this.#gzip.on('data', (bytes: Buffer) => {
      if (inner.closed) {
        this.#gzip.destroy();
        return;
      }
      if (inner.write([bytes])) return;
      this.#gzip.pause();
      void inner.waitForDrain().then(() => this.#gzip.resume());
    });
    this.#gzip.on('end', () => {
      inner.end();
    });
    this.#gzip.on('error', () => {
      inner.end();
    });
  }

  get closed() {
    return this.#inner.closed || this.#gzip.destroyed;
  }

  write(chunks: readonly Buffer[]): boolean {
    if (this.closed) return true;
    let room = true;
    for (const chunk of chunks) room = this.#gzip.write(chunk);
    return room;
  }

  async waitForDrain(): Promise<void> {
    await waitForDrain(this.#gzip);
  }

  end(): void {
    this.#gzip.end();
  }
}
