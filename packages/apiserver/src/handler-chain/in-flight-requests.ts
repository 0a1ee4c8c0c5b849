import type { ExecutionSeat } from '../flowcontrol/priority-and-fairness.ts';

/** How many requests are worked on, for metrics. */
export class InFlightCounter {
  #readOnly = 0;
  #mutating = 0;

  get readOnly(): number {
    return this.#readOnly;
  }
  get mutating(): number {
    return this.#mutating;
  }

  /** Counts a request until the returned function is called, which also gives its place back; more calls do nothing. */
  add(readOnly: boolean, place: ExecutionSeat): () => void {
    if (readOnly) this.#readOnly += 1;
    else this.#mutating += 1;
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      if (readOnly) this.#readOnly -= 1;
      else this.#mutating -= 1;
      place.release();
    };
  }
}
