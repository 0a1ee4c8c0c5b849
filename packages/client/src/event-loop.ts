/** Lets the event loop turn once: timers, sockets and whatever else waits get their chance. */
export const turn = (): Promise<void> => new Promise((resolve) => { setImmediate(resolve); });

/**
 * Tells a long piece of work when it has held the event loop for long enough. It goes by real time whatever clock the cluster runs on:
 * simulated time holds nobody up.
 */
export class TimeSlice {
  readonly #budgetMs: number;
  #began = performance.now();
  #calls = 0;

  constructor(budgetMs = 5) {
    this.#budgetMs = budgetMs;
  }

  /** Whether to `await pause()` now. Cheap: looks at the time on every 16th call. */
  get spent(): boolean {
    return (++this.#calls & 15) === 0 && performance.now() - this.#began > this.#budgetMs;
  }

  async pause(): Promise<void> {
    await turn();
    this.#began = performance.now();
  }
}
