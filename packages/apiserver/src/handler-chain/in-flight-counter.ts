import type { ExecutionSeat } from '../flowcontrol/priority-and-fairness.ts';

/** Counts requests in progress, for metrics. */
export class InFlightCounter {
  #readOnly = 0;
  #mutating = 0;

  get readOnly(): number {
    return this.#readOnly;
  }
  get mutating(): number {
    return this.#mutating;
  }

  /** Counts a request as in progress until the returned function is called, which also releases the seat. Further calls have no effect. */
  add(readOnly: boolean, seat: ExecutionSeat): () => void {
    if (readOnly) this.#readOnly += 1;
    else this.#mutating += 1;
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      if (readOnly) this.#readOnly -= 1;
      else this.#mutating -= 1;
      seat.release();
    };
  }
}
