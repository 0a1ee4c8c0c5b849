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
  /** Called when a storage key under the root that belongs to no known resource changes. */
  readonly onUnownedKey?: (key: string, present: boolean) => void;
  /** Called before a new load replaces all objects. */
  readonly onReset?: () => void;
  /** The objects that are loaded before all others, because they define further resources. */
  readonly loadFirst?: { readonly prefix: string; readonly name: string; read(items: readonly Item[]): void };
  readonly limits?: WatchCacheLimits;
}

/** The size in bytes of a buffer that clients can fill, and its limit. */
export interface BoundedBuffer {
  readonly bytes: number;
  readonly maxBytes: number;
}
export interface WatchCacheMemory {
  readonly rings: BoundedBuffer;
  readonly watchers: BoundedBuffer;
  readonly pendingWrites: BoundedBuffer;
}

/** The caller of a read. Its signal is accessed only if the read must wait, because most requests never create their signal. */
export interface Caller {
  readonly signal?: AbortSignal | undefined;
}
