import type { ApiClient, KubeObject, ObjectList, RequestOptions } from './client.ts';
import { newYield, whenIdle } from './idle.ts';
import { readItems } from './streamed-items.ts';
import { reflect, type ConnectionState } from './watch.ts';

export interface ObjectStoreOptions {
  readonly client: ApiClient;
  /** The path of a collection. */
  readonly path: string;
  readonly query?: RequestOptions['query'];
  /**
   * The number of objects that are kept: the list ends there, and the oldest object is dropped for a new one. The objects then have no managed fields, which
   * views of many objects do not show.
   */
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
      withoutManagedFields: this.#withoutManagedFields,
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

  get #withoutManagedFields(): boolean {
    return this.#options.maxObjects !== undefined;
  }

  #keep(uid: string, object: T): void {
    const [oldest] = this.#objects.keys();
    if (this.#objects.size >= (this.#options.maxObjects ?? Infinity) && !this.#objects.has(uid) && oldest !== undefined)
      this.#objects.delete(oldest);
    this.#objects.set(uid, object);
  }

  /** Lists all pages. The first list shows each page at once; a later one replaces the objects when it is complete, so that none disappear meanwhile. */
  async #list(signal: AbortSignal): Promise<string> {
    const { maxObjects = Infinity } = this.#options;
    const objects = new Map<string, T>();
    let next = '';
    for (;;) {
      const { metadata, items } = await this.#page({ limit: Math.min(pageSize, maxObjects - objects.size), continue: next }, signal);
      for (const object of items) objects.set(object.metadata.uid, object);
      next = objects.size < maxObjects ? (metadata.continue ?? '') : '';
      if (next === '') {
        this.#objects = objects;
        this.hasSynced = true;
        this.#changed();
        return metadata.resourceVersion;
      }
      if (!this.hasSynced) {
        this.#objects = objects;
        this.#changed();
      }
      await whenIdle();
    }
  }

  /** Reads a page. It is parsed while it arrives, so that input is handled meanwhile. */
  async #page(part: { readonly limit: number; readonly continue: string }, signal: AbortSignal): Promise<ObjectList<T>> {
    const { client, path, query } = this.#options;
    const response = await client.send(path, { query: { ...query, ...part }, signal });
    const items: T[] = [];
    const onItem = (object: T) => void items.push(object);
    const list = await readItems<T, ObjectList<T>>(response, {
      field: 'items',
      onItem,
      withoutManagedFields: this.#withoutManagedFields,
      pause: newYield(),
    });
    return { ...list, items };
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
