import type { Clock } from '@oarlock/primitives/clock';
import type { WatcherMemory } from './internal/watcher-memory.ts';
import type { Selection } from './selection.ts';
import type { ItemConverter, SharedWatchFrame, WatchCacheEvent } from './watch-cache-event.ts';

export interface WatcherOptions {
  readonly selection: Selection;
  /** Returns the value of the index field of an object; undefined if the resource is not indexed. */
  readonly indexOf: ((event: WatchCacheEvent['current']) => string | undefined) | undefined;
  readonly viewer: ItemConverter | undefined;
  /** The revision up to which events are skipped. */
  readonly after: number;
  /** The initial events, which are created when the reader takes them, so that a large initial list does not block the event loop. */
  readonly initial: Iterator<SharedWatchFrame>;
  /** Returns a bookmark frame; undefined if the client did not request bookmarks. */
  readonly bookmark: (() => SharedWatchFrame) | undefined;
  readonly clock: Clock;
  readonly random: () => number;
  readonly timeoutMs: number;
  readonly signal: AbortSignal | undefined;
  /** The memory limit that all watchers share. */
  readonly memory?: WatcherMemory;
  /** The maximum number of bytes of the frames that wait for this watcher. */
  readonly maxBytes?: number;
  readonly onEnd: () => void;
}
