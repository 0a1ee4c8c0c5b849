import type { Clock, Timer } from '@oarlock/kernel/clock';

export interface ExpiryItem {
  deadline: number;
  /** Place in the heap; -1 when in none. */
  slot: number;
}

/** Items in order of their deadlines: a binary heap whose items know their place, so that a new deadline takes the place of the old one. */
export class Expiry<T extends ExpiryItem> {
  readonly #clock: Clock;
  readonly #due: () => void;
  readonly #heap: T[] = [];
  #timer: Timer | undefined;
  #armed = Infinity;

  /** `due` is called when at least one item is. It is to call `take`. */
  constructor(clock: Clock, due: () => void) {
    this.#clock = clock;
    this.#due = due;
  }

  get size(): number {
    return this.#heap.length;
  }

  set(item: T, seconds: number): void {
    item.deadline = this.#clock.monotonic() + seconds * 1000;
    if (item.slot < 0) {
      item.slot = this.#heap.length;
      this.#heap.push(item);
    }
    this.#up(item);
    this.#down(item);
    this.#arm();
  }

  clear(item: T): void {
    if (item.slot < 0) return;
    const last = this.#heap.pop() as T;
    if (last !== item) {
      last.slot = item.slot;
      this.#heap[last.slot] = last;
      this.#up(last);
      this.#down(last);
    }
    item.slot = -1;
  }

  /** Removes and returns items that are due, `limit` at most, and sees to it that the others are called for. */
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

  /** A timer that fires for nothing is let be: deadlines mostly move back. */
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
    while (item.slot > 0) {
      const parent = this.#heap[(item.slot - 1) >> 1] as T;
      if (parent.deadline <= item.deadline) return;
      this.#swap(parent, item);
    }
  }

  #down(item: T): void {
    for (;;) {
      const left = this.#heap[item.slot * 2 + 1];
      const right = this.#heap[item.slot * 2 + 2];
      const child = right && left && right.deadline < left.deadline ? right : left;
      if (!child || child.deadline >= item.deadline) return;
      this.#swap(item, child);
    }
  }

  #swap(upper: T, lower: T): void {
    const slot = upper.slot;
    this.#heap[lower.slot] = upper;
    this.#heap[slot] = lower;
    upper.slot = lower.slot;
    lower.slot = slot;
  }
}
