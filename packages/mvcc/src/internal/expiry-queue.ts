import type { Clock, Timer } from '@oarlock/primitives/clock';

export interface ExpiryItem {
  deadline: number;
  /** Index of the item in the heap; -1 if the item is not in a heap. */
  heapIndex: number;
}

/** A queue of items ordered by deadline: a binary heap whose items store their index, so that a new deadline replaces the previous one. */
export class ExpiryQueue<T extends ExpiryItem> {
  readonly #clock: Clock;
  readonly #due: () => void;
  readonly #heap: T[] = [];
  #timer: Timer | undefined;
  #armed = Infinity;

  /** Calls `due` when at least one deadline has passed; `due` must call `take`. */
  constructor(clock: Clock, due: () => void) {
    this.#clock = clock;
    this.#due = due;
  }

  get size(): number {
    return this.#heap.length;
  }

  set(item: T, seconds: number): void {
    item.deadline = this.#clock.monotonic() + seconds * 1000;
    if (item.heapIndex < 0) {
      item.heapIndex = this.#heap.length;
      this.#heap.push(item);
    }
    this.#up(item);
    this.#down(item);
    this.#arm();
  }

  clear(item: T): void {
    if (item.heapIndex < 0) return;
    const last = this.#heap.pop() as T;
    if (last !== item) {
      last.heapIndex = item.heapIndex;
      this.#heap[last.heapIndex] = last;
      this.#up(last);
      this.#down(last);
    }
    item.heapIndex = -1;
  }

  /** Removes and returns at most `limit` expired items. If more items are expired, `due` is called again. */
  take(limit: number): T[] {
    const now = this.#clock.monotonic();
    const items: T[] = [];
    for (let item = this.#heap[0]; item && item.deadline <= now && items.length < limit; item = this.#heap[0]) {
      this.clear(item);
      items.push(item);
    }
    this.#arm();
    return items;
  }

  stop(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  /** Arms the timer for the first deadline. A timer is not canceled when that deadline is postponed, which is the common case. */
  #arm(): void {
    const next = this.#heap[0]?.deadline ?? Infinity;
    if (next >= this.#armed) return;
    this.#timer?.cancel();
    this.#armed = next;
    this.#timer = this.#clock.after(next - this.#clock.monotonic(), () => {
      this.#armed = Infinity;
      if ((this.#heap[0]?.deadline ?? Infinity) <= this.#clock.monotonic()) this.#due();
      else this.#arm();
    });
  }

  #up(item: T): void {
    while (item.heapIndex > 0) {
      const parent = this.#heap[(item.heapIndex - 1) >> 1] as T;
      if (parent.deadline <= item.deadline) return;
      this.#swap(parent, item);
    }
  }

  #down(item: T): void {
    for (;;) {
      const left = this.#heap[item.heapIndex * 2 + 1];
      const right = this.#heap[item.heapIndex * 2 + 2];
      const child = right && left && right.deadline < left.deadline ? right : left;
      if (!child || child.deadline >= item.deadline) return;
      this.#swap(item, child);
    }
  }

  #swap(upper: T, lower: T): void {
    const slot = upper.heapIndex;
    this.#heap[lower.heapIndex] = upper;
    this.#heap[slot] = lower;
    upper.heapIndex = lower.heapIndex;
    lower.heapIndex = slot;
  }
}
