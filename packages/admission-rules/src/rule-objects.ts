import type { KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import type { Client, Informer, Informers } from '@oarlock/spi/client';

/** Objects by which requests are judged, made ready once per version; in the order of their names. */
export class RuleObjects<T extends KubeObject, R> {
  readonly #client: Client;
  readonly #resource: Resource<T>;
  readonly #informer: Informer<T>;
  readonly #make: (object: T) => R;
  readonly #made = new Map<string, { readonly of: T; readonly made: R }>();
  #sorted: readonly R[] | undefined;

  constructor(client: Client, informers: Informers, resource: Resource<T>, make: (object: T) => R, changed: () => void = () => {}) {
    this.#client = client;
    this.#resource = resource;
    this.#make = make;
    this.#informer = informers.of(resource);
    const put = (object: T) => {
      const name = object.metadata?.name ?? '';
      if (this.#made.get(name)?.of === object) return;
      this.#made.set(name, { of: object, made: make(object) });
      this.#sorted = undefined;
      changed();
    };
    this.#informer.on({
      added: put,
      updated: put,
      deleted: ({ metadata }) => {
        this.#made.delete(metadata?.name ?? '');
        this.#sorted = undefined;
        changed();
      },
    });
  }

  /** There are none, and that is known. */
  get empty(): boolean {
    return this.#informer.synced && this.#made.size === 0;
  }

  /** Of an object as it was when last heard of. */
  get(name: string): R | undefined {
    return this.#made.get(name)?.made;
  }

  /** All of them. Before the first list has come in the server is asked each time: nothing passes unjudged. */
  all(): readonly R[] | Promise<readonly R[]> {
    if (!this.#informer.synced) return this.#ask();
    this.#sorted ??= [...this.#made.keys()].sort().map((name) => (this.#made.get(name) as { readonly made: R }).made);
    return this.#sorted;
  }

  async #ask(): Promise<readonly R[]> {
    const { items } = await this.#client.list(this.#resource);
    return [...items].sort((a, b) => ((a.metadata?.name ?? '') < (b.metadata?.name ?? '') ? -1 : 1)).map(this.#make);
  }
}
