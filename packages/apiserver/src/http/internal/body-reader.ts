import { failure, type StatusError } from '@oarlock/api/status';
import { entityTooLarge } from '../errors.ts';
import type { BodyReservation } from '../request-body-memory.ts';

const unexpectedEnd = (): StatusError => failure('BadRequest', 'the client closed the connection before the whole body was read');

interface BodySource {
  on(event: 'data', listener: (chunk: Buffer) => void): unknown;
  on(event: 'end' | 'close' | 'error', listener: () => void): unknown;
  pause(): unknown;
}

export interface BodyOptions {
  /** The value of the Content-Length header; undefined if the request has none. */
  readonly length: string | undefined;
  /** The maximum size of the body in bytes. */
  readonly limit: number;
  readonly reservation: BodyReservation;
  /**
   * True for HTTP/2: a body of a declared length is complete with its last byte, and the source is paused before it emits `end`. A stream that
   * has emitted `end` is destroyed before the last write of its response completes, for which Node creates an error object each time.
   */
  readonly endAtLength?: boolean;
}

/**
 * Reads one request body into memory: at most `limit` bytes, which count towards the limit of all buffered bodies until the reservation is released.
 */
export class BodyReader {
  /**
   * Resolves with the complete body.
   * @throws StatusError `RequestEntityTooLarge` if the body exceeds `limit`; `TooManyRequests` if all bodies together exceed their limit;
   * `BadRequest` if the client ends the body early; the error passed to `fail`
   */
  readonly body: Promise<Buffer>;
  readonly #source: BodySource;
  #settlers: { resolve(body: Buffer): void; reject(error: unknown): void } = { resolve() {}, reject() {} };
  #chunks: Buffer[] = [];
  #received = 0;
  #isReading = true;
  #isComplete = false;

  constructor(source: BodySource, { length, limit, reservation, endAtLength = false }: BodyOptions) {
    this.#source = source;
    this.body = new Promise((resolve, reject) => {
      this.#settlers = { resolve, reject };
    });
    if (length !== undefined && Number(length) > limit) {
      this.#isReading = false;
      this.#settlers.reject(entityTooLarge(limit));
      return;
    }
    const lastByte = endAtLength && length !== undefined ? Number(length) : undefined;
    source.on('data', (chunk) => {
      if (!this.#isReading) return;
      this.#received += chunk.length;
      try {
        if (this.#received > limit) throw entityTooLarge(limit);
        reservation.add(chunk.length);
        this.#chunks.push(chunk);
      } catch (error) {
        this.fail(error);
      }
      if (this.#received !== lastByte) return;
      source.pause();
      this.#complete();
    });
    source.on('end', () => {
      this.#complete();
    });
    // every source closes, most of them after the body is complete
    const endEarly = () => {
      if (this.#isReading) this.fail(unexpectedEnd());
    };
    source.on('close', endEarly);
    source.on('error', endEarly);
  }

  #complete(): void {
    if (!this.#isReading) return;
    this.#isReading = false;
    this.#isComplete = true;
    const chunks = this.#chunks;
    this.#chunks = [];
    this.#settlers.resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks));
  }

  /** True until the body is complete or reading has failed. */
  get isReading(): boolean {
    return this.#isReading;
  }
  /** True if the whole body was read. */
  get isComplete(): boolean {
    return this.#isComplete;
  }
  /** The number of body bytes received so far. */
  get received(): number {
    return this.#received;
  }

  /** Stops reading and rejects `body` with this error. Has no effect if the body is complete. */
  fail(error: unknown): void {
    if (!this.#isReading) return;
    this.#isReading = false;
    this.#chunks = [];
    this.#source.pause();
    this.#settlers.reject(error);
  }
}
