import { Heap } from '@oarlock/client/heap';
import type { Clock, Timer } from '@oarlock/kernel/clock';
import type { Waiting } from './scheduling-queue.ts';

const windowMs = 1000;
const windowOf = ({ readyAt }: Waiting) => Math.floor(readyAt / windowMs);

/** Pods whose pause is not over. Those that follow an error are kept apart: trying them again at once would only repeat it. */
export class BackoffPool {
  readonly #clock: Clock;
  readonly #over: (waiting: Waiting) => void;
  readonly #refused: Heap<Waiting>;
  readonly #failed = new Heap<Waiting>((a, b) => a.readyAt < b.readyAt);
  #timer: Timer | undefined;

  /** `before`: who goes first of those that are ready at about the same time. `over` is called with each whose pause has ended. */
  constructor(clock: Clock, before: (a: Waiting, b: Waiting) => boolean, over: (waiting: Waiting) => void) {
    this.#clock = clock;
    this.#over = over;
    this.#refused = new Heap<Waiting>((a, b) => windowOf(a) < windowOf(b) || (windowOf(a) === windowOf(b) && before(a, b)));
  }

  get size(): number {
    return this.#refused.size + this.#failed.size;
  }

  push(waiting: Waiting): void {
    this.#heapOf(waiting).push(waiting);
    this.#arm();
  }
  remove(waiting: Waiting): void {
    this.#heapOf(waiting).remove(waiting);
    this.#arm();
  }
  /** The next of those that were refused, before its time. */
  pop(): Waiting | undefined {
    const waiting = this.#refused.pop();
    if (waiting !== undefined) this.#arm();
    return waiting;
  }
  close(): void {
    this.#timer?.cancel();
  }

  #heapOf({ place }: Waiting): Heap<Waiting> {
    return place === 'backoff' ? this.#refused : this.#failed;
  }

  #arm(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    const ends = [this.#refused.peek(), this.#failed.peek()].flatMap((first) => (first === undefined ? [] : [first.readyAt]));
    if (ends.length === 0) return;
    this.#timer = this.#clock.after(Math.min(...ends) - this.#clock.monotonic(), () => {
      this.#timer = undefined;
      const now = this.#clock.monotonic();
      for (const heap of [this.#refused, this.#failed]) {
        for (let due = heap.peek(); due !== undefined && due.readyAt <= now; due = heap.peek()) {
          heap.pop();
          this.#over(due);
        }
      }
      this.#arm();
    });
  }
}
