import type { KubeObject } from '@oarlock/api/object';
import type { SpanContext } from '@oarlock/kernel/tracing';
import type { EventRingMemory } from './internal/event-ring-memory.ts';
import { EventRing } from './internal/event-ring.ts';
import { pastPage, type Page, type PageOptions, type PastPage } from './internal/past-page.ts';
import type { Codec, Item } from './item.ts';
import { WatchCacheEvent } from './watch-cache-event.ts';
import { OrderedMap } from './ordered-map.ts';
import type { Selection } from './selection.ts';
import { UnreadableObjects, UnreadableObject, type DecodedObjects } from './unreadable-object.ts';
import { WatcherIndex } from './internal/watcher-index.ts';

export type { PastPage } from './internal/past-page.ts';

/** A stored resource as the cache sees it. */
export interface CachedResource {
  /** `pods`, `deployments.apps`: the second segment of the storage keys. */
  readonly name: string;
  readonly namespaced: boolean;
  readonly codec: Codec;
  /** The index by one field: objects and watchers are found by its value. */
  readonly index?: { readonly field: string; value(object: KubeObject): string };
}

/** The objects of a resource, in order of their keys and by index value. */
export class ObjectIndex {
  readonly items = new OrderedMap<Item>();
  readonly byIndex = new Map<string, Map<string, Item>>();
  /** The stored objects that cannot be decrypted or decoded, by key. */
  readonly unreadable = new UnreadableObjects();
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

export interface ResourceCacheOptions {
  /** Bound of the resource's event ring, in bytes. */
  readonly ringBytes: number;
  readonly ringMemory: EventRingMemory;
}

/** The circumstances of a change. */
export interface ChangeContext {
  readonly revision: number;
  readonly spanContext: SpanContext | undefined;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/** All objects of one resource, its recent events and its watchers (watchCache upstream). */
export class ResourceCache {
  #resource: CachedResource;
  readonly ring: EventRing;
  readonly watchers = new WatcherIndex();
  /** Called for each event after it was applied. */
  onEvent: ((event: WatchCacheEvent) => void) | undefined;
  #index: ObjectIndex;
  #lastChange = 0;
  #receivedCount = 0;
  #dispatchedCount = 0;
  #initializationCount = 0;
  #initialLoadState: { readonly done: Promise<void>; readonly touched: Set<string> } | undefined;

  constructor(resource: CachedResource, { ringBytes, ringMemory }: ResourceCacheOptions) {
    this.#resource = resource;
    this.ring = new EventRing(0, { maxBytes: ringBytes, memory: ringMemory });
    this.#index = new ObjectIndex(resource);
  }

  get resource(): CachedResource {
    return this.#resource;
  }
  /** Resolves when the initial load of an added resource has completed; undefined if no initial load is in progress. */
  get initialLoad(): Promise<void> | undefined {
    return this.#initialLoadState?.done;
  }

  get size(): number {
    return this.#index.items.size;
  }
  /** The revision of the newest change of the resource, or of the last load if nothing has changed since. */
  get lastChangeRevision(): number {
    return this.#lastChange;
  }
  /** Number of changes that storage reported. */
  get receivedEvents(): number {
    return this.#receivedCount;
  }
  /** Number of changes that were dispatched to watchers. */
  get dispatchedEvents(): number {
    return this.#dispatchedCount;
  }
  /** Number of times that the objects were loaded from storage. */
  get initializations(): number {
    return this.#initializationCount;
  }

  /** Returns an object, or undefined if there is none. @throws StatusError InternalError if the stored object cannot be read */
  get(key: string): Item | undefined {
    const item = this.#index.items.get(key);
    if (item === undefined) this.#index.unreadable.requireNone({ key });
    return item;
  }

  /** Returns an object that can be read, or undefined. */
  peek(key: string): Item | undefined {
    return this.#index.items.get(key);
  }

  /** The stored objects that cannot be decrypted or decoded. */
  get unreadable(): UnreadableObjects {
    return this.#index.unreadable;
  }

  /** Replaces the description of how the resource is stored, such as its codec. The index field must stay the same. */
  setResource(resource: CachedResource): void {
    this.#resource = resource;
  }

  /**
   * Starts the initial load of a resource that was added while the cache runs. Objects that watch events change before
   * `completeInitialLoad` are newer than the loaded ones and are kept. `done` settles when the load has ended.
   */
  beginInitialLoad(done: Promise<void>): void {
    this.#initialLoadState = { done, touched: new Set() };
  }

  /**
   * Completes the initial load of an added resource: adds the loaded objects, except objects that watch events have changed since
   * `beginInitialLoad`. `revision` is the revision that the watch of storage has reached.
   */
  completeInitialLoad({ items, unreadable }: DecodedObjects, revision: number): void {
    const touched = this.#initialLoadState?.touched;
    if (touched === undefined) return;
    this.#initializationCount++;
    for (const item of items) if (!touched.has(item.key)) this.#index.set(item.key, undefined, item);
    for (const [key, object] of unreadable) if (!touched.has(key)) this.#index.unreadable.set(key, object);
    this.#initialLoadState = undefined;
    this.ring.reset(revision);
    this.#lastChange = revision;
  }

  /** Replaces all objects and drops all events. Does not notify watchers. */
  reset(contents: ObjectIndex, revision: number): void {
    this.#index = contents;
    this.#initialLoadState = undefined;
    this.#initializationCount++;
    this.ring.reset(revision);
    this.#lastChange = revision;
  }

  /** Drops all events and ends all watchers without an error, after their queued events. */
  close(): void {
    this.ring.close();
    this.endWatchers();
  }

  /** Ends all watchers without an error, after their queued events. Their clients list again. */
  endWatchers(): void {
    for (const watcher of [...this.watchers]) watcher.end();
  }

  /** Applies a change: the new version of an object, or undefined for its deletion. */
  apply(key: string, current: Item | UnreadableObject | undefined, context: ChangeContext): void {
    if (current instanceof UnreadableObject) this.#putUnreadable(key, current, context.revision);
    else this.#applyChange(key, current, context);
  }

  /**
   * Replaces an object by a version that cannot be decrypted or decoded. Ends all watchers with the error and drops all events: a DELETED event, or
   * none, would be wrong, so clients must list again, and their lists fail until the object can be read or is deleted.
   */
  #putUnreadable(key: string, object: UnreadableObject, revision: number): void {
    this.#initialLoadState?.touched.add(key);
    this.#receivedCount++;
    this.#index.set(key, this.#index.items.get(key), undefined);
    this.#index.unreadable.set(key, object);
    this.#lastChange = revision;
    this.ring.reset(revision);
    for (const watcher of [...this.watchers]) watcher.fail(object.error);
  }

  /** Adds an object that could not be decrypted or decoded before, and ends all watchers. Does nothing if the object has changed since. */
  setReadable(item: Item, revision: number): void {
    if (!this.#index.unreadable.delete(item.key)) return;
    this.#index.set(item.key, undefined, item);
    this.ring.reset(revision);
    this.#lastChange = Math.max(this.#lastChange, revision);
    this.endWatchers();
  }

  #applyChange(key: string, current: Item | undefined, { revision, spanContext, now }: ChangeContext): void {
    const previous = this.#index.items.get(key);
    this.#initialLoadState?.touched.add(key);
    this.#receivedCount++;
    if (this.#index.unreadable.delete(key) && current === undefined) this.#lastChange = revision;
    if (current === undefined && previous === undefined) return;
    this.#dispatch(new WatchCacheEvent({ key, revision, current, previous, spanContext }), now);
  }

  /** Returns the objects that a selection matches, in order of their keys. */
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

  /** Returns at most `limit` matching objects under a prefix, after a key. */
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

  /** Returns all objects under a prefix at an earlier revision, in order of their keys; undefined if the ring has dropped later events. */
  eventsReplayedTo(prefix: string, revision: number): Item[] | undefined {
    const page = this.pageAt(revision, { prefix, after: '', limit: Number.MAX_SAFE_INTEGER, matches: () => true });
    return page && [...page.items];
  }

  /** Returns a page of the objects at an earlier revision; undefined if the ring has dropped later events. */
  pageAt(revision: number, options: PageOptions): PastPage | undefined {
    if (revision < this.ring.oldestRevision) return undefined;
    const changed = new Map<string, Item | undefined>();
    for (const { key, previous } of this.ring.after(revision))
      if (key > options.after && key.startsWith(options.prefix) && !changed.has(key)) changed.set(key, previous);
    return pastPage(this.#index.items, changed, options);
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
    event.releaseDecoded();
  }
}
