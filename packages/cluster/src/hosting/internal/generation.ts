import type { Clock } from '@oarlock/primitives/clock';

/** Time in milliseconds for which a replaced instance is kept, to validate the requests that it has mutated. */
const lingerMs = 5_000;

/** One instance of a replaceable plugin, with the number of its calls in flight. */
export class Generation<T> {
  readonly value: T;
  #calls = 0;
  #drained: (() => void) | undefined;
  /** True if no further call may start on this instance. */
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

  /** Resolves after the linger time, as soon as no call is in flight. */
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
