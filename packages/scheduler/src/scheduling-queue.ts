import { Heap } from '@oarlock/client/heap';
import { objectKey } from '@oarlock/api/object';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/kernel/clock';
import type { Cause } from '@oarlock/kernel/tracing';
import type { QueuedPod, RequeueOn } from '@oarlock/spi/scheduling';
import { podInfo } from './amounts.ts';
import { BackoffPool } from './backoff-pool.ts';
import { FlightLog, type ClusterEvent } from './flight-log.ts';
import { meansTheSame, same } from './pod-changes.ts';
import { ParkedPods } from './parked-pods.ts';
import type { Waiting } from './waiting.ts';

export type { Waiting } from './waiting.ts';

export interface QueueOptions {
  readonly clock: Clock;
  readonly less: (a: QueuedPod, b: QueuedPod) => number;
  /** Who keeps a pod from being tried, if anybody does. */
  readonly gatedBy: (pod: Pod) => string | undefined;
  /** What a plugin that refused a pod waits for; undefined when it does not say. */
  readonly requeueOn: (pod: Pod, plugin: string) => readonly RequeueOn[] | undefined;
  readonly initialBackoffMs: number;
  readonly maxBackoffMs: number;
}

const nobody: ReadonlySet<string> = new Set();
/**
 * Pods that have no node yet: to be tried now, after a back-off, or when something changes that may help. Who has nothing else to do
 * does not wait for a back-off to end (KEP-5142), unless it follows an error: trying again at once would only repeat it.
 */
export class SchedulingQueue {
  readonly #options: QueueOptions;
  readonly #pods = new Map<string, Waiting>();
  readonly #active: Heap<Waiting>;
  readonly #backoff: BackoffPool;
  readonly #parked: ParkedPods;
  readonly #inFlight = new FlightLog<Waiting>();
  #waiter: ((pod: Waiting | undefined) => void) | undefined;
  #order = 0;
  #closed = false;

  constructor(options: QueueOptions) {
    this.#options = options;
    const before = (a: Waiting, b: Waiting) => {
      const by = options.less(a, b);
      return by < 0 || (by === 0 && a.order < b.order);
    };
    this.#active = new Heap<Waiting>(before);
    this.#parked = new ParkedPods(options.clock, (waiting) => this.#unpark(waiting, undefined));
    this.#backoff = new BackoffPool(options.clock, before, (waiting) => this.#admit(waiting));
  }

  get depth(): { readonly active: number; readonly backoff: number; readonly unschedulable: number; readonly gated: number } {
    return {
      active: this.#active.size,
      backoff: this.#backoff.size,
      unschedulable: this.#parked.unschedulable,
      gated: this.#parked.gated,
    };
  }

  add(pod: Pod, cause: Cause | undefined): void {
    const info = podInfo(pod);
    if (this.#pods.has(info.key)) {
      this.update(pod, cause);
      return;
    }
    const now = this.#options.clock.now();
    const waiting: Waiting = {
      pod,
      key: info.key,
      requests: info.requests,
      nonZeroRequests: info.nonZeroRequests,
      queuedAt: now,
      enqueuedAt: now,
      attempts: 0,
      cause,
      readyAt: 0,
      parkedAt: 0,
      refusedBy: nobody,
      place: 'active',
      movedMeanwhile: false,
      since: 0,
      heapIndex: -1,
      order: this.#order++,
    };
    this.#pods.set(info.key, waiting);
    this.#admit(waiting);
  }

  /** A change of the pod itself may help it, unless only its status changed in what nobody waits for. */
  update(pod: Pod, cause: Cause | undefined): void {
    const waiting = this.#pods.get(objectKey(pod));
    if (waiting === undefined) {
      this.add(pod, cause);
      return;
    }
    const relevant = !meansTheSame(waiting.pod, pod) || !same(waiting.pod.status?.resourceClaimStatuses, pod.status?.resourceClaimStatuses);
    Object.assign(waiting, podInfo(pod));
    if (relevant) this.#tryAgain(waiting, cause);
  }

  /** What is known of a pod that is being tried: it was left alone while it had a node. */
  refresh(waiting: Waiting, pod: Pod | undefined): void {
    if (pod !== undefined && pod.metadata?.uid === waiting.pod.metadata?.uid) Object.assign(waiting, podInfo(pod));
  }

  /** Tries a pod again soon, whatever refused it. */
  activate(key: string): void {
    const waiting = this.#pods.get(key);
    if (waiting !== undefined) this.#tryAgain(waiting, undefined);
  }

  /** Tries those again that a plugin refused. */
  reconsider(plugin: string): void {
    for (const waiting of this.#parked.refusedBy(plugin)) this.#unpark(waiting, undefined);
  }

  remove(key: string): void {
    const waiting = this.#pods.get(key);
    if (waiting === undefined) return;
    this.#pods.delete(key);
    this.#take(waiting);
  }

  get(key: string): Waiting | undefined {
    return this.#pods.get(key);
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

  /** Takes the others that are to be tried together with a pod, in order, wherever they wait; not those that must not be tried yet. */
  takeWith(choose: (pod: Pod) => boolean): readonly Waiting[] {
    const found = [...this.#pods.values()].filter(({ place, pod }) => place !== 'in-flight' && place !== 'gated' && choose(pod));
    for (const waiting of found) {
      this.#take(waiting);
      this.#fly(waiting);
    }
    return found.sort((a, b) => this.#options.less(a, b) || a.order - b.order);
  }

  /** Has its node. */
  done(waiting: Waiting): void {
    this.#inFlight.delete(waiting);
    if (this.#pods.get(waiting.key) === waiting) this.#pods.delete(waiting.key);
  }

  /** Has none: waits for what the refusing plugins wait for, or for its back-off when nobody in particular refused it. */
  failed(waiting: Waiting, refusedBy: ReadonlySet<string>): void {
    const missed = this.#inFlight.missed(waiting);
    this.#inFlight.delete(waiting);
    if (this.#pods.get(waiting.key) !== waiting || this.#closed) return;
    waiting.refusedBy = refusedBy;
    waiting.readyAt = this.#options.clock.monotonic() + this.#backoffOf(waiting);
    if (waiting.movedMeanwhile || refusedBy.size === 0 || missed?.some((event) => this.#helps(waiting, event)) !== false) {
      this.#toBackoff(waiting);
      return;
    }
    this.#park(waiting, 'unschedulable');
  }

  /** Something changed: pods refused by plugins that wait for such a change are tried again. */
  moved(kind: string, on: 'added' | 'updated' | 'deleted', old: unknown, now: unknown, cause: Cause | undefined): void {
    const event: ClusterEvent = { kind, on, old, now };
    this.#inFlight.happened(event);
    for (const waiting of this.#parked.waitingFor(kind, on)) if (this.#helps(waiting, event)) this.#unpark(waiting, cause);
  }

  close(): void {
    this.#closed = true;
    this.#backoff.close();
    this.#parked.close();
    this.#waiter?.(undefined);
    this.#waiter = undefined;
  }

  #helps({ pod, refusedBy }: Waiting, { kind, on, old, now }: ClusterEvent): boolean {
    for (const name of refusedBy) {
      const wanted = this.#options.requeueOn(pod, name);
      if (wanted === undefined) return true; // it does not say what it waits for: anything may help
      if (wanted.some((each) => each.kind === kind && each.on.includes(on) && each.hint?.(pod, old, now) !== 'skip')) return true;
    }
    return false;
  }

  #tryAgain(waiting: Waiting, cause: Cause | undefined): void {
    if (waiting.place === 'in-flight') waiting.movedMeanwhile = true;
    else if (waiting.place === 'unschedulable' || waiting.place === 'gated') this.#unpark(waiting, cause);
  }

  #park(waiting: Waiting, place: 'unschedulable' | 'gated'): void {
    this.#parked.add(
      waiting,
      place,
      [...waiting.refusedBy].map((plugin) => this.#options.requeueOn(waiting.pod, plugin)),
    );
  }

  #unpark(waiting: Waiting, cause: Cause | undefined): void {
    this.#parked.delete(waiting);
    waiting.cause = cause ?? waiting.cause;
    if (waiting.place === 'unschedulable' && waiting.readyAt > this.#options.clock.monotonic()) this.#toBackoff(waiting);
    else this.#admit(waiting);
  }

  #toBackoff(waiting: Waiting): void {
    waiting.place = waiting.refusedBy.size === 0 ? 'error-backoff' : 'backoff';
    this.#backoff.push(waiting);
    if (waiting.place === 'backoff') this.#wake();
  }

  #admit(waiting: Waiting): void {
    if (!this.#mayEnter(waiting)) return;
    waiting.place = 'active';
    waiting.enqueuedAt = this.#options.clock.now();
    this.#active.push(waiting);
    this.#wake();
  }

  #mayEnter(waiting: Waiting): boolean {
    const gate = this.#options.gatedBy(waiting.pod);
    if (gate === undefined) return true;
    waiting.refusedBy = new Set([gate]);
    this.#park(waiting, 'gated');
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
    if (waiting !== undefined) this.#fly(waiting);
    return waiting;
  }

  #fly(waiting: Waiting): void {
    waiting.place = 'in-flight';
    waiting.movedMeanwhile = false;
    waiting.attempts += 1;
    this.#inFlight.add(waiting);
  }

  #popBackoff(): Waiting | undefined {
    let found = this.#backoff.pop();
    while (found !== undefined && !this.#mayEnter(found)) found = this.#backoff.pop();
    if (found === undefined) return undefined;
    found.enqueuedAt = this.#options.clock.now();
    return found;
  }

  #take(waiting: Waiting): void {
    if (waiting.place === 'active') this.#active.remove(waiting);
    if (waiting.place === 'backoff' || waiting.place === 'error-backoff') this.#backoff.remove(waiting);
    this.#parked.delete(waiting);
    this.#inFlight.delete(waiting);
  }

  #backoffOf({ attempts }: Waiting): number {
    const { initialBackoffMs, maxBackoffMs } = this.#options;
    return Math.min(maxBackoffMs, initialBackoffMs * 2 ** Math.min(Math.max(0, attempts - 1), 30));
  }
}
