import { objectKey, type ObjectList } from '@oarlock/api/object';
import { networkPolicies } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { NetworkPolicy } from '@oarlock/api/types/networking-v1';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { Client, Informer } from '@oarlock/spi/client';

export interface PolicyCacheSyncOptions {
  readonly client: Client;
  readonly cache: Informer<NetworkPolicy>;
  readonly clock: Clock;
  readonly log: Logger;
}

/** The period of further lists. A policy that was created and deleted between two lists never appears in the cache. */
const relistMs = 1_000;

interface PendingLists {
  readonly running: Promise<ObjectList<NetworkPolicy>>;
  next?: Promise<ObjectList<NetworkPolicy>>;
}

/**
 * Waits until the cache of NetworkPolicies is current. A watch may lag: the event of a policy that was written before a pod may arrive after the
 * pod's event.
 */
export class PolicyCacheSync {
  readonly #options: PolicyCacheSyncOptions;
  /** The pending lists, keyed by namespace. Calls during a list share the next list. */
  readonly #lists = new Map<string, PendingLists>();
  readonly #waiting = new Set<() => void>();
  readonly #off: () => void;

  constructor(options: PolicyCacheSyncOptions) {
    this.#options = options;
    const changed = () => {
      for (const notify of this.#waiting) notify();
    };
    this.#off = options.cache.addEventHandler({ onAdd: changed, onUpdate: changed, onDelete: changed });
  }

  close(): void {
    this.#off();
  }

  /**
   * Resolves when the cache contains all policies of a namespace that were written before this call. If the API server does not answer, resolves with
   * the current cache, so that pods of a disconnected node can start. Rejects if the API server denies the list, or when
   * the signal aborts.
   */
  async waitUntilCurrent(namespace: string, signal: AbortSignal): Promise<void> {
    for (;;) {
      signal.throwIfAborted();
      let now: ObjectList<NetworkPolicy>;
      try {
        now = await this.#list(namespace);
      } catch (error) {
        // without the permission the policies of a new pod are unknown: the pod must not start without them
        if (isStatus(error, 'Forbidden', 'Unauthorized')) throw error;
        this.#options.log.warn({ namespace, error: String(error) }, 'cannot list NetworkPolicies; the known ones stay in force');
        return;
      }
      if (await this.#waitForCache(namespace, now, signal)) return;
    }
  }

  #list(namespace: string): Promise<ObjectList<NetworkPolicy>> {
    const list = () => this.#options.client.list(networkPolicies, { namespace });
    const present = this.#lists.get(namespace);
    if (present) return (present.next ??= present.running.then(list, list));
    return this.#startList(namespace, list());
  }

  #startList(namespace: string, running: Promise<ObjectList<NetworkPolicy>>): Promise<ObjectList<NetworkPolicy>> {
    const looks: PendingLists = { running };
    this.#lists.set(namespace, looks);
    const over = () => {
      if (looks.next) this.#startList(namespace, looks.next);
      else this.#lists.delete(namespace);
    };
    running.then(over, over);
    return running;
  }

  #isBehind(namespace: string, { metadata, items }: ObjectList<NetworkPolicy>): boolean {
    const { cache } = this.#options;
    const now = versionOf(metadata?.resourceVersion);
    const present = new Set(items.map(objectKey));
    const isOld = (policy: NetworkPolicy) => {
      const cached = cache.get(objectKey(policy))?.metadata?.resourceVersion;
      const version = policy.metadata?.resourceVersion;
      return cached !== version && (cached === undefined || versionOf(cached) < versionOf(version));
    };
    const isGone = (cached: NetworkPolicy) => !present.has(objectKey(cached)) && versionOf(cached.metadata?.resourceVersion) <= now;
    return items.some(isOld) || cache.list(namespace).some(isGone);
  }

  async #waitForCache(namespace: string, now: ObjectList<NetworkPolicy>, signal: AbortSignal): Promise<boolean> {
    if (!this.#isBehind(namespace, now)) return true;
    const over = new AbortController();
    const late = this.#options.clock.sleep(relistMs, AbortSignal.any([signal, over.signal])).then(
      () => false,
      () => false,
    );
    let cacheChanged = () => {};
    const caughtUp = new Promise<boolean>((resolve) => {
      cacheChanged = () => void (!this.#isBehind(namespace, now) && resolve(true));
      this.#waiting.add(cacheChanged);
    });
    try {
      return await Promise.race([caughtUp, late]);
    } finally {
      this.#waiting.delete(cacheChanged);
      over.abort();
    }
  }
}

const versionOf = (text: string | undefined): bigint => BigInt(text ?? 0);
