import type { WatchCacheEvent } from '../watch-cache-event.ts';
import { watchCacheLimits } from '../watch-cache-limits.ts';
import { EventRingMemory } from './event-ring-memory.ts';

/** The age up to which events are kept as far as the limits allow, so that a client can resume its watch after a short disconnection. */
const freshMs = 75_000;
/** The age above which events are dropped, so that idle resources do not keep replaced objects in memory. */
const staleMs = 5 * 60_000;
const minCapacity = 64;
const defaultMaxEvents = 16_384;

export interface EventRingOptions {
  readonly maxEvents?: number;
  readonly maxBytes?: number;
  /** The limit that the rings of all resources share. */
  readonly memory?: EventRingMemory;
}

/**
 * A ring buffer of the newest events of one resource, in order of revision (watchCache.cache upstream). Limited in number and bytes; grows only
 * while events arrive faster than they expire.
 */
export class EventRing {
  readonly #maxEvents: number;
  readonly #maxBytes: number;
  readonly #memory: EventRingMemory;
  #slots: (WatchCacheEvent | undefined)[] = [];
  #times: number[] = [];
  #start = 0;
  #length = 0;
  #bytes = 0;
  #oldestRevision: number;
  #increases = 0;
  #decreases = 0;

  constructor(
    oldestRevision: number,
    {
      maxEvents = defaultMaxEvents,
      maxBytes = watchCacheLimits.ringBytes,
      memory = new EventRingMemory(watchCacheLimits.totalRingBytes),
    }: EventRingOptions = {},
  ) {
    this.#oldestRevision = oldestRevision;
    this.#maxEvents = maxEvents;
    this.#maxBytes = maxBytes;
    this.#memory = memory;
    memory.add(this);
  }

  /** The revision after which the ring contains every event. */
  get oldestRevision(): number {
    return this.#oldestRevision;
  }
  get length(): number {
    return this.#length;
  }
  /** The encoded size of the replaced and deleted objects in the ring, with an overhead per event. */
  get bytes(): number {
    return this.#bytes;
  }
  /** The number of events for which the ring has slots. */
  get capacity(): number {
    return this.#slots.length;
  }
  /** Number of times that the capacity was increased. */
  get increases(): number {
    return this.#increases;
  }
  /** Number of times that the capacity was decreased. */
  get decreases(): number {
    return this.#decreases;
  }

  /** Drops all events. The ring then contains the events after `oldestRevision`. */
  reset(oldestRevision: number): void {
    this.#memory.resize(-this.#bytes);
    this.#slots = [];
    this.#times = [];
    this.#start = 0;
    this.#length = 0;
    this.#bytes = 0;
    this.#oldestRevision = oldestRevision;
  }

  /** Drops all events and leaves the shared limit. The ring must not be used afterwards. */
  close(): void {
    this.reset(this.#oldestRevision);
    this.#memory.remove(this);
  }

  push(event: WatchCacheEvent, now: number): void {
    if (this.#length === this.#slots.length) {
      const oldest = this.#times[this.#start] ?? now;
      if (this.#length < minCapacity || (this.#length < this.#maxEvents && now - oldest < freshMs)) this.#grow();
      else this.dropOldest();
    }
    const at = (this.#start + this.#length) % this.#slots.length;
    this.#slots[at] = event;
    this.#times[at] = now;
    this.#length++;
    this.#bytes += event.replacedBytes;
    this.#memory.resize(event.replacedBytes);
    while (this.#bytes > this.#maxBytes) this.dropOldest();
    this.#memory.enforce();
  }

  /** Drops events that are older than `staleMs`. */
  trim(now: number): void {
    while (this.#length > 0 && now - (this.#times[this.#start] ?? now) > staleMs) this.dropOldest();
    if (this.#length > 0 || this.#slots.length <= minCapacity) return;
    this.reset(this.#oldestRevision);
    this.#decreases++;
  }

  /** Returns the events after `revision`, oldest first. The list is complete only if `revision` is at least `oldestRevision`. */
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

  dropOldest(): void {
    const event = this.#slots[this.#start];
    if (event === undefined) return;
    this.#oldestRevision = event.revision;
    this.#bytes -= event.replacedBytes;
    this.#memory.resize(-event.replacedBytes);
    this.#slots[this.#start] = undefined;
    this.#start = (this.#start + 1) % this.#slots.length;
    this.#length--;
  }

  #at(index: number): WatchCacheEvent | undefined {
    return this.#slots[(this.#start + index) % this.#slots.length];
  }

  #grow(): void {
    this.#increases++;
    const size = Math.min(Math.max(minCapacity, this.#slots.length * 2), this.#maxEvents);
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
