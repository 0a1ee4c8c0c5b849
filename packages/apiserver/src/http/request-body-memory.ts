import { failure } from '@oarlock/api/status';

/**
 * Bound of the request bodies that the server holds at once, in bytes. Larger than one body of the maximum size for each of 85 clients; decoding
 * takes several times a body's size, so that 600 seats with bodies of 3 MiB each would exhaust the memory of the process.
 */
export const maxBufferedBodyBytes = 256 * 1024 * 1024;

/** Counts the bytes of request bodies from their arrival to the end of their requests, over all connections. */
export class RequestBodyMemory {
  readonly maxBytes: number;
  #bytes = 0;

  constructor(maxBytes = maxBufferedBodyBytes) {
    this.maxBytes = maxBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Counts received bytes. @throws StatusError `TooManyRequests` if the bound is reached; the bytes are then not counted */
  add(bytes: number): void {
    if (this.#bytes + bytes > this.maxBytes)
      throw failure('TooManyRequests', 'Too many requests, please try again later.', { retryAfterSeconds: 1 });
    this.#bytes += bytes;
  }

  remove(bytes: number): void {
    this.#bytes -= bytes;
  }
}

/** The share of one request. */
export class BodyReservation {
  readonly #memory: RequestBodyMemory;
  #bytes = 0;

  constructor(memory: RequestBodyMemory) {
    this.#memory = memory;
  }

  /** @throws StatusError `TooManyRequests` */
  add(bytes: number): void {
    this.#memory.add(bytes);
    this.#bytes += bytes;
  }

  release(): void {
    this.#memory.remove(this.#bytes);
    this.#bytes = 0;
  }
}
