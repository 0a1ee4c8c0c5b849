import { Heap } from '@oarlock/primitives/collections/heap';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import type { QueuedPodInfo } from './queued-pod-info.ts';

/** Length of a time window in milliseconds. QueueSort orders the pods whose backoff expires within the same window, as upstream does. */
const windowMs = 1000;
const windowOf = ({ backoffExpiresAt }: QueuedPodInfo) => Math.floor(backoffExpiresAt / windowMs);

/** Pods whose backoff has not expired. Pods that failed with an error are in a separate queue, because `pop` must not return them. */
export class BackoffQueue {
  readonly #clock: Clock;
  readonly #onExpired: (podInfo: QueuedPodInfo) => void;
  readonly #backoffQ: Heap<QueuedPodInfo>;
  readonly #errorBackoffQ = new Heap<QueuedPodInfo>((a, b) => a.backoffExpiresAt < b.backoffExpiresAt);
  #timer: Timer | undefined;

  /**
   * Creates an empty queue ordered by `before`, the order of the QueueSort plugin. Calls `onExpired` with each pod whose backoff has expired, after
   * removing the pod.
   */
  constructor(clock: Clock, before: (a: QueuedPodInfo, b: QueuedPodInfo) => boolean, onExpired: (podInfo: QueuedPodInfo) => void) {
    this.#clock = clock;
    this.#onExpired = onExpired;
    this.#backoffQ = new Heap<QueuedPodInfo>((a, b) => windowOf(a) < windowOf(b) || (windowOf(a) === windowOf(b) && before(a, b)));
  }

  get size(): number {
    return this.#backoffQ.size + this.#errorBackoffQ.size;
  }

  push(podInfo: QueuedPodInfo): void {
    this.#queueOf(podInfo).push(podInfo);
    this.#armTimer();
  }
  remove(podInfo: QueuedPodInfo): void {
    this.#queueOf(podInfo).remove(podInfo);
    this.#armTimer();
  }
  /** Removes and returns the next rejected pod, although its backoff has not expired. Returns undefined if there is none. */
  pop(): QueuedPodInfo | undefined {
    const podInfo = this.#backoffQ.pop();
    if (podInfo !== undefined) this.#armTimer();
    return podInfo;
  }
  close(): void {
    this.#timer?.cancel();
  }

  #queueOf({ queue }: QueuedPodInfo): Heap<QueuedPodInfo> {
    return queue === 'backoff' ? this.#backoffQ : this.#errorBackoffQ;
  }

  #armTimer(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    const expirations = [this.#backoffQ.peek(), this.#errorBackoffQ.peek()].flatMap((first) =>
      first === undefined ? [] : [first.backoffExpiresAt],
    );
    if (expirations.length === 0) return;
    this.#timer = this.#clock.after(Math.min(...expirations) - this.#clock.monotonic(), () => {
      this.#timer = undefined;
      const now = this.#clock.monotonic();
      for (const heap of [this.#backoffQ, this.#errorBackoffQ]) {
        for (let due = heap.peek(); due !== undefined && due.backoffExpiresAt <= now; due = heap.peek()) {
          heap.pop();
          this.#onExpired(due);
        }
      }
      this.#armTimer();
    });
  }
}
