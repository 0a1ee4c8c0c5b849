import type { Clock } from '@oarlock/primitives/clock';
import type { WatcherMemory } from './internal/watcher-memory.ts';
import type { Selection } from './selection.ts';
import type { ItemConverter, SharedWatchFrame, WatchCacheEvent } from './watch-cache-event.ts';

export interface WatcherOptions {
  readonly selection: Selection;
  /** Returns the value of the index field. Present if the resource is indexed. */
  readonly indexOf: ((event: WatchCacheEvent['current']) => string | undefined) | undefined;
  readonly viewer: ItemConverter | undefined;
  /** Events up to this revision are skipped. */
  readonly after: number;
  /** Produces the initial events as the reader takes them, so that a large initial list does not block the event loop. */
  readonly initial: Iterator<SharedWatchFrame>;
  /** Returns a bookmark. Present if the client requested bookmarks. */
  readonly bookmark: (() => SharedWatchFrame) | undefined;
  readonly clock: Clock;
  readonly random: () => number;
  readonly timeoutMs: number;
  readonly signal: AbortSignal | undefined;
  /** The bound that all watchers share. */
  readonly memory?: WatcherMemory;
  /** Bound of the frames that wait for this watcher, in bytes. */
  readonly maxBytes?: number;
  readonly onEnd: () => void;
}
