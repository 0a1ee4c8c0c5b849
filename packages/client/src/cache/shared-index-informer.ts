import { objectKey, type KubeObject, type ObjectKey } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import { silentLogger, type Logger } from '@oarlock/primitives/logger';
import type { SpanContext } from '@oarlock/kernel/tracing';
import type { Informer, ResourceEventHandler, WatchEvent } from '@oarlock/spi/client';
import { eventLoop } from '@oarlock/primitives/concurrency/event-loop';
import { Indexer } from './indexer.ts';
import type { ReflectorStore } from './reflector.ts';

interface SyncWaiter {
  resolve(): void;
  reject(reason: unknown): void;
}

/**
 * The cache of an informer, filled by a reflector (cache.SharedIndexInformer upstream). Compares new objects with cached objects, so that handlers
 * receive each difference once, however often the reflector lists. Yields to the event loop during many notifications.
 */
export class SharedIndexInformer<T extends KubeObject> implements Informer<T>, ReflectorStore<T> {
  readonly resource: Resource<T>;
  readonly #store: Indexer<T>;
  readonly #log: Logger;
  readonly #handlers = new Set<ResourceEventHandler<T>>();
  readonly #waiters = new Set<SyncWaiter>();
  #synced = false;
  #closed = false;
  #relist: ((signal?: AbortSignal) => Promise<void>) | undefined;

  constructor(resource: Resource<T>, { log = silentLogger }: { readonly log?: Logger } = {}) {
    this.resource = resource;
    this.#store = new Indexer<T>(resource);
    this.#log = log;
  }

  get hasSynced(): boolean {
    return this.#synced;
  }
  get size(): number {
    return this.#store.size;
  }
  get(key: ObjectKey): T | undefined {
    return this.#store.get(key);
  }
  list(namespace?: string): readonly T[] {
    return this.#store.list(namespace);
  }
  byIndex(index: string, value: string): readonly T[] {
    return this.#store.byIndex(index, value);
  }
  /** Adds an index, also after the start: cached objects are then indexed immediately. Does nothing if the same function is already registered. */
  addIndexer(name: string, values: (object: T) => readonly string[]): void {
    this.#store.addIndexer(name, values);
  }

  whenSynced(signal?: AbortSignal): Promise<void> {
    if (this.#synced) return Promise.resolve();
    if (this.#closed) return Promise.reject(new Error(`the informer of ${this.resource.resource} was stopped before it had synced`));
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(signal.reason);
        return;
      }
      const abort = () => {
        this.#waiters.delete(waiter);
        reject(signal?.reason);
      };
      const waiter: SyncWaiter = {
        resolve() {
          signal?.removeEventListener('abort', abort);
          resolve();
        },
        reject(reason) {
          signal?.removeEventListener('abort', abort);
          reject(reason);
        },
      };
      signal?.addEventListener('abort', abort, { once: true });
      this.#waiters.add(waiter);
    });
  }

  async refresh(signal?: AbortSignal): Promise<void> {
    if (!this.#synced || this.#relist === undefined) await this.whenSynced(signal);
    else await this.#relist(signal);
  }

  /** Sets the function that lists everything again. */
  setRelist(relist: (signal?: AbortSignal) => Promise<void>): void {
    this.#relist = relist;
  }

  addEventHandler(handler: ResourceEventHandler<T>): () => void {
    // a separate object for each registration, so that the same handler can be registered twice
    const registered: ResourceEventHandler<T> = {
      onAdd: (object, spanContext) => handler.onAdd?.(object, spanContext),
      onUpdate: (object, old, spanContext) => handler.onUpdate?.(object, old, spanContext),
      onDelete: (object, spanContext) => handler.onDelete?.(object, spanContext),
    };
    for (const object of this.#store.list()) this.#callSafely(() => registered.onAdd?.(object, undefined));
    this.#handlers.add(registered);
    return () => {
      this.#handlers.delete(registered);
    };
  }

  /** Replaces the state after a list. Cached objects that are not in the list are reported as deleted. */
  async replace(items: readonly T[]): Promise<void> {
    const seen = new Set<ObjectKey>();
    for (const item of items) {
      seen.add(objectKey(item));
      this.#upsert(item, undefined, true);
      while (eventLoop.shouldYield) await eventLoop.yield();
    }
    for (const key of this.#store.keys()) {
      if (!seen.has(key)) this.#delete(key, undefined, undefined);
      while (eventLoop.shouldYield) await eventLoop.yield();
    }
    this.#synced = true;
    for (const waiter of this.#waiters) waiter.resolve();
    this.#waiters.clear();
  }

  async apply(events: readonly WatchEvent<T>[]): Promise<void> {
    for (const { type, object, spanContext } of events) {
      if (type === 'DELETED') this.#delete(objectKey(object), object, spanContext);
      else if (type !== 'BOOKMARK') this.#upsert(object, spanContext, false);
      while (eventLoop.shouldYield) await eventLoop.yield();
    }
  }

  /** Marks the end of the informer, and rejects the waiters of the first list. */
  close(): void {
    this.#closed = true;
    for (const waiter of this.#waiters)
      waiter.reject(new Error(`the informer of ${this.resource.resource} was stopped before it had synced`));
    this.#waiters.clear();
  }

  #upsert(object: T, spanContext: SpanContext | undefined, refreshed: boolean): void {
    const key = objectKey(object);
    const old = this.#store.get(key);
    if (old !== undefined && old.metadata?.uid !== object.metadata?.uid) this.#delete(key, undefined, spanContext);
    else if (old !== undefined && old.metadata?.resourceVersion === object.metadata?.resourceVersion) {
      if (!refreshed) return;
      // keeps the server's copy, so that memory is shared with the watch cache
      this.#store.set(key, object);
      this.#notify((handler) => handler.onUpdate?.(object, object, spanContext));
      return;
    }
    const before = this.#store.set(key, object);
    if (before === undefined) this.#notify((handler) => handler.onAdd?.(object, spanContext));
    else this.#notify((handler) => handler.onUpdate?.(object, before, spanContext));
  }

  #delete(key: ObjectKey, last: T | undefined, spanContext: SpanContext | undefined): void {
    const old = this.#store.delete(key);
    if (old !== undefined) this.#notify((handler) => handler.onDelete?.(last ?? old, spanContext));
  }

  #notify(call: (handler: ResourceEventHandler<T>) => void): void {
    for (const handler of this.#handlers) this.#callSafely(() => call(handler));
  }

  /** Calls a handler. An error of the handler must not affect the cache or other handlers. */
  #callSafely(call: () => void): void {
    try {
      call();
    } catch (error) {
      this.#log.error({ err: error, resource: this.resource.resource }, 'a handler of an informer failed');
    }
  }
}
