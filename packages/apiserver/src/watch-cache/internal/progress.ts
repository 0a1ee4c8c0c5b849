import type { Clock } from '@oarlock/primitives/clock';

interface Waiter {
  readonly revision: number;
  complete(reached: boolean): void;
}

/** The revision that the watch of storage has reached, and the callers that wait for a later revision (waitUntilFreshAndBlock upstream). */
export class RevisionProgress {
  readonly #clock: Clock;
  #revision = 0;
  #waiters: Waiter[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get revision(): number {
    return this.#revision;
  }

  advance(revision: number): void {
    if (revision <= this.#revision) return;
    this.#revision = revision;
    if (this.#waiters.length === 0) return;
    const remaining: Waiter[] = [];
    for (const waiter of this.#waiters) {
      if (waiter.revision <= revision) waiter.complete(true);
      else remaining.push(waiter);
    }
    this.#waiters = remaining;
  }

  /** Resolves to true when the revision is reached, or to false after the timeout. Rejects with the signal's reason if it aborts. */
  waitFor(revision: number, timeoutMs: number, signal?: AbortSignal): Promise<boolean> {
    if (revision <= this.#revision) return Promise.resolve(true);
    if (signal?.aborted) return Promise.reject(signal.reason);
    return new Promise((resolve, reject) => {
      const release = () => {
        timer.cancel();
        signal?.removeEventListener('abort', abort);
      };
      const waiter: Waiter = {
        revision,
        complete: (reached) => {
          release();
          resolve(reached);
        },
      };
      const removeWaiter = () => {
        this.#waiters = this.#waiters.filter((other) => other !== waiter);
      };
      const timer = this.#clock.after(timeoutMs, () => {
        removeWaiter();
        waiter.complete(false);
      });
      const abort = () => {
        removeWaiter();
        release();
        reject(signal?.reason);
      };
      signal?.addEventListener('abort', abort, { once: true });
      this.#waiters.push(waiter);
    });
  }
}
