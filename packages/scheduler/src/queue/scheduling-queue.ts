import { Heap } from '@oarlock/primitives/collections/heap';
import { objectKey } from '@oarlock/api/object';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/primitives/clock';
import type { SpanContext } from '@oarlock/kernel/tracing';
import type { QueuedPod, ClusterEventWithHint } from '@oarlock/spi/scheduling';
import { newPodInfo } from '../pod-info/pod-info.ts';
import { BackoffQueue } from './backoff-queue.ts';
import { InFlightEvents, type ClusterEvent } from './in-flight-events.ts';
import { isSchedulingEquivalent, isEqual } from '../pod-info/pod-changes.ts';
import { UnschedulablePods } from './unschedulable-pods.ts';
import type { QueuedPodInfo } from './queued-pod-info.ts';

export interface SchedulingQueueOptions {
  readonly clock: Clock;
  readonly less: (a: QueuedPod, b: QueuedPod) => number;
  /** Returns the name of the PreEnqueue plugin that gates the pod, or undefined if it may enter the active queue. */
  readonly preEnqueueGate: (pod: Pod) => string | undefined;
  /** Returns the events that a plugin registered for; undefined if it registered for none, so that every event may help. */
  readonly eventsToRegister: (pod: Pod, plugin: string) => readonly ClusterEventWithHint[] | undefined;
  readonly initialBackoffMs: number;
  readonly maxBackoffMs: number;
  /** Called when a pod enters a sub-queue, with the event that caused it. Gated pods enter `unschedulable`. */
  readonly onIncomingPod: (queue: 'active' | 'backoff' | 'unschedulable', event: string) => void;
}

const noPlugins: ReadonlySet<string> = new Set();
const anyPod = () => true;

// the events of upstream's metric that are no cluster events
const forceActivate = 'ForceActivate';
const attemptFailure = 'ScheduleAttemptFailure';
const popFromBackoffQ = 'PopFromBackoffQ';
const eventActions = { added: 'Add', updated: 'Update', deleted: 'Delete' } as const;

/** Returns upstream's label of a cluster event, for example `NodeAdd`. */
const eventLabel = ({ kind, action }: ClusterEvent): string =>
  `${kind === 'UnscheduledPod' ? 'UnschedulablePod' : kind}${eventActions[action]}`;
/** Maximum exponent of the backoff, so that the backoff is a finite number. */
const maxBackoffDoublings = 30;

/**
 * Holds pods without a node in three sub-queues, as kube-scheduler's PriorityQueue does:
 *
 * - activeQ: pods to schedule now, ordered by the QueueSort plugin;
 * - backoffQ: pods that failed and whose backoff has not expired;
 * - unschedulablePods: pods that wait for a cluster event that may make them schedulable, and gated pods.
 *
 * When activeQ is empty, pods are popped from backoffQ before their backoff expires (KEP-5142), except after an error:
 * an immediate retry would repeat it.
 */
export class SchedulingQueue {
  readonly #options: SchedulingQueueOptions;
  readonly #pods = new Map<string, QueuedPodInfo>();
  readonly #activeQ: Heap<QueuedPodInfo>;
  readonly #backoffQ: BackoffQueue;
  readonly #unschedulablePods: UnschedulablePods;
  readonly #inFlightEvents = new InFlightEvents<QueuedPodInfo>();
  #waiter: ((pod: QueuedPodInfo | undefined) => void) | undefined;
  #nextSequence = 0;
  #closed = false;

  constructor(options: SchedulingQueueOptions) {
    this.#options = options;
    const before = (a: QueuedPodInfo, b: QueuedPodInfo) => {
      const order = options.less(a, b);
      return order < 0 || (order === 0 && a.sequence < b.sequence);
    };
    this.#activeQ = new Heap<QueuedPodInfo>(before);
    this.#unschedulablePods = new UnschedulablePods(options.clock, (podInfo) => {
      podInfo.flushedFromUnschedulable = true;
      this.#moveFromUnschedulablePods(podInfo, undefined, 'UnschedulableTimeout');
    });
    this.#backoffQ = new BackoffQueue(options.clock, before, (podInfo) => this.#moveToActiveQ(podInfo, 'BackoffComplete'));
  }

  get pendingPods(): { readonly active: number; readonly backoff: number; readonly unschedulable: number; readonly gated: number } {
    return {
      active: this.#activeQ.size,
      backoff: this.#backoffQ.size,
      unschedulable: this.#unschedulablePods.unschedulableCount,
      gated: this.#unschedulablePods.gatedCount,
    };
  }

  add(pod: Pod, spanContext: SpanContext | undefined): void {
    const info = newPodInfo(pod);
    if (this.#pods.has(info.key)) {
      this.update(pod, spanContext);
      return;
    }
    const now = this.#options.clock.now();
    const podInfo: QueuedPodInfo = {
      pod,
      key: info.key,
      requests: info.requests,
      nonZeroRequests: info.nonZeroRequests,
      queuedAt: now,
      enqueuedAt: now,
      attempts: 0,
      firstAttemptAt: undefined,
      unschedulableCount: 0,
      consecutiveErrorsCount: 0,
      spanContext,
      backoffExpiresAt: 0,
      unschedulableSince: 0,
      flushedFromUnschedulable: false,
      unschedulablePlugins: noPlugins,
      queue: 'active',
      movedInFlight: false,
      firstEvent: 0,
      heapIndex: -1,
      sequence: this.#nextSequence++,
    };
    this.#pods.set(info.key, podInfo);
    this.#moveToActiveQ(podInfo, 'UnschedulablePodAdd');
  }

  /** Updates a pod, or adds it if it is not queued. Requeues the pod if a field that affects scheduling has changed. */
  update(pod: Pod, spanContext: SpanContext | undefined): void {
    const podInfo = this.#pods.get(objectKey(pod));
    if (podInfo === undefined) {
      this.add(pod, spanContext);
      return;
    }
    const affectsScheduling =
      !isSchedulingEquivalent(podInfo.pod, pod) || !isEqual(podInfo.pod.status?.resourceClaimStatuses, pod.status?.resourceClaimStatuses);
    Object.assign(podInfo, newPodInfo(pod));
    if (affectsScheduling) this.#requeue(podInfo, spanContext, 'UnschedulablePodUpdate');
  }

  /** Sets the current version of a pod whose binding has failed. Updates of the pod were ignored while it was assumed. */
  updateInFlight(podInfo: QueuedPodInfo, pod: Pod | undefined): void {
    if (pod !== undefined && pod.metadata?.uid === podInfo.pod.metadata?.uid) Object.assign(podInfo, newPodInfo(pod));
  }

  /** Requeues a pod, regardless of the plugins that rejected it. */
  activate(key: string): void {
    const podInfo = this.#pods.get(key);
    if (podInfo !== undefined) this.#requeue(podInfo, undefined, forceActivate);
  }

  /** Requeues the unschedulable and gated pods that a plugin rejected. */
  requeueRejectedBy(plugin: string): void {
    for (const podInfo of this.#unschedulablePods.rejectedBy(plugin)) this.#moveFromUnschedulablePods(podInfo, undefined, forceActivate);
  }

  remove(key: string): void {
    const podInfo = this.#pods.get(key);
    if (podInfo === undefined) return;
    this.#pods.delete(key);
    this.#removeFromQueue(podInfo);
  }

  get(key: string): QueuedPodInfo | undefined {
    return this.#pods.get(key);
  }
  has(key: string): boolean {
    return this.#pods.has(key);
  }

  /**
   * Resolves with the next pod to schedule, or undefined when the queue is closed. The queue tracks the pod until `done` or
   * `addUnschedulable`. At most one call may be pending.
   */
  pop(): Promise<QueuedPodInfo | undefined> {
    const podInfo = this.#closed ? undefined : this.#popNow();
    if (podInfo !== undefined || this.#closed) return Promise.resolve(podInfo);
    return new Promise((resolve) => {
      this.#waiter = resolve;
    });
  }

  /** Pops the pods that a predicate selects from all sub-queues, in queue order. Gated pods and pods in flight are not popped. */
  popMatching(selects: (pod: Pod) => boolean): readonly QueuedPodInfo[] {
    const found = [...this.#pods.values()].filter(({ queue, pod }) => queue !== 'in-flight' && queue !== 'gated' && selects(pod));
    for (const podInfo of found) {
      this.#removeFromQueue(podInfo);
      this.#startAttempt(podInfo);
    }
    return found.sort((a, b) => this.#options.less(a, b) || a.sequence - b.sequence);
  }

  /** Ends the attempt of a pod that is bound. */
  done(podInfo: QueuedPodInfo): void {
    this.#inFlightEvents.delete(podInfo);
    if (this.#pods.get(podInfo.key) === podInfo) this.#pods.delete(podInfo.key);
  }

  /**
   * Returns a pod to the queue after a failed attempt (AddUnschedulableIfNotPresent upstream).
   *
   * The pod goes to backoffQ if it failed with an error (`unschedulablePlugins` is empty) or if an event that may help it
   * arrived during the attempt; otherwise to unschedulablePods, until an event that its plugins registered for arrives.
   */
  addUnschedulable(podInfo: QueuedPodInfo, unschedulablePlugins: ReadonlySet<string>): void {
    const events = this.#inFlightEvents.eventsSince(podInfo);
    this.#inFlightEvents.delete(podInfo);
    if (this.#pods.get(podInfo.key) !== podInfo || this.#closed) return;
    podInfo.unschedulablePlugins = unschedulablePlugins;
    podInfo.flushedFromUnschedulable = false;
    if (unschedulablePlugins.size === 0) podInfo.consecutiveErrorsCount += 1;
    else {
      podInfo.consecutiveErrorsCount = 0;
      podInfo.unschedulableCount += 1;
    }
    podInfo.backoffExpiresAt = this.#options.clock.monotonic() + this.#backoffDurationMs(podInfo);
    if (
      podInfo.movedInFlight ||
      unschedulablePlugins.size === 0 ||
      events?.some((event) => this.#isPodWorthRequeuing(podInfo, event)) !== false
    ) {
      this.#moveToBackoffQ(podInfo, attemptFailure);
      return;
    }
    this.#addToUnschedulablePods(podInfo, 'unschedulable', attemptFailure);
  }

  /** Moves the pods that an event may help, according to `preCheck` and to the queueing hints of the plugins that rejected them. */
  moveAllToActiveOrBackoffQueue(
    event: ClusterEvent,
    spanContext: SpanContext | undefined,
    preCheck: (podInfo: QueuedPodInfo) => boolean = anyPod,
  ): void {
    this.#inFlightEvents.record(event);
    for (const podInfo of this.#unschedulablePods.podsForEvent(event.kind, event.action))
      if (preCheck(podInfo) && this.#isPodWorthRequeuing(podInfo, event))
        this.#moveFromUnschedulablePods(podInfo, spanContext, eventLabel(event));
  }

  close(): void {
    this.#closed = true;
    this.#backoffQ.close();
    this.#unschedulablePods.close();
    this.#waiter?.(undefined);
    this.#waiter = undefined;
  }

  #isPodWorthRequeuing({ pod, unschedulablePlugins }: QueuedPodInfo, { kind, action, oldObject, newObject }: ClusterEvent): boolean {
    for (const name of unschedulablePlugins) {
      const registered = this.#options.eventsToRegister(pod, name);
      if (registered === undefined) return true;
      for (const event of registered)
        if (event.kind === kind && event.actions.includes(action) && event.queueingHint?.(pod, oldObject, newObject) !== 'skip')
          return true;
    }
    return false;
  }

  #requeue(podInfo: QueuedPodInfo, spanContext: SpanContext | undefined, event: string): void {
    if (podInfo.queue === 'in-flight') podInfo.movedInFlight = true;
    else if (podInfo.queue === 'unschedulable' || podInfo.queue === 'gated') this.#moveFromUnschedulablePods(podInfo, spanContext, event);
  }

  #addToUnschedulablePods(podInfo: QueuedPodInfo, queue: 'unschedulable' | 'gated', event: string): void {
    this.#options.onIncomingPod('unschedulable', event);
    this.#unschedulablePods.add(
      podInfo,
      queue,
      [...podInfo.unschedulablePlugins].map((plugin) => this.#options.eventsToRegister(podInfo.pod, plugin)),
    );
  }

  #moveFromUnschedulablePods(podInfo: QueuedPodInfo, spanContext: SpanContext | undefined, event: string): void {
    this.#unschedulablePods.delete(podInfo);
    podInfo.spanContext = spanContext ?? podInfo.spanContext;
    if (podInfo.queue === 'unschedulable' && podInfo.backoffExpiresAt > this.#options.clock.monotonic())
      this.#moveToBackoffQ(podInfo, event);
    else this.#moveToActiveQ(podInfo, event);
  }

  #moveToBackoffQ(podInfo: QueuedPodInfo, event: string): void {
    this.#options.onIncomingPod('backoff', event);
    podInfo.queue = podInfo.unschedulablePlugins.size === 0 ? 'error-backoff' : 'backoff';
    this.#backoffQ.push(podInfo);
    if (podInfo.queue === 'backoff') this.#wakeWaiter();
  }

  #moveToActiveQ(podInfo: QueuedPodInfo, event: string): void {
    if (!this.#runPreEnqueue(podInfo, event)) return;
    this.#options.onIncomingPod('active', event);
    podInfo.queue = 'active';
    podInfo.enqueuedAt = this.#options.clock.now();
    this.#activeQ.push(podInfo);
    this.#wakeWaiter();
  }

  #runPreEnqueue(podInfo: QueuedPodInfo, event: string): boolean {
    const gate = this.#options.preEnqueueGate(podInfo.pod);
    if (gate === undefined) return true;
    podInfo.unschedulablePlugins = new Set([gate]);
    podInfo.flushedFromUnschedulable = false;
    this.#addToUnschedulablePods(podInfo, 'gated', event);
    return false;
  }

  #wakeWaiter(): void {
    // deferred: of several pods that are queued in the same task, the first in queue order is popped first
    if (this.#waiter !== undefined) queueMicrotask(() => this.#serveWaiter());
  }

  #serveWaiter(): void {
    const waiter = this.#waiter;
    if (waiter === undefined) return;
    const podInfo = this.#popNow();
    if (podInfo === undefined) return;
    this.#waiter = undefined;
    waiter(podInfo);
  }

  #popNow(): QueuedPodInfo | undefined {
    const podInfo = this.#activeQ.pop() ?? this.#popBackoffQ();
    if (podInfo !== undefined) this.#startAttempt(podInfo);
    return podInfo;
  }

  #startAttempt(podInfo: QueuedPodInfo): void {
    podInfo.queue = 'in-flight';
    podInfo.movedInFlight = false;
    podInfo.attempts += 1;
    podInfo.firstAttemptAt ??= this.#options.clock.monotonic();
    this.#inFlightEvents.add(podInfo);
  }

  #popBackoffQ(): QueuedPodInfo | undefined {
    let found = this.#backoffQ.pop();
    while (found !== undefined && !this.#runPreEnqueue(found, popFromBackoffQ)) found = this.#backoffQ.pop();
    if (found === undefined) return undefined;
    found.enqueuedAt = this.#options.clock.now();
    return found;
  }

  #removeFromQueue(podInfo: QueuedPodInfo): void {
    if (podInfo.queue === 'active') this.#activeQ.remove(podInfo);
    if (podInfo.queue === 'backoff' || podInfo.queue === 'error-backoff') this.#backoffQ.remove(podInfo);
    this.#unschedulablePods.delete(podInfo);
    this.#inFlightEvents.delete(podInfo);
  }

  /** Returns the backoff after a failed attempt. Errors count apart from rejections, so that an error is retried soon after many rejections. */
  #backoffDurationMs({ unschedulableCount, consecutiveErrorsCount }: QueuedPodInfo): number {
    const { initialBackoffMs, maxBackoffMs } = this.#options;
    const count = consecutiveErrorsCount > 0 ? consecutiveErrorsCount : unschedulableCount;
    return Math.min(maxBackoffMs, initialBackoffMs * 2 ** Math.min(Math.max(0, count - 1), maxBackoffDoublings));
  }
}
