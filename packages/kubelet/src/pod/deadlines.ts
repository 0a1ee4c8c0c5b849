import { Heap, type HeapEntry } from '@oarlock/primitives/collections/heap';
import type { Clock, Timer } from '@oarlock/primitives/clock';

interface Deadline extends HeapEntry {
  readonly key: string;
  readonly at: number;
  readonly fire: () => void;
}

/** The maximum sleep of the timer, because the wall clock may be set forward during a sleep. Milliseconds. */
const maxSleepMs = 60_000;

/** Runs many long deadlines on one timer, for rare events of thousands of pods, such as the renewal of tokens. */
export class DeadlineTimers {
  readonly #clock: Clock;
  readonly #heap = new Heap<Deadline>((a, b) => a.at < b.at);
  readonly #byKey = new Map<string, Deadline>();
  #timer: Timer | undefined;
  #armedFor = Number.POSITIVE_INFINITY;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Calls `fire` once at the time `at` (milliseconds since the epoch). Replaces the previous deadline of the key. */
  set(key: string, at: number, fire: () => void): void {
    this.delete(key);
    const deadline: Deadline = { key, at, fire, heapIndex: -1 };
    this.#byKey.set(key, deadline);
    this.#heap.push(deadline);
    this.#arm();
  }

  delete(key: string): void {
    const deadline = this.#byKey.get(key);
    if (deadline === undefined) return;
    this.#byKey.delete(key);
    this.#heap.remove(deadline);
    if (this.#heap.size === 0) this.#disarm();
  }

  close(): void {
    this.#disarm();
    this.#byKey.clear();
    while (this.#heap.pop());
  }

  #disarm(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#armedFor = Number.POSITIVE_INFINITY;
  }

  #arm(): void {
    const first = this.#heap.peek();
    if (first === undefined || first.at >= this.#armedFor) return;
    this.#disarm();
    this.#armedFor = first.at;
    this.#timer = this.#clock.after(Math.min(maxSleepMs, Math.max(0, first.at - this.#clock.now())), () => {
      this.#timer = undefined;
      this.#armedFor = Number.POSITIVE_INFINITY;
      const now = this.#clock.now();
      for (let due = this.#heap.peek(); due !== undefined && due.at <= now; due = this.#heap.peek()) {
        this.#heap.pop();
        this.#byKey.delete(due.key);
        due.fire();
      }
      this.#arm();
    });
  }
}
