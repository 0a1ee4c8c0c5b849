import { objectKey, type ObjectList } from '@oarlock/api/object';
import { networkPolicies } from '@oarlock/api/resources';
import type { NetworkPolicy } from '@oarlock/api/types/networking-v1';
import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import type { Client, Informer } from '@oarlock/spi/client';

export interface PoliciesOfNowOptions {
  readonly client: Client;
  readonly cache: Informer<NetworkPolicy>;
  readonly clock: Clock;
  readonly log: Logger;
}

/** What came and went between two looks cannot be told from what is still to come: after that long the API is asked again. */
const lookAgainMs = 1_000;

interface Looks {
  readonly running: Promise<ObjectList<NetworkPolicy>>;
  next?: Promise<ObjectList<NetworkPolicy>>;
}

/**
 * Tells when the cache of policies is not older than the question. A watch may lag behind by any time: a policy that was written before a pod
 * may be told after it.
 */
export class PoliciesOfNow {
  readonly #options: PoliciesOfNowOptions;
  /** By namespace: who asks while one look is under way shares the next with all who ask meanwhile. */
  readonly #looks = new Map<string, Looks>();
  readonly #waiting = new Set<() => void>();
  readonly #off: () => void;

  constructor(options: PoliciesOfNowOptions) {
    this.#options = options;
    const changed = () => {
      for (const told of this.#waiting) told();
    };
    this.#off = options.cache.on({ added: changed, updated: changed, deleted: changed });
  }

  close(): void {
    this.#off();
  }

  /**
   * Resolves when what the cache has of a namespace is what was written before this call, or newer. Where the API does not answer, with what is
   * there: pods of a node that is cut off go on. Rejects when the signal aborts.
   */
  async reached(namespace: string, signal: AbortSignal): Promise<void> {
    for (;;) {
      signal.throwIfAborted();
      let now: ObjectList<NetworkPolicy>;
      try {
        now = await this.#look(namespace);
      } catch (error) {
        this.#options.log.warn(
          { namespace, error: String(error) },
          'the API does not say which NetworkPolicies there are; those known hold',
        );
        return;
      }
      if (await this.#caughtUp(namespace, now, signal)) return;
    }
  }

  #look(namespace: string): Promise<ObjectList<NetworkPolicy>> {
    const list = () => this.#options.client.list(networkPolicies, { namespace });
    const present = this.#looks.get(namespace);
    if (present) return (present.next ??= present.running.then(list, list));
    return this.#begin(namespace, list());
  }

  #begin(namespace: string, running: Promise<ObjectList<NetworkPolicy>>): Promise<ObjectList<NetworkPolicy>> {
    const looks: Looks = { running };
    this.#looks.set(namespace, looks);
    const over = () => {
      if (looks.next) this.#begin(namespace, looks.next);
      else this.#looks.delete(namespace);
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

  async #caughtUp(namespace: string, now: ObjectList<NetworkPolicy>, signal: AbortSignal): Promise<boolean> {
    if (!this.#isBehind(namespace, now)) return true;
    const over = new AbortController();
    const late = this.#options.clock.sleep(lookAgainMs, AbortSignal.any([signal, over.signal])).then(
      () => false,
      () => false,
    );
    let told = () => {};
    const caughtUp = new Promise<boolean>((resolve) => {
      told = () => void (!this.#isBehind(namespace, now) && resolve(true));
      this.#waiting.add(told);
    });
    try {
      return await Promise.race([caughtUp, late]);
    } finally {
      this.#waiting.delete(told);
      over.abort();
    }
  }
}

const versionOf = (text: string | undefined): bigint => BigInt(text ?? 0);
