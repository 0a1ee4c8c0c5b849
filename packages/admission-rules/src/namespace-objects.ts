import { namespaces } from '@oarlock/api/resources';
import type { Namespace } from '@oarlock/api/types/core-v1';
import type { Client, Informer, Informers } from '@oarlock/spi/client';
import type { Labels } from './matcher.ts';

/** Namespaces by name: from the cache, or from the API server if the cache does not have a new one yet. */
export class NamespaceObjects {
  readonly #cache: Informer<Namespace>;
  readonly #client: Client;
  constructor(informers: Informers, client: Client) {
    this.#cache = informers.forResource(namespaces);
    this.#client = client;
  }
  /** @throws StatusError NotFound */
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
