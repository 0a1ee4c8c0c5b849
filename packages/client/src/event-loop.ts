/**
 * Keeps long pieces of work from holding the event loop: `while (eventLoop.held) await eventLoop.turn();` between two steps.
 * It goes by real time whatever clock the cluster runs on, since simulated time holds nobody up; and there is one of it, as there is one loop.
 */
class EventLoop {
  readonly #budgetMs: number;
  #began = 0;
  #next: Promise<void> | undefined;

  constructor(budgetMs: number) {
    this.#budgetMs = budgetMs;
  }

  /** Whether those who ask here have kept the loop from turning for longer than the budget. */
  get held(): boolean {
    if (this.#next === undefined) {
      this.#begin();
      return false;
    }
    return performance.now() - this.#began > this.#budgetMs;
  }

  /** Resolves when the loop has turned: timers, sockets and whatever else waits have had their chance. */
  turn(): Promise<void> {
    return this.#next ?? this.#begin();
  }

  #begin(): Promise<void> {
    this.#began = performance.now();
    this.#next = new Promise((resolve) => {
      setImmediate(() => {
        this.#next = undefined;
        resolve();
      });
    });
    return this.#next;
  }
}

/** Milliseconds: half of what the loop may be held for, since one step may overrun. */
export const eventLoop = new EventLoop(5);
