/**
 * One call for all who ask at about the same time. Who asks while a call is under way shares the next one: the answer to this one may
 * have been decided before they asked.
 */
export class Shared<T> {
  readonly #make: () => Promise<T>;
  #running: Promise<T> | undefined;
  #next: Promise<T> | undefined;

  constructor(make: () => Promise<T>) {
    this.#make = make;
  }

  call(): Promise<T> {
    if (!this.#running) return this.#start();
    // the outcome of the one under way belongs to those who asked for it
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
    const running = this.#make().finally(() => {
      if (this.#running === running) this.#running = undefined;
    });
    this.#running = running;
    return running;
  }
}
