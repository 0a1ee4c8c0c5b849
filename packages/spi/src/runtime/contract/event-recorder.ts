import type { RuntimeDriver, RuntimeEvent } from '../runtime.ts';

/** Records a driver's events, and lets tests wait for them. */
export class EventRecorder {
  readonly items: (RuntimeEvent | 'resync')[] = [];
  readonly #stop = new AbortController();
  readonly #waiters = new Set<() => void>();
  readonly #reading: Promise<void>;
  #failure: unknown;

  constructor(driver: RuntimeDriver) {
    this.#reading = this.#read(driver);
  }

  async #read(driver: RuntimeDriver): Promise<void> {
    try {
      for await (const item of driver.events(this.#stop.signal)) {
        this.items.push(item);
        for (const wake of [...this.#waiters]) wake();
      }
      if (!this.#stop.signal.aborted) throw new Error('the event stream ended although its signal was not aborted');
    } catch (error) {
      if (this.#stop.signal.aborted) return;
      this.#failure = error;
      for (const wake of [...this.#waiters]) wake();
    }
  }

  /** Resolves with the first matching event at or after index `since`. */
  next(
    match: (item: RuntimeEvent | 'resync') => boolean,
    since: number,
    what: string,
    timeoutMs: number,
  ): Promise<RuntimeEvent | 'resync'> {
    return new Promise((resolve, reject) => {
      let position = since;
      const look = () => {
        for (; position < this.items.length; position++) {
          const item = this.items[position];
          if (item !== undefined && match(item)) {
            settle();
            resolve(item);
            return;
          }
        }
        if (this.#failure !== undefined) {
          settle();
          reject(this.#failure);
        }
      };
      const timer = setTimeout(() => {
        settle();
        reject(new Error(`no event within ${timeoutMs} ms: ${what}; events since: ${JSON.stringify(this.items.slice(since))}`));
      }, timeoutMs);
      const settle = () => {
        clearTimeout(timer);
        this.#waiters.delete(look);
      };
      this.#waiters.add(look);
      look();
    });
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#reading;
  }
}
