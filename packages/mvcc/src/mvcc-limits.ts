/** How much of the past is kept, and how much may wait for a reader. */
export interface MvccLimits {
  /** Changes that stay readable and watchable; older ones are compacted on the way. */
  readonly historyChanges: number;
  /** Bytes that these may hold beyond what stands now, roughly. */
  readonly historyBytes: number;
  /** What may wait for the reader of one watch before it is cut off. */
  readonly watchBytes: number;
  readonly watchChanges: number;
}

export const mvccDefaults: MvccLimits = {
  historyChanges: 100_000,
  historyBytes: 64 * 1024 * 1024,
  watchBytes: 64 * 1024 * 1024,
  watchChanges: 100_000,
};
