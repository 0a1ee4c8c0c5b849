/** Budget of synchronous work in milliseconds: half of the longest acceptable block, because one step may overrun. */
const defaultBudgetMs = 5;
/** The budget while a remote caller waits: its response takes several iterations of the event loop. */
const awaitedBudgetMs = 1;

/**
 * Lets long synchronous work yield cooperatively: `while (eventLoop.shouldYield) await eventLoop.yield();` between two steps.
 *
 * It measures real time even if the cluster runs on a simulated clock, because the event loop blocks in real time. There is
 * one instance, because a process has one event loop on its main thread.
 */
class EventLoop {
  #startedAt = 0;
  #next: Promise<void> | undefined;
  #waiters = 0;

  /** True if a caller outside this process waits for a response. */
  get hasWaiters(): boolean {
    return this.#waiters > 0;
  }

  /** How long work may block the event loop, in milliseconds; shorter while a caller waits. */
  get budgetMs(): number {
    return this.#waiters > 0 ? awaitedBudgetMs : defaultBudgetMs;
  }

  /** True if the callers of this property together have blocked the event loop for longer than the budget. */
  get shouldYield(): boolean {
    if (this.#next === undefined) {
      this.#begin();
      return false;
    }
    return performance.now() - this.#startedAt > this.budgetMs;
  }

  /** Resolves after the next iteration of the event loop, in which timers and sockets were served. */
  yield(): Promise<void> {
    return this.#next ?? this.#begin();
  }

  /** Registers a caller outside this process that waits for a response. Returns a function that unregisters it. */
  addWaiter(): () => void {
    this.#waiters += 1;
    let active = true;
    return () => {
      if (active) this.#waiters -= 1;
      active = false;
    };
  }

  #begin(): Promise<void> {
    this.#startedAt = performance.now();
    this.#next = new Promise((resolve) => {
      setImmediate(() => {
        this.#next = undefined;
        resolve();
      });
    });
    return this.#next;
  }
}

export const eventLoop = new EventLoop();
