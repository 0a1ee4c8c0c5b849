import { objectKey, type KubeObject, type ObjectKey } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import { silentLogger, type Logger } from '@oarlock/kernel/logger';
import type { Cause } from '@oarlock/kernel/tracing';
import type { Informer, InformerHandler, WatchEvent } from '@oarlock/spi/client';
import { eventLoop } from '@oarlock/kernel/event-loop';
import { IndexedStore } from './indexed-store.ts';
import type { ReflectorSink } from './reflector.ts';

interface SyncWaiter {
  resolve(): void;
  reject(reason: unknown): void;
}

/**
 * The cache behind an informer, fed by a reflector. It compares what comes with what it holds, so that each difference is told once,
 * however often the reflector has to begin anew. Telling yields to the event loop when there is much to tell.
 */
export class CachedInformer<T extends KubeObject> implements Informer<T>, ReflectorSink<T> {
  readonly resource: Resource<T>;
  readonly #store: IndexedStore<T>;
  readonly #log: Logger;
  readonly #handlers = new Set<InformerHandler<T>>();
  readonly #waiters = new Set<SyncWaiter>();
  #synced = false;
  #closed = false;
  #reread: ((signal?: AbortSignal) => Promise<void>) | undefined;

  constructor(resource: Resource<T>, { log = silentLogger }: { readonly log?: Logger } = {}) {
    this.resource = resource;
    this.#store = new IndexedStore<T>(resource);
    this.#log = log;
  }

  get synced(): boolean {
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
  /** Also after the start: then what is cached is indexed at once. Adding the same function again changes nothing. */
  addIndex(name: string, values: (object: T) => readonly string[]): void {
    this.#store.addIndex(name, values);
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
    if (!this.#synced || this.#reread === undefined) await this.whenSynced(signal);
    else await this.#reread(signal);
  }

  /** Says how everything is read anew. */
  readBy(reread: (signal?: AbortSignal) => Promise<void>): void {
    this.#reread = reread;
  }

  on(handler: InformerHandler<T>): () => void {
    // A copy of its own, so that the same handler may be registered twice.
    const registered: InformerHandler<T> = {
      added: (object, cause) => handler.added?.(object, cause),
      updated: (object, old, cause) => handler.updated?.(object, old, cause),
      deleted: (object, cause) => handler.deleted?.(object, cause),
    };
    for (const object of this.#store.list()) this.#safely(() => registered.added?.(object, undefined));
    this.#handlers.add(registered);
    return () => {
      this.#handlers.delete(registered);
    };
  }

  /** The whole state, after a first or a new list. What is cached and not in it was deleted meanwhile. */
  async replace(items: readonly T[]): Promise<void> {
    const seen = new Set<ObjectKey>();
    for (const item of items) {
      seen.add(objectKey(item));
      this.#upsert(item, undefined, true);
      while (eventLoop.held) await eventLoop.turn();
    }
    for (const key of this.#store.keys()) {
      if (!seen.has(key)) this.#delete(key, undefined, undefined);
      while (eventLoop.held) await eventLoop.turn();
    }
    this.#synced = true;
    for (const waiter of this.#waiters) waiter.resolve();
    this.#waiters.clear();
  }

  async apply(events: readonly WatchEvent<T>[]): Promise<void> {
    for (const { type, object, cause } of events) {
      if (type === 'DELETED') this.#delete(objectKey(object), object, cause);
      else if (type !== 'BOOKMARK') this.#upsert(object, cause, false);
      while (eventLoop.held) await eventLoop.turn();
    }
  }

  /** No more will come: whoever waits for the first list is told so. */
  close(): void {
    this.#closed = true;
    for (const waiter of this.#waiters)
      waiter.reject(new Error(`the informer of ${this.resource.resource} was stopped before it had synced`));
    this.#waiters.clear();
  }

  #upsert(object: T, cause: Cause | undefined, refreshed: boolean): void {
    const key = objectKey(object);
    const old = this.#store.get(key);
    if (old !== undefined && old.metadata?.uid !== object.metadata?.uid) this.#delete(key, undefined, cause);
    else if (old !== undefined && old.metadata?.resourceVersion === object.metadata?.resourceVersion) {
      if (!refreshed) return;
      // The server's copy takes the place of ours, so that memory stays shared with it.
      this.#store.set(key, object);
      this.#tell((handler) => handler.updated?.(object, object, cause));
      return;
    }
    const before = this.#store.set(key, object);
    if (before === undefined) this.#tell((handler) => handler.added?.(object, cause));
    else this.#tell((handler) => handler.updated?.(object, before, cause));
  }

  #delete(key: ObjectKey, last: T | undefined, cause: Cause | undefined): void {
    const old = this.#store.delete(key);
    if (old !== undefined) this.#tell((handler) => handler.deleted?.(last ?? old, cause));
  }

  #tell(call: (handler: InformerHandler<T>) => void): void {
    for (const handler of this.#handlers) this.#safely(() => call(handler));
  }

  /** One handler's fault is not the others', nor the cache's. */
  #safely(call: () => void): void {
    try {
      call();
    } catch (error) {
      this.#log.error({ err: error, resource: this.resource.resource }, 'a handler of an informer failed');
    }
  }
}
