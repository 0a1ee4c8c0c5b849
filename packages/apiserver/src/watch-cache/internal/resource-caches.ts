import type { Logger } from '@oarlock/primitives/logger';
import type { Entry, StorageDriver } from '@oarlock/spi/storage';
import type { Item } from '../item.ts';
import { ResourceCache, type CachedResource, type ResourceCacheOptions } from '../resource-cache.ts';
import { storageRoot } from '../../storage/storage-root.ts';
import { UnreadableObject, type DecodedObjects } from '../unreadable-object.ts';

/** The caches of all resources, found by resource name or storage key. */
export class ResourceCaches {
  readonly #log: Logger;
  readonly #options: ResourceCacheOptions;
  readonly #byName = new Map<string, ResourceCache>();

  constructor(log: Logger, options: ResourceCacheOptions) {
    this.#log = log;
    this.#options = options;
  }

  get(name: string): ResourceCache | undefined {
    return this.#byName.get(name);
  }
  values(): Iterable<ResourceCache> {
    return this.#byName.values();
  }

  add(resource: CachedResource): ResourceCache {
    const cache = new ResourceCache(resource, this.#options);
    this.#byName.set(resource.name, cache);
    return cache;
  }

  /** Removes the cache of a resource and ends its watches. */
  remove(name: string): void {
    const cache = this.#byName.get(name);
    this.#byName.delete(name);
    cache?.close();
  }

  /**
   * Returns the cache and the object key for a storage key: the cache of pods and `default/a` for `/registry/pods/default/a`; undefined if there is
   * none.
   */
  locate(storageKey: string): { readonly cache: ResourceCache | undefined; readonly name: string } {
    const slash = storageKey.indexOf('/', storageRoot.length);
    return { cache: this.#byName.get(storageKey.slice(storageRoot.length, slash)), name: storageKey.slice(slash + 1) };
  }

  /** Decodes a stored value to an item. Logs a value that cannot be decrypted or decoded. */
  decode(cache: ResourceCache, name: string, { key, value, revision }: Entry): Item | UnreadableObject {
    try {
      return cache.resource.codec.parse(name, value, revision);
    } catch (error) {
      // the error may quote the value
      this.#log.error({ key, error: error instanceof Error ? error.name : typeof error }, 'a stored value could not be decoded');
      return new UnreadableObject(key, value);
    }
  }

  /** Decodes the entries under the storage prefix of a resource. */
  decodeAll(cache: ResourceCache, prefix: string, entries: readonly Entry[]): DecodedObjects {
    const items: Item[] = [];
    const unreadable = new Map<string, UnreadableObject>();
    for (const entry of entries) {
      const name = entry.key.slice(prefix.length);
      const decoded = this.decode(cache, name, entry);
      if (decoded instanceof UnreadableObject) unreadable.set(name, decoded);
      else items.push(decoded);
    }
    return { items, unreadable };
  }

  /**
   * Reads the stored objects again that could not be decrypted or decoded. `revision` returns the newest revision that the caches contain.
   * @throws StorageError if storage fails
   */
  async rereadUnreadable(storage: Pick<StorageDriver, 'get'>, revision: () => number): Promise<void> {
    for (const cache of this.#byName.values())
      for (const [name, { storageKey }] of [...cache.unreadable]) {
        const { entry } = await storage.get(storageKey);
        if (entry === undefined) continue; // the watch delivers the deletion
        const decoded = this.decode(cache, name, entry);
        if (!(decoded instanceof UnreadableObject)) cache.setReadable(decoded, revision());
      }
  }

  /** Ends all watchers of all resources; with the error if one is given. */
  endWatchers(error: Error | undefined): void {
    for (const { watchers } of this.#byName.values()) {
      for (const watcher of [...watchers]) {
        if (error === undefined) watcher.end();
        else watcher.fail(error);
      }
    }
  }

  /** Drops stale events of all resources. */
  trim(now: number): void {
    for (const { ring } of this.#byName.values()) ring.trim(now);
  }
}
