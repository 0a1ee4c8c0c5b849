import { failure, type StatusError } from '@oarlock/api/status';

const tooMany = (): StatusError => failure('TooManyRequests', 'Too many requests, please try again later.', { retryAfterSeconds: 1 });

/**
 * Bounds how many requests of one sort are worked on at a time: beyond that they wait in line, and beyond the line they are refused.
 * Each holds memory for its body and its answer.
 */
export class Gate {
  readonly #places: number;
  readonly #line: number;
  readonly #waiting: (() => void)[] = [];
  #first = 0;
  #taken = 0;

  constructor(places: number, line: number) {
    this.#places = places;
    this.#line = line;
  }

  get taken(): number {
    return this.#taken;
  }
  get waiting(): number {
    return this.#waiting.length - this.#first;
  }

  /** Takes a place at once, else resolves when one is free. Each is to be given back with `leave`. @throws StatusError `TooManyRequests` */
  enter(): Promise<void> | undefined {
    if (this.#taken < this.#places) {
      this.#taken += 1;
      return undefined;
    }
    if (this.waiting >= this.#line) throw tooMany();
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
    });
  }

  leave(): void {
    const next = this.#waiting[this.#first];
    if (next === undefined) {
      this.#taken -= 1;
      return;
    }
    this.#first += 1;
    if (this.#first > 1024 && this.#first * 2 > this.#waiting.length) {
      this.#waiting.splice(0, this.#first);
      this.#first = 0;
    }
    if (this.#first === this.#waiting.length) {
      this.#waiting.length = 0;
      this.#first = 0;
    }
    next();
  }
}
