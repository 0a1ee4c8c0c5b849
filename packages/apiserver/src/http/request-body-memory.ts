import { failure } from '@oarlock/api/status';

/**
 * The maximum number of bytes of request bodies that the server buffers at once. Sufficient for a body of the maximum size from each of 85 clients.
 * Decoding takes several times the size of a body, so 600 concurrent requests with bodies of 3 MiB would exhaust the memory of the process.
 */
export const maxBufferedBodyBytes = 256 * 1024 * 1024;

/** Counts the bytes of request bodies of all connections, each from its arrival to the end of its request. */
export class RequestBodyMemory {
  readonly maxBytes: number;
  #bytes = 0;

  constructor(maxBytes = maxBufferedBodyBytes) {
    this.maxBytes = maxBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Counts received bytes. @throws StatusError `TooManyRequests` if the limit is reached; the bytes are not counted in this case */
  add(bytes: number): void {
    if (this.#bytes + bytes > this.maxBytes)
      throw failure('TooManyRequests', 'Too many requests, please try again later.', { retryAfterSeconds: 1 });
    this.#bytes += bytes;
  }

  remove(bytes: number): void {
    this.#bytes -= bytes;
  }
}

/** The bytes that one request has added to the count. */
export class BodyReservation {
  readonly #memory: RequestBodyMemory;
  #bytes = 0;

  constructor(memory: RequestBodyMemory) {
    this.#memory = memory;
  }

  /** Counts received bytes of this request. @throws StatusError `TooManyRequests` if the limit of all bodies is reached */
  add(bytes: number): void {
    this.#memory.add(bytes);
    this.#bytes += bytes;
  }

  release(): void {
    this.#memory.remove(this.#bytes);
    this.#bytes = 0;
  }
}
