/** Milliseconds: half of what the loop may be held for, since one step may overrun. */
const usual = 5;
const whileAwaited = 1;

/**
 * Keeps long pieces of work from holding the event loop: `while (eventLoop.held) await eventLoop.turn();` between two steps.
 * It goes by real time whatever clock the cluster runs on, since simulated time holds nobody up; and there is one of it, as there is one loop.
 */
class EventLoop {
  #began = 0;
  #next: Promise<void> | undefined;
  #awaited = 0;

  /** Whether somebody outside this process waits for an answer. */
  get awaited(): boolean {
    return this.#awaited > 0;
  }

  /** For how long work inside may keep the loop from turning. An answer takes some turns: while one is awaited they are short. */
  get budgetMs(): number {
    return this.#awaited > 0 ? whileAwaited : usual;
  }

  /** Whether those who ask here have kept the loop from turning for longer than the budget. */
  get held(): boolean {
    if (this.#next === undefined) {
      this.#begin();
      return false;
    }
    return performance.now() - this.#began > this.budgetMs;
  }

  /** Resolves when the loop has turned: timers, sockets and whatever else waits have had their chance. */
  turn(): Promise<void> {
    return this.#next ?? this.#begin();
  }

  /** Somebody outside waits, until what is returned is called. */
  await(): () => void {
    this.#awaited += 1;
    let waits = true;
    return () => {
      if (waits) this.#awaited -= 1;
      waits = false;
    };
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

export const eventLoop = new EventLoop();
