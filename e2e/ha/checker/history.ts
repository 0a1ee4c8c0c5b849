/** A request to one object, as its client saw it. Times are milliseconds of one monotonic clock. */
export interface Operation {
  readonly client: number;
  readonly key: string;
  readonly calledAt: number;
  /** Infinity if the client received no answer: the request may take effect at any time after the call, or never. */
  readonly returnedAt: number;
  readonly input: OperationInput;
  readonly output: OperationOutput;
}

/** `ifRevision` is the resourceVersion that the object must have. Values are unique among all writes of a history. */
export type OperationInput =
  | { readonly verb: 'get' }
  | { readonly verb: 'create'; readonly value: string }
  | { readonly verb: 'update'; readonly value: string; readonly ifRevision: number }
  | { readonly verb: 'delete'; readonly ifRevision?: number };

export type OperationOutput =
  | { readonly result: 'ok'; readonly revision?: number; readonly value?: string }
  | { readonly result: 'not-found' | 'exists' | 'conflict' | 'unknown' };

/** An event of a watch, or the start of a request for one. */
export type WatchRecord =
  | { readonly type: 'request'; readonly revision: number }
  | { readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'; readonly key: string; readonly revision: number; readonly value: string }
  | { readonly type: 'BOOKMARK'; readonly revision: number };

/** Everything that one watcher received, across all of its requests. */
export interface WatchHistory {
  readonly watcher: string;
  readonly records: readonly WatchRecord[];
}

/** A list without a resourceVersion, which must contain everything that was acknowledged before the call. */
export interface ListRecord {
  readonly calledAt: number;
  readonly revision: number;
  readonly items: ReadonlyMap<string, { readonly revision: number; readonly value: string }>;
}

export interface History {
  readonly operations: readonly Operation[];
  readonly watches: readonly WatchHistory[];
  readonly lists: readonly ListRecord[];
}
