import { controllerOf } from '@oarlock/api/object';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/kernel/clock';
import type { Informer } from '@oarlock/spi/client';

const patienceMs = 5 * 60_000;

interface Pending {
  creations: number;
  readonly deletions: Set<string>;
  readonly since: number;
}

/**
 * What a controller has done and its cache has not shown yet. While something is pending the cache is behind, and acting on it
 * would do the same again. An expectation that is never met is given up after five minutes, as client-go does.
 */
export class Expectations {
  readonly #clock: Clock;
  readonly #pending = new Map<string, Pending>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  creations(key: string, count: number): void {
    this.#of(key).creations += count;
  }
  deletion(key: string, uid: string): void {
    this.#of(key).deletions.add(uid);
  }

  created(key: string): void {
    const pending = this.#pending.get(key);
    if (pending !== undefined && pending.creations > 0) pending.creations -= 1;
  }
  deleted(key: string, uid: string): void {
    this.#pending.get(key)?.deletions.delete(uid);
  }

  /** A creation that failed will not be seen. */
  creationFailed(key: string): void {
    this.created(key);
  }

  met(key: string): boolean {
    const pending = this.#pending.get(key);
    if (pending === undefined) return true;
    const met = (pending.creations === 0 && pending.deletions.size === 0) || this.#clock.monotonic() - pending.since > patienceMs;
    if (met) this.#pending.delete(key);
    return met;
  }

  forget(key: string): void {
    this.#pending.delete(key);
  }

  #of(key: string): Pending {
    const known = this.#pending.get(key);
    if (known !== undefined) return known;
    const pending = { creations: 0, deletions: new Set<string>(), since: this.#clock.monotonic() };
    this.#pending.set(key, pending);
    return pending;
  }
}

/** Pieces of work that `slowStart` has under way at a time, at most. */
const mostTogether = 512;

/** Runs `count` pieces of work in batches of 1, 2, 4, ... up to 512; after a batch with a failure no further one. Returns how many succeeded, and the first failure. */
export async function slowStart(
  count: number,
  work: (index: number) => Promise<void>,
): Promise<{ readonly done: number; readonly error?: unknown }> {
  let done = 0;
  for (let size = 1, next = 0; next < count; size *= 2) {
    const batch = Math.min(size, mostTogether, count - next);
    const results = await Promise.allSettled(Array.from({ length: batch }, (_, index) => work(next + index)));
    done += results.filter(({ status }) => status === 'fulfilled').length;
    const failed = results.find((result) => result.status === 'rejected');
    if (failed !== undefined) return { done, error: failed.reason };
    next += batch;
  }
  return { done };
}

/** Lets what the cache shows of pods meet the expectations of their owners of one kind. */
export function expectPods(pods: Informer<Pod>, kind: string, expectations: Expectations): void {
  const ownerOf = (pod: Pod) => {
    const ref = controllerOf(pod);
    return ref?.kind === kind ? `${pod.metadata?.namespace}/${ref.name}` : undefined;
  };
  const gone = (pod: Pod) => {
    const key = ownerOf(pod);
    if (key !== undefined) expectations.deleted(key, pod.metadata?.uid ?? '');
  };
  pods.on({
    added(pod) {
      const key = ownerOf(pod);
      if (key !== undefined) expectations.created(key);
    },
    updated(pod) {
      if (pod.metadata?.deletionTimestamp !== undefined) gone(pod);
    },
    deleted: gone,
  });
}
