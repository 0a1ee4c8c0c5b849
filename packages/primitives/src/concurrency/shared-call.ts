/**
 * Shares one call among concurrent callers (golang.org/x/sync/singleflight).
 *
 * A caller that arrives while a call is in progress shares the next call, because the result of the current one may have been
 * determined before the caller arrived.
 */
export class SharedCall<T> {
  readonly #work: () => Promise<T>;
  #running: Promise<T> | undefined;
  #next: Promise<T> | undefined;

  constructor(work: () => Promise<T>) {
    this.#work = work;
  }

  call(): Promise<T> {
    if (!this.#running) return this.#start();
    // the callers of the current call receive its rejection
    this.#next ??= this.#running
      .then(
        () => {},
        () => {},
      )
      .then(() => {
        this.#next = undefined;
        return this.#start();
      });
    return this.#next;
  }

  #start(): Promise<T> {
    const running = this.#work().finally(() => {
      if (this.#running === running) this.#running = undefined;
    });
    this.#running = running;
    return running;
  }
}
