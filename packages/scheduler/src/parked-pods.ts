import type { Clock, Timer } from '@oarlock/kernel/clock';
import type { RequeueOn } from '@oarlock/spi/scheduling';
import { RequeueIndex } from './requeue-index.ts';
import type { Waiting } from './waiting.ts';

/** Pods are tried again after so long even if nothing happened that might help: against a hint that is wrong. */
const longestWaitMs = 5 * 60_000;

/** Pods that wait for something to change: unschedulable ones, at most five minutes, and gated ones. */
export class ParkedPods {
  readonly #clock: Clock;
  readonly #overdue: (waiting: Waiting) => void;
  readonly #all = new RequeueIndex<Waiting>();
  /** Those that are not gated, who waits longest first. */
  readonly #unschedulable = new Set<Waiting>();
  #timer: Timer | undefined;
  #closed = false;

  /** `overdue` is called with each that has waited too long; it has been taken out. */
  constructor(clock: Clock, overdue: (waiting: Waiting) => void) {
    this.#clock = clock;
    this.#overdue = overdue;
  }

  get unschedulable(): number {
    return this.#unschedulable.size;
  }
  get gated(): number {
    return this.#all.size - this.#unschedulable.size;
  }

  /** `wanted`: what each of those who refused it waits for. */
  add(waiting: Waiting, place: 'unschedulable' | 'gated', wanted: readonly (readonly RequeueOn[] | undefined)[]): void {
    waiting.place = place;
    waiting.parkedAt = this.#clock.monotonic();
    this.#all.add(waiting, wanted);
    if (place === 'gated') return;
    this.#unschedulable.add(waiting);
    this.#arm();
  }

  delete(waiting: Waiting): void {
    this.#all.delete(waiting);
    this.#unschedulable.delete(waiting);
  }

  /** Those that a change may help. */
  waitingFor(kind: string, on: RequeueOn['on'][number]): readonly Waiting[] {
    return this.#all.waitingFor(kind, on);
  }

  refusedBy(plugin: string): readonly Waiting[] {
    return [...this.#all.values()].filter(({ refusedBy }) => refusedBy.has(plugin));
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
  }

  #longest(): Waiting | undefined {
    return this.#unschedulable.values().next().value;
  }

  #arm(): void {
    const longest = this.#longest();
    if (this.#timer !== undefined || this.#closed || longest === undefined) return;
    this.#timer = this.#clock.after(longest.parkedAt + longestWaitMs - this.#clock.monotonic(), () => {
      this.#timer = undefined;
      const now = this.#clock.monotonic();
      for (let due = this.#longest(); due !== undefined && due.parkedAt + longestWaitMs <= now; due = this.#longest()) {
        this.delete(due);
        this.#overdue(due);
      }
      this.#arm();
    });
  }
}
