import type { KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import type { Clock } from '@oarlock/primitives/clock';
import { ExpiringCache } from '@oarlock/primitives/collections/expiring-cache';
import type { Client, Informer, Informers } from '@oarlock/spi/client';

const timeToLive = 30_000;
const maxNamespaces = 10_000;

export interface LiveLookupOptions<T extends KubeObject> {
  readonly resource: Resource<T>;
  readonly client: Client;
  readonly informers: Informers;
  readonly clock: Pick<Clock, 'now'>;
}

/**
 * Lists the objects of a namespace from the informer cache, and from the API server where the cache has none: the cache may not have received an
 * object that was created a moment ago. Keeps the answer of the API server for 30 s, as the LimitRanger and ResourceQuota plugins of Kubernetes do.
 */
export class LiveLookup<T extends KubeObject> {
  readonly #resource: Resource<T>;
  readonly #client: Client;
  readonly #informer: Informer<T>;
  readonly #clock: Pick<Clock, 'now'>;
  readonly #answers: ExpiringCache<string, readonly T[]>;
  readonly #pending = new Map<string, Promise<readonly T[]>>();

  constructor({ resource, client, informers, clock }: LiveLookupOptions<T>) {
    this.#resource = resource;
    this.#client = client;
    this.#informer = informers.forResource(resource);
    this.#clock = clock;
    this.#answers = new ExpiringCache({ max: maxNamespaces, clock });
  }

  /** Returns the objects; a promise if that takes a request. Rejects with the error of the request. */
  list(namespace: string): readonly T[] | Promise<readonly T[]> {
    const cached = this.#informer.list(namespace);
    if (cached.length > 0) {
      // when the last object is deleted, the cache is right and an older answer is not
      this.#answers.set(namespace, [], 0);
      return cached;
    }
    return this.#answers.get(namespace) ?? this.#pending.get(namespace) ?? this.#ask(namespace);
  }

  #ask(namespace: string): Promise<readonly T[]> {
    const answer = this.#client.list(this.#resource, { namespace }).then(({ items }) => {
      if (this.#informer.hasSynced) this.#answers.set(namespace, items, this.#clock.now() + timeToLive);
      return items;
    });
    const pending = answer.finally(() => this.#pending.delete(namespace));
    this.#pending.set(namespace, pending);
    return pending;
  }
}
