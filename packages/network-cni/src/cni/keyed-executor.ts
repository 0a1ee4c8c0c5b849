/** Runs asynchronous work: at most one item per key at a time, at most a fixed number in total, and no item concurrently with exclusive work. */
export class KeyedExecutor {
  readonly #limit: number;
  readonly #busy = new Map<string, Promise<unknown>>();
  readonly #waiting: (() => void)[] = [];
  #running = 0;
  #exclusive: Promise<unknown> | undefined;
  #idle: (() => void) | undefined;

  constructor(limit: number) {
    this.#limit = limit;
  }

  isBusy(key: string): boolean {
    return this.#busy.has(key);
  }

  async run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const step = () => this.#admitted(work);
    const before = this.#busy.get(key);
    const run = before ? before.then(step, step) : step();
    this.#busy.set(key, run);
    try {
      return await run;
    } finally {
      if (this.#busy.get(key) === run) this.#busy.delete(key);
    }
  }

  /** Runs `work` when all running work has ended. Work that is added later starts after `work` has ended. */
  async exclusive<T>(work: () => Promise<T>): Promise<T> {
    while (this.#exclusive) await this.#exclusive;
    const run = (
      this.#running === 0
        ? Promise.resolve()
        : new Promise<void>((resolve) => {
            this.#idle = resolve;
          })
    ).then(work);
    this.#exclusive = run.then(
      () => undefined,
      () => undefined,
    );
    try {
      return await run;
    } finally {
      this.#exclusive = undefined;
    }
  }

  async #admitted<T>(work: () => Promise<T>): Promise<T> {
    while (this.#exclusive) await this.#exclusive;
    if (this.#running >= this.#limit)
      await new Promise<void>((resolve) => {
        this.#waiting.push(resolve);
      });
    else this.#running++;
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next)
        next(); // takes over this slot
      else if (--this.#running === 0) {
        this.#idle?.();
        this.#idle = undefined;
      }
    }
  }
}
