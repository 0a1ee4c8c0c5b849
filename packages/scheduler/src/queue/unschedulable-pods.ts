import type { Clock, Timer } from '@oarlock/primitives/clock';
import type { ClusterEventWithHint } from '@oarlock/spi/scheduling';
import { ClusterEventIndex } from './cluster-event-index.ts';
import type { QueuedPodInfo } from './queued-pod-info.ts';

/** Time in milliseconds after which an unschedulable pod is retried even without an event, in case a queueing hint is wrong. */
const maxUnschedulableMs = 5 * 60_000;

/** Pods that wait for a cluster event: unschedulable pods, for at most `maxUnschedulableMs`, and gated pods. */
export class UnschedulablePods {
  readonly #clock: Clock;
  readonly #onOverdue: (podInfo: QueuedPodInfo) => void;
  readonly #byEvent = new ClusterEventIndex<QueuedPodInfo>();
  /** The pods that are not gated, in the order in which they were added. */
  readonly #unschedulable = new Set<QueuedPodInfo>();
  #timer: Timer | undefined;
  #closed = false;

  /** Calls `onOverdue` with each pod that has waited `maxUnschedulableMs`, after removing the pod. */
  constructor(clock: Clock, onOverdue: (podInfo: QueuedPodInfo) => void) {
    this.#clock = clock;
    this.#onOverdue = onOverdue;
  }

  get unschedulableCount(): number {
    return this.#unschedulable.size;
  }
  get gatedCount(): number {
    return this.#byEvent.size - this.#unschedulable.size;
  }

  /** Adds a pod. `registered` contains the events that each plugin which rejected the pod registered for; undefined means every event. */
  add(
    podInfo: QueuedPodInfo,
    queue: 'unschedulable' | 'gated',
    registered: readonly (readonly ClusterEventWithHint[] | undefined)[],
  ): void {
    podInfo.queue = queue;
    podInfo.unschedulableSince = this.#clock.monotonic();
    this.#byEvent.add(podInfo, registered);
    if (queue === 'gated') return;
    this.#unschedulable.add(podInfo);
    this.#armTimer();
  }

  delete(podInfo: QueuedPodInfo): void {
    this.#byEvent.delete(podInfo);
    this.#unschedulable.delete(podInfo);
  }

  /** Returns the pods that an event may help. */
  podsForEvent(kind: string, action: ClusterEventWithHint['actions'][number]): readonly QueuedPodInfo[] {
    return this.#byEvent.itemsForEvent(kind, action);
  }

  rejectedBy(plugin: string): readonly QueuedPodInfo[] {
    return [...this.#byEvent.values()].filter(({ unschedulablePlugins }) => unschedulablePlugins.has(plugin));
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
  }

  #oldest(): QueuedPodInfo | undefined {
    return this.#unschedulable.values().next().value;
  }

  #armTimer(): void {
    const oldest = this.#oldest();
    if (this.#timer !== undefined || this.#closed || oldest === undefined) return;
    this.#timer = this.#clock.after(oldest.unschedulableSince + maxUnschedulableMs - this.#clock.monotonic(), () => {
      this.#timer = undefined;
      const now = this.#clock.monotonic();
      for (let due = this.#oldest(); due !== undefined && due.unschedulableSince + maxUnschedulableMs <= now; due = this.#oldest()) {
        this.delete(due);
        this.#onOverdue(due);
      }
      this.#armTimer();
    });
  }
}
