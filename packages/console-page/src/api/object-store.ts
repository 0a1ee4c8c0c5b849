import type { ApiClient, KubeObject, ObjectList, RequestOptions } from './client.ts';
import { reflect, type ConnectionState } from './watch.ts';

export interface ObjectStoreOptions {
  readonly client: ApiClient;
  /** The path of a collection. */
  readonly path: string;
  readonly query?: RequestOptions['query'];
  /** The number of objects that are kept: the list ends there, and the oldest object is dropped for a new one. */
  readonly maxObjects?: number;
  readonly schedule?: (work: () => void) => void;
}

const pageSize = 500;

/** Whole objects of a selected part of a collection, kept up to date by a watch. For few objects: `TableStore` is for many. */
export class ObjectStore<T extends KubeObject = KubeObject> {
  readonly #options: ObjectStoreOptions;
  readonly #listeners = new Set<() => void>();
  readonly #abort = new AbortController();
  #objects = new Map<string, T>();
  #items: readonly T[] | undefined;
  #isScheduled = false;
  state: ConnectionState = 'connecting';
  reason = '';
  /** True when the first list is complete. */
  hasSynced = false;

  constructor(options: ObjectStoreOptions) {
    this.#options = options;
  }

  /** Starts to list and watch. Returns a function that stops. */
  start(): () => void {
    const { client, path, query } = this.#options;
    void reflect<T>({
      client,
      path,
      ...(query && { query }),
      signal: this.#abort.signal,
      list: (signal) => this.#list(signal),
      onEvent: ({ type, object }) => {
        const { uid, resourceVersion } = object.metadata;
        if (type === 'DELETED') this.#objects.delete(uid);
        else if (type !== 'BOOKMARK') this.#keep(uid, object);
        if (type !== 'BOOKMARK') this.#changed();
        return resourceVersion;
      },
      onState: (state, reason = '') => {
        this.state = state;
        this.reason = reason;
        this.#changed();
      },
    });
    return () => this.#abort.abort();
  }

  get items(): readonly T[] {
    this.#items ??= [...this.#objects.values()];
    return this.#items;
  }

  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #keep(uid: string, object: T): void {
    const [oldest] = this.#objects.keys();
    if (this.#objects.size >= (this.#options.maxObjects ?? Infinity) && !this.#objects.has(uid) && oldest !== undefined)
      this.#objects.delete(oldest);
    this.#objects.set(uid, object);
  }

  async #list(signal: AbortSignal): Promise<string> {
    const objects = new Map<string, T>();
    let next: string | undefined;
    let version: string;
    do {
      const { metadata, items }: ObjectList<T> = await this.#options.client.json(this.#options.path, {
        query: { ...this.#options.query, limit: pageSize, continue: next },
        signal,
      });
      for (const object of items) objects.set(object.metadata.uid, object);
      version = metadata.resourceVersion;
      next = metadata.continue;
    } while (next !== undefined && next !== '' && objects.size < (this.#options.maxObjects ?? Infinity));
    this.#objects = objects;
    this.hasSynced = true;
    this.#changed();
    return version;
  }

  #changed(): void {
    this.#items = undefined;
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    (this.#options.schedule ?? queueMicrotask)(() => {
      this.#isScheduled = false;
      for (const listener of this.#listeners) listener();
    });
  }
}
