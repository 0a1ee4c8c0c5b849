import { namespaces } from '@oarlock/api/resources';
import type { Namespace } from '@oarlock/api/types/core-v1';
import type { Client, Informer, Informers } from '@oarlock/spi/client';
import type { Labels } from './matcher.ts';

/** Namespaces by name. The cache may not know yet of one that was made a moment ago: then the server is asked. */
export class NamespaceObjects {
  readonly #cache: Informer<Namespace>;
  readonly #client: Client;
  constructor(informers: Informers, client: Client) {
    this.#cache = informers.of(namespaces);
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
