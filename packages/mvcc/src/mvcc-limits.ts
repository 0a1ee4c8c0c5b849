/** Limits of the history of a store and of the queue of each watch. */
export interface MvccLimits {
  /** Number of changes that stay readable and watchable; older ones are compacted automatically. */
  readonly historyChanges: number;
  /** Approximate memory of the history in addition to the current entries, in bytes. */
  readonly historyBytes: number;
  /** Limits of the queue of one watch; a watch that exceeds them fails with `Lagged`. */
  readonly watchBytes: number;
  readonly watchChanges: number;
}

export const mvccDefaults: MvccLimits = {
  historyChanges: 100_000,
  historyBytes: 64 * 1024 * 1024,
  watchBytes: 64 * 1024 * 1024,
  watchChanges: 100_000,
};
