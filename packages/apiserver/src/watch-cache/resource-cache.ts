import type { KubeObject } from '@oarlock/api/object';
import type { SpanContext } from '@oarlock/kernel/tracing';
import { EventRing } from './internal/event-ring.ts';
import { WatchCacheEvent, type Codec, type Item } from './item.ts';
import { OrderedMap } from './ordered-map.ts';
import type { Selection } from './selection.ts';
import { WatcherIndex } from './internal/watcher-index.ts';

/** What the cache has to know of a stored resource. */
export interface CachedResource {
  /** `pods`, `deployments.apps`: the second segment of its keys. */
  readonly name: string;
  readonly namespaced: boolean;
  readonly codec: Codec;
  /** Objects and watchers are found by its value without asking the others. */
  readonly index?: { readonly field: string; value(object: KubeObject): string };
}

/** What stands under a key at some revision; the whole resource, or a page of it. */
export interface Page {
  readonly items: readonly Item[];
  /** The key of the last item looked at, when there is more. */
  readonly more: boolean;
}

/** Objects in order and by index value. */
export class ObjectIndex {
  readonly items = new OrderedMap<Item>();
  readonly byIndex = new Map<string, Map<string, Item>>();
  readonly #resource: CachedResource;
  constructor(resource: CachedResource) {
    this.#resource = resource;
  }

  indexOf(item: Item | undefined): string | undefined {
    return item === undefined ? undefined : this.#resource.index?.value(item.object);
  }

  set(key: string, previous: Item | undefined, current: Item | undefined): void {
    if (current === undefined) this.items.delete(key);
    else this.items.set(key, current);
    if (this.#resource.index === undefined) return;
    const before = this.indexOf(previous);
    const now = this.indexOf(current);
    if (before !== undefined && before !== now) {
      const bucket = this.byIndex.get(before);
      bucket?.delete(key);
      if (bucket?.size === 0) this.byIndex.delete(before);
    }
    if (now === undefined || current === undefined) return;
    const bucket = this.byIndex.get(now);
    if (bucket === undefined) this.byIndex.set(now, new Map([[key, current]]));
    else bucket.set(key, current);
  }
}

/** All objects of one resource, in order, with their recent past and whoever watches them. */
export class ResourceCache {
  #resource: CachedResource;
  readonly ring: EventRing;
  readonly watchers = new WatcherIndex();
  /** Told of every event once it is in place. */
  onEvent: ((event: WatchCacheEvent) => void) | undefined;
  #index: ObjectIndex;
  #lastChange = 0;
  #receivedCount = 0;
  #dispatchedCount = 0;
  #initializationCount = 0;
  #initialLoadState: { readonly done: Promise<void>; readonly touched: Set<string> } | undefined;

  constructor(resource: CachedResource) {
    this.#resource = resource;
    this.ring = new EventRing(0);
    this.#index = new ObjectIndex(resource);
  }

  get resource(): CachedResource {
    return this.#resource;
  }
  /** Resolves when what was stored before this cache was made is in it; undefined when it is. */
  get initialLoad(): Promise<void> | undefined {
    return this.#initialLoadState?.done;
  }

  get size(): number {
    return this.#index.items.size;
  }
  /** Of the newest change that was seen, or of the load. */
  get lastChangeRevision(): number {
    return this.#lastChange;
  }
  /** Changes that came, those that were offered to watches, and how often everything was loaded anew: for metrics. */
  get receivedEvents(): number {
    return this.#receivedCount;
  }
  get dispatchedEvents(): number {
    return this.#dispatchedCount;
  }
  get initializations(): number {
    return this.#initializationCount;
  }

  get(key: string): Item | undefined {
    return this.#index.items.get(key);
  }

  /** The same resource, stored in another way from now on. Not indexed in another way. */
  setResource(resource: CachedResource): void {
    this.#resource = resource;
  }

  /** What was stored before is on its way; what happens meanwhile is newer. */
  beginInitialLoad(done: Promise<void>): void {
    this.#initialLoadState = { done, touched: new Set() };
  }

  /** What was stored before, up to `revision`, which the stream of changes has reached. */
  completeInitialLoad(items: readonly Item[], revision: number): void {
    const touched = this.#initialLoadState?.touched;
    if (touched === undefined) return;
    this.#initializationCount++;
    for (const item of items) if (!touched.has(item.key)) this.#index.set(item.key, undefined, item);
    this.#initialLoadState = undefined;
    this.ring.reset(revision);
    this.#lastChange = revision;
  }

  /** Begins anew with these objects and no past before `revision`. Tells nobody. */
  reset(contents: ObjectIndex, revision: number): void {
    this.#index = contents;
    this.#initialLoadState = undefined;
    this.#initializationCount++;
    this.ring.reset(revision);
    this.#lastChange = revision;
  }

  /** All watches end, without an error and after what is queued: their clients begin anew. */
  endWatchers(): void {
    for (const watcher of [...this.watchers]) watcher.end();
  }

  put(item: Item, spanContext: SpanContext | undefined, now: number): void {
    const previous = this.#index.items.get(item.key);
    this.#initialLoadState?.touched.add(item.key);
    this.#receivedCount++;
    this.#dispatch(new WatchCacheEvent(item.key, item.revision, item, previous, spanContext), now);
  }

  delete(key: string, revision: number, spanContext: SpanContext | undefined, now: number): void {
    const previous = this.#index.items.get(key);
    this.#initialLoadState?.touched.add(key);
    this.#receivedCount++;
    if (previous === undefined) return;
    this.#dispatch(new WatchCacheEvent(key, revision, undefined, previous, spanContext), now);
  }

  /** Every object that a selection is about, in order of keys. The selection's own test is applied. */
  select({ namespace, key, indexed, matches }: Selection): Item[] {
    const found: Item[] = [];
    const take = (item: Item) => {
      if (matches === undefined || matches(item.object)) found.push(item);
    };
    if (key !== undefined) {
      const item = this.#index.items.get(key);
      if (item !== undefined && (indexed === undefined || this.resource.index?.value(item.object) === indexed)) take(item);
      return found;
    }
    if (indexed !== undefined) {
      for (const item of this.#index.byIndex.get(indexed)?.values() ?? [])
        if (namespace === '' || item.key.startsWith(`${namespace}/`)) take(item);
      return found.sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));
    }
    this.#index.items.scan(namespace === '' ? '' : `${namespace}/`, '', (_, item) => {
      take(item);
      return true;
    });
    return found;
  }

  /** At most `limit` objects after a key, tested by `matches`. */
  page(prefix: string, after: string, limit: number, matches: (item: Item) => boolean): Page {
    const items: Item[] = [];
    let more = false;
    this.#index.items.scan(prefix, after, (_, item) => {
      if (!matches(item)) return true;
      if (items.length === limit) {
        more = true;
        return false;
      }
      items.push(item);
      return true;
    });
    return { items, more };
  }

  count(prefix: string, after = ''): number {
    return this.#index.items.count(prefix, after);
  }

  /**
   * All objects under a prefix as they stood at an earlier revision, in order; undefined when the past that is kept does not reach back
   * so far.
   */
  eventsReplayedTo(prefix: string, revision: number): Item[] | undefined {
    if (revision < this.ring.oldestRevision) return undefined;
    const then = new Map<string, Item | undefined>();
    for (const event of this.ring.after(revision)) if (!then.has(event.key)) then.set(event.key, event.previous);
    const items: Item[] = [];
    this.#index.items.scan(prefix, '', (key, item) => {
      if (!then.has(key)) items.push(item);
      return true;
    });
    if (then.size === 0) return items;
    for (const [key, item] of then) if (item !== undefined && key.startsWith(prefix)) items.push(item);
    return items.sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));
  }

  #dispatch(event: WatchCacheEvent, now: number): void {
    const before = this.#index.indexOf(event.previous);
    const after = this.#index.indexOf(event.current);
    this.#index.set(event.key, event.previous, event.current);
    this.#lastChange = event.revision;
    this.#dispatchedCount++;
    this.ring.push(event, now);
    this.watchers.dispatch(event, before, after);
    this.onEvent?.(event);
  }
}
