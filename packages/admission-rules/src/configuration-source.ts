import type { KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import type { Client, Informer, Informers } from '@oarlock/spi/client';

/** A cache of compiled configuration objects, ordered by name (generic.Source upstream). Each version of an object is compiled once. */
export class ConfigurationSource<T extends KubeObject, R> {
  readonly #client: Client;
  readonly #resource: Resource<T>;
  readonly #informer: Informer<T>;
  readonly #make: (object: T) => R;
  readonly #compiled = new Map<string, { readonly of: T; readonly compiled: R }>();
  #sorted: readonly R[] | undefined;

  constructor(
    client: Client,
    informers: Informers,
    {
      resource,
      make,
      changed = () => {},
    }: { readonly resource: Resource<T>; readonly make: (object: T) => R; readonly changed?: () => void },
  ) {
    this.#client = client;
    this.#resource = resource;
    this.#make = make;
    this.#informer = informers.forResource(resource);
    const put = (object: T) => {
      const name = object.metadata?.name ?? '';
      if (this.#compiled.get(name)?.of === object) return;
      this.#compiled.set(name, { of: object, compiled: make(object) });
      this.#sorted = undefined;
      changed();
    };
    this.#informer.addEventHandler({
      onAdd: put,
      onUpdate: put,
      onDelete: ({ metadata }) => {
        this.#compiled.delete(metadata?.name ?? '');
        this.#sorted = undefined;
        changed();
      },
    });
  }

  /** True if the cache is synced and contains no objects. */
  get empty(): boolean {
    return this.#informer.hasSynced && this.#compiled.size === 0;
  }

  /** Returns the compiled object with this name from the cache; undefined if the cache does not contain the object. */
  get(name: string): R | undefined {
    return this.#compiled.get(name)?.compiled;
  }

  /**
   * Returns all compiled objects. Until the cache is synced, the objects are read from the API server, so that no request bypasses the
   * rules.
   */
  all(): readonly R[] | Promise<readonly R[]> {
    if (!this.#informer.hasSynced) return this.#list();
    this.#sorted ??= [...this.#compiled.keys()].sort().map((name) => (this.#compiled.get(name) as { readonly compiled: R }).compiled);
    return this.#sorted;
  }

  async #list(): Promise<readonly R[]> {
    const { items } = await this.#client.list(this.#resource);
    return [...items].sort((a, b) => ((a.metadata?.name ?? '') < (b.metadata?.name ?? '') ? -1 : 1)).map((object) => this.#make(object));
  }
}
