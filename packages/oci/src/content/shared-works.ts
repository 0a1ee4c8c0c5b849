import { setMaxListeners } from 'node:events';

interface SharedWork<T, P> {
  readonly controller: AbortController;
  readonly listeners: Set<(progress: P) => void>;
  waiters: number;
  result: Promise<T>;
  last: P | undefined;
}

/**
 * Runs work once per key and shares its result and progress among the callers that arrive before it ends. The work is aborted when the signals of all its
 * callers have aborted.
 */
export class SharedWorks<T, P> {
  readonly #works = new Map<string, SharedWork<T, P>>();

  keys(): readonly string[] {
    return [...this.#works.keys()];
  }

  async run(
    key: string,
    {
      signal,
      onProgress,
      work,
    }: { signal: AbortSignal; onProgress(progress: P): void; work(signal: AbortSignal, report: (progress: P) => void): Promise<T> },
  ): Promise<T> {
    signal.throwIfAborted();
    for (let running = this.#works.get(key); running; running = this.#works.get(key)) {
      if (!running.controller.signal.aborted) return this.#join(running, signal, onProgress);
      await running.result.catch(() => undefined); // the callers of the aborted work receive its error
      signal.throwIfAborted();
    }
    return this.#join(this.#start(key, work), signal, onProgress);
  }

  #start(key: string, work: (signal: AbortSignal, report: (progress: P) => void) => Promise<T>): SharedWork<T, P> {
    const started: SharedWork<T, P> = {
      controller: new AbortController(),
      listeners: new Set(),
      waiters: 0,
      result: Promise.resolve() as never,
      last: undefined,
    };
    this.#works.set(key, started);
    const report = (progress: P) => {
      started.last = progress;
      for (const listener of started.listeners) listener(progress);
    };
    // the work starts after the caller has joined, so that the caller receives the first progress
    started.result = Promise.resolve()
      .then(() => work(started.controller.signal, report))
      .finally(() => this.#works.delete(key));
    return started;
  }

  #join(running: SharedWork<T, P>, signal: AbortSignal, onProgress: (progress: P) => void): Promise<T> {
    running.waiters += 1;
    running.listeners.add(onProgress);
    if (running.last !== undefined) onProgress(running.last);
    return new Promise((resolve, reject) => {
      const leave = () => {
        signal.removeEventListener('abort', abort);
        running.listeners.delete(onProgress);
      };
      const abort = () => {
        leave();
        running.waiters -= 1;
        if (running.waiters > 0) {
          reject(signal.reason as Error);
          return;
        }
        running.controller.abort(signal.reason);
        // the last caller waits until the work has ended, so that it can remove what the work left
        running.result.then(resolve, () => reject(signal.reason as Error));
      };
      setMaxListeners(0, signal); // each layer of an image adds a listener while it is pulled
      signal.addEventListener('abort', abort, { once: true });
      running.result.then(
        (result) => {
          leave();
          resolve(result);
        },
        (error: Error) => {
          leave();
          reject(error);
        },
      );
    });
  }
}
