import { setImmediate } from 'node:timers/promises';
import { constants, createGzip, type Gzip } from 'node:zlib';
import type { ByteSink } from '../../endpoints/request/response.ts';
import type { Exchange, ResponseStream } from '../exchange.ts';
import { waitForDrain } from './drain.ts';

/** The size above which a response is compressed if the client accepts gzip, as upstream. Such a response is sent in pieces of twice the size. */
export const minGzipBytes = 128 * 1024;
const flushBytes = 2 * minGzipBytes;
/** The time of synchronous encoding after which `flush` yields to the event loop, in milliseconds. */
const maxTurnMs = 5;
/** The number of encoded items between two readings of the clock, which costs as much as copying a small item. */
const itemsPerClockReading = 16;
/** The number of digits of the largest safe integer. */
const maxDigits = 16;
const zeroDigit = 0x30;

/**
 * Writes a response body that is encoded in pieces. A small body is sent at once with its length. A larger body is streamed, compressed if `gzip` is
 * set; the writer yields to the event loop between pieces and waits for a slow client.
 */
export class BodyWriter implements ByteSink {
  readonly #exchange: Exchange;
  readonly #code: number;
  readonly #gzip: boolean;
  #piece: Buffer = Buffer.allocUnsafeSlow(16 * 1024);
  #used = 0;
  #stream: ResponseStream | undefined;
  #turnStartedAt = performance.now();
  #itemsUntilReading = itemsPerClockReading;

  constructor(exchange: Exchange, code: number, { gzip }: { readonly gzip: boolean }) {
    this.#exchange = exchange;
    this.#code = code;
    this.#gzip = gzip;
  }

  /** True if the client has disconnected; further writes are dropped. */
  get closed(): boolean {
    return this.#stream?.closed ?? false;
  }
  /**
   * Called after each item. Returns true if the caller must call `flush`: a piece can be sent, or encoding has blocked the event loop for `maxTurnMs`.
   */
  mustFlush(): boolean {
    if (this.#used >= minGzipBytes) return true;
    if (--this.#itemsUntilReading > 0) return false;
    this.#itemsUntilReading = itemsPerClockReading;
    return performance.now() - this.#turnStartedAt > maxTurnMs;
  }

  add(bytes: Uint8Array, start = 0): void {
    const end = this.#used + bytes.length - start;
    if (end > this.#piece.length) this.#grow(end);
    // a view of Node's class Buffer takes longer to create
    this.#piece.set(start === 0 ? bytes : new Uint8Array(bytes.buffer, bytes.byteOffset + start, bytes.length - start), this.#used);
    this.#used = end;
  }

  addDecimal(value: number): void {
    if (this.#used + maxDigits > this.#piece.length) this.#grow(this.#used + maxDigits);
    let end = this.#used;
    for (let rest = value; rest > 9; rest = Math.floor(rest / 10)) end++;
    this.#used = end + 1;
    for (let rest = value; end >= 0; end--) {
      this.#piece[end] = zeroDigit + (rest % 10);
      rest = Math.floor(rest / 10);
      if (rest === 0) break;
    }
  }

  /** Sends the buffered bytes if they exceed the threshold. The caller must await it whenever `mustFlush` is true. */
  async flush(): Promise<void> {
    if (this.#used > minGzipBytes) {
      this.#stream ??= this.#open();
      const accepted = this.#stream.write([this.#piece.subarray(0, this.#used)]);
      this.#used = 0;
      // after the stream has drained, the piece is sent and is filled again: new pieces would cause full garbage collections
      if (accepted) this.#piece = Buffer.allocUnsafeSlow(flushBytes);
      else await this.#stream.waitForDrain();
    }
    if (performance.now() - this.#turnStartedAt > maxTurnMs) await setImmediate();
    this.#turnStartedAt = performance.now();
  }

  async end(): Promise<void> {
    if (this.#used > minGzipBytes) await this.flush();
    if (this.#stream === undefined) {
      this.#exchange.send(this.#code, this.#piece.subarray(0, this.#used));
      return;
    }
    if (this.#used > 0) this.#stream.write([this.#piece.subarray(0, this.#used)]);
    this.#stream.end();
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

/** A response stream that compresses the data with gzip on the thread pool. */
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
    let accepted = true;
    for (const chunk of chunks) accepted = this.#gzip.write(chunk);
    return accepted;
  }

  async waitForDrain(): Promise<void> {
    await waitForDrain(this.#gzip);
  }

  end(): void {
    this.#gzip.end();
  }
}
