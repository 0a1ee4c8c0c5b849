import { failure, type StatusError } from '@oarlock/api/status';
import { entityTooLarge } from '../errors.ts';

const unexpectedEnd = (): StatusError => failure('BadRequest', 'the client closed the connection before the whole body was read');

interface BodySource {
  on(event: 'data', listener: (chunk: Buffer) => void): unknown;
  on(event: 'end' | 'aborted' | 'close' | 'error', listener: () => void): unknown;
  pause(): unknown;
}

/** Reads one request body into memory. */
export class BodyReader {
  /** Resolves with the body. @throws StatusError `RequestEntityTooLarge`, `BadRequest` if the client ends early, or the error given to `fail` */
  readonly body: Promise<Buffer>;
  readonly #source: BodySource;
  #settlers: { resolve(body: Buffer): void; reject(error: unknown): void } = { resolve() {}, reject() {} };
  #chunks: Buffer[] = [];
  #received = 0;
  #isReading = true;

  /** Holds at most `limit` bytes. `length`: the Content-Length header. */
  constructor(source: BodySource, length: string | undefined, limit: number) {
    this.#source = source;
    this.body = new Promise((resolve, reject) => {
      this.#settlers = { resolve, reject };
    });
    if (length !== undefined && Number(length) > limit) {
      this.#isReading = false;
      this.#settlers.reject(entityTooLarge(limit));
      return;
    }
    source.on('data', (chunk) => {
      if (!this.#isReading) return;
      this.#received += chunk.length;
      if (this.#received <= limit) this.#chunks.push(chunk);
      else this.fail(entityTooLarge(limit));
    });
    source.on('end', () => {
      if (!this.#isReading) return;
      this.#isReading = false;
      const chunks = this.#chunks;
      this.#settlers.resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks));
    });
    for (const event of ['aborted', 'close', 'error'] as const) source.on(event, () => this.fail(unexpectedEnd()));
  }

  /** True until the body is complete or reading it has failed. */
  get isReading(): boolean {
    return this.#isReading;
  }
  /** Bytes of the body received so far. */
  get received(): number {
    return this.#received;
  }

  /** Stops reading and rejects `body`, unless it is complete. */
  fail(error: unknown): void {
    if (!this.#isReading) return;
    this.#isReading = false;
    this.#chunks = [];
    this.#source.pause();
    this.#settlers.reject(error);
  }
}
