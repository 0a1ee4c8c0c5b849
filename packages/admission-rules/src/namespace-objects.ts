import { namespaces } from '@oarlock/api/resources';
import type { Namespace } from '@oarlock/api/types/core-v1';
import type { Client, Informer, Informers } from '@oarlock/spi/client';
import type { Labels } from './matcher.ts';

/** Reads Namespaces by name from the informer cache, or from the API server if the cache does not contain the Namespace yet. */
export class NamespaceObjects {
  readonly #cache: Informer<Namespace>;
  readonly #client: Client;
  constructor(informers: Informers, client: Client) {
    this.#cache = informers.forResource(namespaces);
    this.#client = client;
  }
  /** Returns the Namespace, or a promise if it is not in the cache. @throws StatusError NotFound if the Namespace does not exist */
  get(name: string): Namespace | Promise<Namespace> {
    return this.#cache.get(name) ?? this.#client.get(namespaces, { name });
  }
  readonly labels = (name: string): Labels | Promise<Labels> => {
    const found = this.get(name);
    return found instanceof Promise ? found.then(labelsOf) : labelsOf(found);
  };
}
const none: Labels = Object.freeze({});
const labelsOf = ({ metadata }: Namespace): Labels => metadata?.labels ?? none;
