const mebibyte = 1024 * 1024;

/**
 * The limits, in bytes of encoded objects, on the memory of the watch cache that clients can cause in addition to the current objects. The encoded
 * size of an object is known from storage, so accounting costs one addition per event.
 */
export interface WatchCacheLimits {
  /** Replaced and deleted objects in the event ring of one resource. Beyond the limit, the ring drops its oldest events. */
  readonly ringBytes: number;
  /** Replaced and deleted objects in the event rings of all resources. Beyond the limit, the largest ring drops its oldest events. */
  readonly totalRingBytes: number;
  /** Events that wait for one watcher. Beyond the limit, the watcher is terminated. */
  readonly watcherBytes: number;
  /**
   * Events that wait for all watchers; an event that several watchers wait for counts once. Beyond the limit, the slowest watchers are terminated.
   */
  readonly totalWatcherBytes: number;
  /**
   * Values of writes whose watch event has not arrived. Beyond the limit, the event of a write is decoded like that of another API server's write.
   */
  readonly pendingWriteBytes: number;
}

/** The default limits. A ring can hold 13 seconds of 500 updates per second of objects of 10 KB; a watcher may be three seconds behind them. */
export const watchCacheLimits: WatchCacheLimits = {
  ringBytes: 64 * mebibyte,
  totalRingBytes: 192 * mebibyte,
  watcherBytes: 32 * mebibyte,
  totalWatcherBytes: 128 * mebibyte,
  pendingWriteBytes: 64 * mebibyte,
};

/** The estimated memory of an event without its objects, in bytes, which limits the number of events without an object, such as bookmarks. */
export const eventOverheadBytes = 256;
