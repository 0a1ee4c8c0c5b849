import type { Clock } from '@oarlock/primitives/clock';

interface Waiter {
  readonly revision: number;
  settle(reached: boolean): void;
}

/** How far the stream of changes has come, and who waits for it to come further. */
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
    const waiting: Waiter[] = [];
    for (const waiter of this.#waiters) {
      if (waiter.revision <= revision) waiter.settle(true);
      else waiting.push(waiter);
    }
    this.#waiters = waiting;
  }

  /** Whether the stream came so far within the time. Rejects with the signal's reason. */
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
        settle: (reached) => {
          release();
          resolve(reached);
        },
      };
      const leave = () => {
        this.#waiters = this.#waiters.filter((other) => other !== waiter);
      };
      const timer = this.#clock.after(timeoutMs, () => {
        leave();
        waiter.settle(false);
      });
      const abort = () => {
        leave();
        release();
        reject(signal?.reason);
      };
      signal?.addEventListener('abort', abort, { once: true });
      this.#waiters.push(waiter);
    });
  }
}
