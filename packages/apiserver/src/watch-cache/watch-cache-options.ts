import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { StorageDriver } from '@oarlock/spi/storage';
import type { Item } from './item.ts';
import type { CachedResource } from './resource-cache.ts';
import type { WatchCacheLimits } from './watch-cache-limits.ts';

export interface WatchCacheOptions {
  readonly storage: StorageDriver;
  readonly resources: readonly CachedResource[];
  readonly clock: Clock;
  readonly log: Logger;
  /** Called for changes of keys under the root that belong to no resource. */
  readonly onUnownedKey?: (key: string, present: boolean) => void;
  /** Called before all objects are replaced by a new load. */
  readonly onReset?: () => void;
  /** Objects that are loaded before all others, because they define further resources. */
  readonly loadFirst?: { readonly prefix: string; readonly name: string; read(items: readonly Item[]): void };
  readonly limits?: WatchCacheLimits;
}

/** The size of a buffer that clients can fill, and its bound, in bytes. */
export interface BoundedBuffer {
  readonly bytes: number;
  readonly maxBytes: number;
}
export interface WatchCacheMemory {
  readonly rings: BoundedBuffer;
  readonly watchers: BoundedBuffer;
  readonly pendingWrites: BoundedBuffer;
}

/** The caller of a read. Its signal is accessed only if the read waits, because most requests never create one. */
export interface Caller {
  readonly signal?: AbortSignal | undefined;
}
