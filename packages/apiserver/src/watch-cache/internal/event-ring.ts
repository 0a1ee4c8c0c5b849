import type { WatchCacheEvent } from '../item.ts';

/** Kept at least so long, as far as `most` allows, so that a client can come back after a short disconnect. */
const freshMs = 75_000;
/** Forgotten after so long, so that idle resources hold no old versions. */
const staleMs = 5 * 60_000;
const minCapacity = 64;

/** The newest events of one resource, in order of revision. Bounded in number; grows only while events come faster than they age. */
export class EventRing {
  readonly #most: number;
  #slots: (WatchCacheEvent | undefined)[] = [];
  #times: number[] = [];
  #start = 0;
  #length = 0;
  #floor: number;
  #increases = 0;
  #decreases = 0;

  constructor(floor: number, most = 16_384) {
    this.#floor = floor;
    this.#most = most;
  }

  /** Every event after this revision is still here. */
  get oldestRevision(): number {
    return this.#floor;
  }
  get length(): number {
    return this.#length;
  }
  /** Events that there is room for. */
  get capacity(): number {
    return this.#slots.length;
  }
  /** How often room was added, and given back. */
  get increases(): number {
    return this.#increases;
  }
  get decreases(): number {
    return this.#decreases;
  }

  /** Forgets all; events count from `floor` anew. */
  reset(floor: number): void {
    this.#slots = [];
    this.#times = [];
    this.#start = 0;
    this.#length = 0;
    this.#floor = floor;
  }

  push(event: WatchCacheEvent, now: number): void {
    if (this.#length === this.#slots.length) {
      const oldest = this.#times[this.#start] ?? now;
      if (this.#length < minCapacity || (this.#length < this.#most && now - oldest < freshMs)) this.#grow();
      else this.#drop();
    }
    const at = (this.#start + this.#length) % this.#slots.length;
    this.#slots[at] = event;
    this.#times[at] = now;
    this.#length++;
  }

  /** Forgets what is older than anybody is expected to come back for. */
  trim(now: number): void {
    while (this.#length > 0 && now - (this.#times[this.#start] ?? now) > staleMs) this.#drop();
    if (this.#length > 0 || this.#slots.length <= minCapacity) return;
    this.reset(this.#floor);
    this.#decreases++;
  }

  /** Events after `revision`, oldest first. Only sound for `revision >= floor`. */
  after(revision: number): WatchCacheEvent[] {
    let low = 0;
    let high = this.#length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#at(middle)?.revision ?? 0) <= revision) low = middle + 1;
      else high = middle;
    }
    const events: WatchCacheEvent[] = [];
    for (let i = low; i < this.#length; i++) {
      const event = this.#at(i);
      if (event !== undefined) events.push(event);
    }
    return events;
  }

  #at(index: number): WatchCacheEvent | undefined {
    return this.#slots[(this.#start + index) % this.#slots.length];
  }

  #drop(): void {
    this.#floor = this.#slots[this.#start]?.revision ?? this.#floor;
    this.#slots[this.#start] = undefined;
    this.#start = (this.#start + 1) % this.#slots.length;
    this.#length--;
  }

  #grow(): void {
    this.#increases++;
    const size = Math.min(Math.max(minCapacity, this.#slots.length * 2), this.#most);
    const slots: (WatchCacheEvent | undefined)[] = Array.from({ length: size });
    const times = Array.from({ length: size }, () => 0);
    for (let i = 0; i < this.#length; i++) {
      const at = (this.#start + i) % this.#slots.length;
      slots[i] = this.#slots[at];
      times[i] = this.#times[at] ?? 0;
    }
    this.#slots = slots;
    this.#times = times;
    this.#start = 0;
  }
}
