const mebibyte = 1024 * 1024;

/**
 * Bounds of what clients can make the watch cache keep besides the current objects, in bytes of encoded objects. The encoded length of an
 * object is known from storage, so accounting costs an addition per event.
 */
export interface WatchCacheLimits {
  /** Replaced and deleted versions in the event ring of one resource. The ring drops its oldest events beyond it. */
  readonly ringBytes: number;
  /** Replaced and deleted versions in the event rings of all resources. The largest ring drops its oldest events beyond it. */
  readonly totalRingBytes: number;
  /** Events that wait for one watcher. A watcher that exceeds it is terminated. */
  readonly watcherBytes: number;
  /**
   * Events that wait for any watcher; an event that several watchers wait for counts once. The slowest watchers are terminated beyond it.
   */
  readonly totalWatcherBytes: number;
  /** Values of writes whose watch event has not arrived. Storage reports a write beyond it like that of another API server. */
  readonly pendingWriteBytes: number;
}

/** A ring holds 13 seconds of 500 updates per second of objects of 10 KB, and a watcher may fall three seconds behind them. */
export const watchCacheLimits: WatchCacheLimits = {
  ringBytes: 64 * mebibyte,
  totalRingBytes: 192 * mebibyte,
  watcherBytes: 32 * mebibyte,
  totalWatcherBytes: 128 * mebibyte,
  pendingWriteBytes: 64 * mebibyte,
};

/** Estimated memory of an event without its objects, in bytes. Bounds the number of events without payload, such as bookmarks. */
export const eventOverheadBytes = 256;
