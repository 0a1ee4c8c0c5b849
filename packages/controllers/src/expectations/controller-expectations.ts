import { controllerOf } from '@oarlock/api/object';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/primitives/clock';
import type { Informer } from '@oarlock/spi/client';

const expectationsTimeoutMs = 5 * 60_000;

interface ControlleeExpectations {
  creations: number;
  readonly deletions: Set<string>;
  readonly since: number;
  /** True if the outcome of a request is unknown: the pods must be read from the API server. */
  uncertain: boolean;
}

/**
 * Creations and deletions that a controller has requested and that its cache does not show yet. While any is pending, the cache is stale, and a
 * reconcile would repeat the request. Expectations expire after five minutes, as in client-go.
 */
export class ControllerExpectations {
  readonly #clock: Clock;
  readonly #pending = new Map<string, ControlleeExpectations>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  expectCreations(key: string, count: number): void {
    this.#getOrCreate(key).creations += count;
  }
  expectDeletion(key: string, uid: string): void {
    this.#getOrCreate(key).deletions.add(uid);
  }

  creationObserved(key: string): void {
    const pending = this.#pending.get(key);
    if (pending !== undefined && pending.creations > 0) pending.creations -= 1;
  }
  deletionObserved(key: string, uid: string): void {
    this.#pending.get(key)?.deletions.delete(uid);
  }

  /** Decrements the expected creations of a key after a creation failed, because no event will follow. */
  creationFailed(key: string): void {
    this.creationObserved(key);
  }

  /** Records that the outcome of a creation or deletion is unknown. Its expectation remains until `resolve`. */
  markUncertain(key: string): void {
    this.#getOrCreate(key).uncertain = true;
  }

  isUncertain(key: string): boolean {
    return this.#pending.get(key)?.uncertain ?? false;
  }

  /** Replaces the expectations of a key after a read: `creations` pods exist that the cache does not show; pods in `alive` are not being deleted. */
  resolve(key: string, creations: number, alive: ReadonlySet<string>): void {
    const pending = this.#pending.get(key);
    if (pending === undefined) return;
    pending.uncertain = false;
    pending.creations = creations;
    for (const uid of pending.deletions) if (alive.has(uid)) pending.deletions.delete(uid);
  }

  satisfied(key: string): boolean {
    const pending = this.#pending.get(key);
    if (pending === undefined) return true;
    const met =
      (!pending.uncertain && pending.creations === 0 && pending.deletions.size === 0) ||
      this.#clock.monotonic() - pending.since > expectationsTimeoutMs;
    if (met) this.#pending.delete(key);
    return met;
  }

  deleteExpectations(key: string): void {
    this.#pending.delete(key);
  }

  #getOrCreate(key: string): ControlleeExpectations {
    const known = this.#pending.get(key);
    if (known !== undefined) return known;
    const pending = { creations: 0, deletions: new Set<string>(), since: this.#clock.monotonic(), uncertain: false };
    this.#pending.set(key, pending);
    return pending;
  }
}

/** Maximum number of concurrent calls of `slowStartBatch`. */
const maxBatchSize = 512;

/**
 * Runs `count` calls of `work` in batches of 1, 2, 4, ... up to 512 and stops after a batch with a failure. Returns the number of successes
 * and the first failure.
 */
export async function slowStartBatch(
  count: number,
  work: (index: number) => Promise<void>,
): Promise<{ readonly done: number; readonly error?: unknown }> {
  let done = 0;
  for (let size = 1, next = 0; next < count; size *= 2) {
    const batch = Math.min(size, maxBatchSize, count - next);
    const results = await Promise.allSettled(Array.from({ length: batch }, (_, index) => work(next + index)));
    done += results.filter(({ status }) => status === 'fulfilled').length;
    const failed = results.find((result) => result.status === 'rejected');
    if (failed !== undefined) return { done, error: failed.reason };
    next += batch;
  }
  return { done };
}

/** Registers event handlers that record observed creations and deletions of pods whose controller has this kind. */
export function observePods(pods: Informer<Pod>, kind: string, expectations: ControllerExpectations): void {
  const ownerOf = (pod: Pod) => {
    const ref = controllerOf(pod);
    return ref?.kind === kind ? `${pod.metadata?.namespace}/${ref.name}` : undefined;
  };
  const gone = (pod: Pod) => {
    const key = ownerOf(pod);
    if (key !== undefined) expectations.deletionObserved(key, pod.metadata?.uid ?? '');
  };
  pods.addEventHandler({
    onAdd(pod) {
      const key = ownerOf(pod);
      if (key !== undefined) expectations.creationObserved(key);
    },
    onUpdate(pod) {
      if (pod.metadata?.deletionTimestamp !== undefined) gone(pod);
    },
    onDelete: gone,
  });
}
