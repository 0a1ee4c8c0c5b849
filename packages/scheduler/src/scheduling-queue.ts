import { Heap, type HeapEntry } from '@oarlock/client/heap';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { Clock, Timer } from '@oarlock/kernel/clock';
import type { Cause } from '@oarlock/kernel/tracing';
import type { Outcome, QueuedPod, RequeueOn } from '@oarlock/spi/scheduling';
import { podInfo } from './amounts.ts';

export interface Waiting extends QueuedPod, HeapEntry {
  pod: Pod;
  attempts: number;
  cause: Cause | undefined;
  /** Since when it waits to be tried, in milliseconds since the epoch. */
  enqueuedAt: number;
  /** When its back-off ends, on the monotonic clock. */
  readyAt: number;
  /** Names of the plugins that refused it last; empty: anything may help. */
  refusedBy: ReadonlySet<string>;
  place: 'active' | 'backoff' | 'error-backoff' | 'unschedulable' | 'gated' | 'in-flight';
  /** An event that might help came while it was being tried. */
  movedMeanwhile: boolean;
  order: number;
}

export interface QueueOptions {
  readonly clock: Clock;
  readonly less: (a: QueuedPod, b: QueuedPod) => number;
  readonly preEnqueue: (pod: Pod) => Outcome;
  readonly requeueOn: ReadonlyMap<string, readonly RequeueOn[]>;
  readonly initialBackoffMs: number;
  readonly maxBackoffMs: number;
}

/** Pods are tried again after so long even if nothing happened that might help: against a hint that is wrong. */
const longestWaitMs = 5 * 60_000;
const backoffWindowMs = 1000;

/**
 * Pods that have no node yet: to be tried now, after a back-off, or when something changes that may help. Who has nothing else to do
 * does not wait for a back-off to end (KEP-5142), unless it follows an error: trying again at once would only repeat it.
 */
export class SchedulingQueue {
  readonly #options: QueueOptions;
  readonly #pods = new Map<string, Waiting>();
  readonly #active: Heap<Waiting>;
  readonly #backoff: Heap<Waiting>;
  readonly #errorBackoff = new Heap<Waiting>((a, b) => a.readyAt < b.readyAt);
  readonly #unschedulable = new Set<Waiting>();
  readonly #inFlight = new Set<Waiting>();
  #timer: Timer | undefined;
  #sweep: Timer | undefined;
  #waiter: ((pod: Waiting | undefined) => void) | undefined;
  #order = 0;
  #closed = false;

  constructor(options: QueueOptions) {
    this.#options = options;
    const before = (a: Waiting, b: Waiting) => {
      const by = options.less(a, b);
      return by < 0 || (by === 0 && a.order < b.order);
    };
    const windowOf = ({ readyAt }: Waiting) => Math.floor(readyAt / backoffWindowMs);
    this.#active = new Heap<Waiting>(before);
    // who is ready at about the same time goes by rank
    this.#backoff = new Heap<Waiting>((a, b) => windowOf(a) < windowOf(b) || (windowOf(a) === windowOf(b) && before(a, b)));
  }

  get depth(): { readonly active: number; readonly backoff: number; readonly unschedulable: number } {
    return { active: this.#active.size, backoff: this.#backoff.size + this.#errorBackoff.size, unschedulable: this.#unschedulable.size };
  }

  add(pod: Pod, cause: Cause | undefined): void {
    const info = podInfo(pod);
    if (this.#pods.has(info.key)) {
      this.update(pod, cause);
      return;
    }
    const now = this.#options.clock.now();
    const waiting: Waiting = {
      ...info,
      queuedAt: now,
      enqueuedAt: now,
      attempts: 0,
      cause,
      readyAt: 0,
      refusedBy: new Set(),
      place: 'gated',
      movedMeanwhile: false,
      heapIndex: -1,
      order: this.#order++,
    };
    this.#pods.set(info.key, waiting);
    this.#admit(waiting);
  }

  /** A change of the pod itself may help it, unless only its status changed. */
  update(pod: Pod, cause: Cause | undefined): void {
    const key = podInfo(pod).key;
    const waiting = this.#pods.get(key);
    if (waiting === undefined) {
      this.add(pod, cause);
      return;
    }
    const relevant = waiting.pod.spec !== pod.spec || waiting.pod.metadata?.labels !== pod.metadata?.labels;
    Object.assign(waiting, podInfo(pod));
    if (!relevant) return;
    if (waiting.place === 'gated') this.#admit(waiting);
    else if (waiting.place === 'unschedulable' || waiting.place === 'in-flight') this.#move(waiting, cause);
  }

  remove(key: string): void {
    const waiting = this.#pods.get(key);
    if (waiting === undefined) return;
    this.#pods.delete(key);
    this.#take(waiting);
  }

  has(key: string): boolean {
    return this.#pods.has(key);
  }

  /** The pod to try next. It stays the queue's until `done` or `failed`. Undefined when the queue is closed. One caller at a time. */
  next(): Promise<Waiting | undefined> {
    const waiting = this.#closed ? undefined : this.#pop();
    if (waiting !== undefined || this.#closed) return Promise.resolve(waiting);
    return new Promise((resolve) => {
      this.#waiter = resolve;
    });
  }

  /** Has its node. */
  done(waiting: Waiting): void {
    this.#inFlight.delete(waiting);
    if (this.#pods.get(waiting.key) === waiting) this.#pods.delete(waiting.key);
  }

  /** Has none: waits for what the refusing plugins wait for, or for its back-off when nobody in particular refused it. */
  failed(waiting: Waiting, refusedBy: ReadonlySet<string>): void {
    this.#inFlight.delete(waiting);
    if (this.#pods.get(waiting.key) !== waiting || this.#closed) return;
    waiting.refusedBy = refusedBy;
    waiting.readyAt = this.#options.clock.monotonic() + this.#backoffOf(waiting);
    if (waiting.movedMeanwhile || refusedBy.size === 0) {
      this.#toBackoff(waiting);
      return;
    }
    waiting.place = 'unschedulable';
    this.#unschedulable.add(waiting);
    this.#sweep ??= this.#options.clock.after(longestWaitMs, () => {
      this.#sweep = undefined;
      for (const each of [...this.#unschedulable]) this.#move(each, undefined);
    });
  }

  /** Something changed: pods refused by plugins that wait for such a change are tried again. */
  moved(kind: string, on: 'added' | 'updated' | 'deleted', old: unknown, now: unknown, cause: Cause | undefined): void {
    for (const waiting of [...this.#inFlight, ...this.#unschedulable]) {
      // who will refuse a pod that is being tried is not known yet
      if (waiting.place === 'in-flight' || this.#helps(waiting, kind, on, old, now)) this.#move(waiting, cause);
    }
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
    this.#sweep?.cancel();
    this.#waiter?.(undefined);
    this.#waiter = undefined;
  }

  #helps(waiting: Waiting, kind: string, on: 'added' | 'updated' | 'deleted', old: unknown, now: unknown): boolean {
    for (const name of waiting.refusedBy) {
      const wanted = this.#options.requeueOn.get(name);
      if (wanted === undefined) return true; // it does not say what it waits for: anything may help
      if (wanted.some((each) => each.kind === kind && each.on.includes(on) && each.hint?.(waiting.pod, old, now) !== 'skip')) return true;
    }
    return false;
  }

  #move(waiting: Waiting, cause: Cause | undefined): void {
    if (waiting.place === 'in-flight') {
      waiting.movedMeanwhile = true;
      return;
    }
    this.#unschedulable.delete(waiting);
    waiting.cause = cause ?? waiting.cause;
    if (waiting.readyAt > this.#options.clock.monotonic()) this.#toBackoff(waiting);
    else this.#admit(waiting);
  }

  #toBackoff(waiting: Waiting): void {
    if (waiting.refusedBy.size === 0) {
      waiting.place = 'error-backoff';
      this.#errorBackoff.push(waiting);
    } else {
      waiting.place = 'backoff';
      this.#backoff.push(waiting);
      this.#wake();
    }
    this.#armBackoff();
  }

  #armBackoff(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    const ends = [this.#backoff.peek(), this.#errorBackoff.peek()].flatMap((first) => (first === undefined ? [] : [first.readyAt]));
    if (ends.length === 0) return;
    this.#timer = this.#options.clock.after(Math.min(...ends) - this.#options.clock.monotonic(), () => {
      this.#timer = undefined;
      const now = this.#options.clock.monotonic();
      for (const heap of [this.#backoff, this.#errorBackoff]) {
        for (let due = heap.peek(); due !== undefined && due.readyAt <= now; due = heap.peek()) {
          heap.pop();
          this.#admit(due);
        }
      }
      this.#armBackoff();
    });
  }

  #admit(waiting: Waiting): void {
    if (!this.#mayEnter(waiting)) return;
    waiting.place = 'active';
    waiting.enqueuedAt = this.#options.clock.now();
    this.#active.push(waiting);
    this.#wake();
  }

  #mayEnter(waiting: Waiting): boolean {
    const outcome = this.#options.preEnqueue(waiting.pod);
    if (outcome.code === 'success' || outcome.code === 'skip') return true;
    waiting.place = 'gated';
    return false;
  }

  #wake(): void {
    // not at once: of several that are admitted together the first in order goes first
    if (this.#waiter !== undefined) queueMicrotask(() => this.#serve());
  }

  #serve(): void {
    const waiter = this.#waiter;
    if (waiter === undefined) return;
    const waiting = this.#pop();
    if (waiting === undefined) return;
    this.#waiter = undefined;
    waiter(waiting);
  }

  #pop(): Waiting | undefined {
    const waiting = this.#active.pop() ?? this.#popBackoff();
    if (waiting !== undefined) {
      waiting.place = 'in-flight';
      this.#inFlight.add(waiting);
      waiting.movedMeanwhile = false;
      waiting.attempts += 1;
    }
    return waiting;
  }

  #popBackoff(): Waiting | undefined {
    let found = this.#backoff.pop();
    while (found !== undefined && !this.#mayEnter(found)) found = this.#backoff.pop();
    if (found === undefined) return undefined;
    found.enqueuedAt = this.#options.clock.now();
    this.#armBackoff();
    return found;
  }

  #take(waiting: Waiting): void {
    if (waiting.place === 'active') this.#active.remove(waiting);
    if (waiting.place === 'backoff' || waiting.place === 'error-backoff') {
      (waiting.place === 'backoff' ? this.#backoff : this.#errorBackoff).remove(waiting);
      this.#armBackoff();
    }
    this.#unschedulable.delete(waiting);
    this.#inFlight.delete(waiting);
  }

  #backoffOf({ attempts }: Waiting): number {
    const { initialBackoffMs, maxBackoffMs } = this.#options;
    return Math.min(maxBackoffMs, initialBackoffMs * 2 ** Math.min(Math.max(0, attempts - 1), 30));
  }
}
