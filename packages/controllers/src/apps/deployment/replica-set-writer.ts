import { objectKey, type ObjectKey } from '@oarlock/api/object';
import { replicaSets } from '@oarlock/api/resources';
import type { ReplicaSet } from '@oarlock/api/types/apps-v1';
import type { Clock } from '@oarlock/primitives/clock';
import type { Client, Lister } from '@oarlock/spi/client';
import { isOutcomeUnknown } from '../../errors/unknown-outcome.ts';

/** A ReplicaSet that this process has written. */
interface PendingWrite {
  /** The resource versions that the writes have replaced; '' for a created ReplicaSet. */
  readonly replaced: Set<string>;
  /** Time of the first of these writes in milliseconds of the monotonic clock. */
  readonly sinceMs: number;
}

const versionOf = (set: ReplicaSet | undefined): string => set?.metadata?.resourceVersion ?? '';

/**
 * Writes ReplicaSets, and tracks which writes the cache does not show yet. The size of one ReplicaSet depends on the sizes of the others: with a
 * stale cache, a rollout would exceed maxSurge, and the conflict of an optimistic write prevents that for one ReplicaSet only.
 */
export class ReplicaSetWriter {
  readonly #cache: Pick<Lister<ReplicaSet>, 'get'>;
  readonly #clock: Pick<Clock, 'monotonic'>;
  /** The pending writes by key of the Deployment, then by key of the ReplicaSet. */
  readonly #pending = new Map<ObjectKey, Map<ObjectKey, PendingWrite>>();

  constructor(cache: Pick<Lister<ReplicaSet>, 'get'>, clock: Pick<Clock, 'monotonic'>) {
    this.#cache = cache;
    this.#clock = clock;
  }

  /** Creates a ReplicaSet of the Deployment `owner`. */
  create(owner: ObjectKey, set: ReplicaSet, client: Client): Promise<ReplicaSet> {
    return this.#track(owner, { key: objectKey(set), version: '' }, () => client.create(replicaSets, set));
  }

  /** Updates a ReplicaSet of the Deployment `owner`; `set` has the resourceVersion that the update is based on. */
  update(owner: ObjectKey, set: ReplicaSet, client: Client): Promise<ReplicaSet> {
    return this.#track(owner, { key: objectKey(set), version: versionOf(set) }, () => client.update(replicaSets, set));
  }

  /** Returns for how many milliseconds the cache has not shown a write for the Deployment; undefined if it shows all. */
  pendingMs(owner: ObjectKey): number | undefined {
    const writes = this.#pending.get(owner);
    if (writes === undefined) return undefined;
    for (const [key, { replaced }] of writes) if (!replaced.has(versionOf(this.#cache.get(key)))) writes.delete(key);
    if (writes.size === 0) this.#pending.delete(owner);
    const [first] = [...writes.values()].map(({ sinceMs }) => sinceMs).sort((a, b) => a - b);
    return first === undefined ? undefined : this.#clock.monotonic() - first;
  }

  /** Records the ReplicaSets of a Deployment that were read from the API server: the cache is stale until it shows these. */
  recordRead(owner: ObjectKey, sets: readonly ReplicaSet[]): void {
    const writes = new Map<ObjectKey, PendingWrite>();
    for (const set of sets) {
      const cached = versionOf(this.#cache.get(objectKey(set)));
      if (cached !== versionOf(set)) writes.set(objectKey(set), { replaced: new Set([cached]), sinceMs: this.#clock.monotonic() });
    }
    this.#pending.set(owner, writes);
  }

  /** Forgets the writes for a Deployment that was deleted. */
  forget(owner: ObjectKey): void {
    this.#pending.delete(owner);
  }

  async #track(
    owner: ObjectKey,
    { key, version }: { readonly key: ObjectKey; readonly version: string },
    write: () => Promise<ReplicaSet>,
  ): Promise<ReplicaSet> {
    const writes = this.#pending.get(owner) ?? new Map<ObjectKey, PendingWrite>();
    const entry = writes.get(key) ?? { replaced: new Set<string>(), sinceMs: this.#clock.monotonic() };
    this.#pending.set(owner, writes.set(key, entry));
    entry.replaced.add(version);
    try {
      const stored = await write();
      // an update without a change keeps the resourceVersion, and has no event
      if (versionOf(stored) === version) entry.replaced.delete(version);
      return stored;
    } catch (error) {
      if (!isOutcomeUnknown(error)) entry.replaced.delete(version);
      throw error;
    }
  }
}
