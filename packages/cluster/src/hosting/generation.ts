import type { Clock } from '@oarlock/kernel/clock';

/** How long an instance that was replaced is kept for requests that it has begun to change. */
const lingerMs = 5_000;

/** One instance behind a front, and how many calls are under way on it. */
export class Generation<T> {
  readonly value: T;
  #calls = 0;
  #drained: (() => void) | undefined;
  /** Nothing may be begun on it any more. */
  ended = false;

  constructor(value: T) {
    this.value = value;
  }

  run<R>(work: (value: T) => R | Promise<R>): R | Promise<R> {
    this.#calls += 1;
    try {
      const result = work(this.value);
      if (result instanceof Promise) return result.finally(() => this.#leave());
      this.#leave();
      return result;
    } catch (error) {
      this.#leave();
      throw error;
    }
  }

  /** Resolves when no call is under way and what was begun on it has had time to come back. */
  async drained(clock: Clock): Promise<void> {
    await new Promise<void>((resolve) => {
      clock.after(lingerMs, resolve);
    });
    this.ended = true;
    if (this.#calls > 0)
      await new Promise<void>((resolve) => {
        this.#drained = resolve;
      });
  }

  #leave(): void {
    this.#calls -= 1;
    if (this.#calls === 0) this.#drained?.();
  }
}
