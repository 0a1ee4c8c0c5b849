import type { KubeObject, ObjectKey, ObjectList } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import { slot } from '@oarlock/kernel/slot';
import type { Cause } from '@oarlock/kernel/tracing';

/** Which object: the namespace is left out for cluster-scoped kinds. */
export interface ObjectName {
  readonly namespace?: string;
  readonly name: string;
}

export interface CallOptions {
  readonly signal?: AbortSignal;
}
export interface GetOptions extends CallOptions {
  readonly resourceVersion?: string;
  readonly subresource?: string;
}
export interface ListOptions extends CallOptions {
  /** Absent: all namespaces. */
  readonly namespace?: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
  readonly limit?: number;
  readonly continue?: string;
  readonly resourceVersion?: string;
  readonly resourceVersionMatch?: 'Exact' | 'NotOlderThan';
}
export interface WatchOptions extends Omit<ListOptions, 'limit' | 'continue'> {
  readonly signal: AbortSignal;
  /** Ask for BOOKMARK events; on by default. */
  readonly bookmarks?: boolean;
  /** Begin with the present objects as ADDED, then a BOOKMARK annotated `k8s.io/initial-events-end` (KEP-3157). */
  readonly sendInitialEvents?: boolean;
  readonly timeoutSeconds?: number;
}
export interface WriteOptions extends CallOptions {
  readonly subresource?: string;
  readonly dryRun?: boolean;
  readonly fieldManager?: string;
}
export type PatchType = 'json' | 'merge' | 'strategic' | 'apply';
export interface PatchOptions extends WriteOptions {
  readonly force?: boolean;
}
export interface DeleteOptions extends CallOptions {
  readonly gracePeriodSeconds?: number;
  readonly propagationPolicy?: 'Orphan' | 'Background' | 'Foreground';
  readonly preconditions?: { readonly uid?: string; readonly resourceVersion?: string };
  readonly dryRun?: boolean;
}

export interface WatchEvent<T extends KubeObject = KubeObject> {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK';
  readonly object: T;
  /** The span of the write, where the server knows it. */
  readonly cause?: Cause;
}

/**
 * The Kubernetes API. One interface over two transports: loopback (the pipeline of this process, with an identity, no
 * sockets and no encoding) and HTTPS. Objects that come back are deeply frozen and may be shared.
 * Refusals of the server are thrown as `StatusError`; a transport that fails throws `StatusError` `ServiceUnavailable` with `cause`.
 */
export interface Client {
  get<T extends KubeObject>(resource: Resource<T>, name: ObjectName, options?: GetOptions): Promise<T>;
  list<T extends KubeObject>(resource: Resource<T>, options?: ListOptions): Promise<ObjectList<T>>;
  /**
   * Events in batches, in order. Ends when the server ends it (timeout) or the signal aborts.
   * @throws StatusError from the iterator: `Expired` when `resourceVersion` is too old, or what an ERROR event carries
   */
  watch<T extends KubeObject>(resource: Resource<T>, options: WatchOptions): AsyncIterable<readonly WatchEvent<T>[]>;
  /** With `subresource` (`binding`, `eviction`, `token`), `name` says under which object, and the answer's type is the subresource's. */
  create<T extends KubeObject>(resource: Resource<T>, object: T, options?: WriteOptions & { readonly name?: ObjectName }): Promise<T>;
  update<T extends KubeObject>(resource: Resource<T>, object: T, options?: WriteOptions): Promise<T>;
  patch<T extends KubeObject>(resource: Resource<T>, name: ObjectName, type: PatchType, patch: unknown, options?: PatchOptions): Promise<T>;
  /** The object as it was left: still there when finalizers or a grace period hold it. */
  delete<T extends KubeObject>(resource: Resource<T>, name: ObjectName, options?: DeleteOptions): Promise<T | undefined>;
  deleteCollection<T extends KubeObject>(
    resource: Resource<T>,
    options?: DeleteOptions & Pick<ListOptions, 'namespace' | 'labelSelector' | 'fieldSelector'>,
  ): Promise<void>;
  /** Anything else, such as `/version` or `/oarlock/v1/traces`: JSON in, JSON out. */
  raw(method: 'GET' | 'POST' | 'PUT' | 'DELETE', path: string, body?: unknown, options?: CallOptions): Promise<unknown>;
  /** The same client, whose requests are caused by `cause`. Cheap: made for each reconcile. */
  causedBy(cause: Cause | undefined): Client;
}
export const Client = slot.one<Client>('client/v1');

/** Reads from a cache. Lists come in no order that anybody may rely on. */
export interface Lister<T extends KubeObject> {
  get(key: ObjectKey): T | undefined;
  list(namespace?: string): readonly T[];
  /** Objects for which the index function named `index` returned `value`. */
  byIndex(index: string, value: string): readonly T[];
  readonly size: number;
}

export interface InformerHandler<T extends KubeObject> {
  added?(object: T, cause: Cause | undefined): void;
  /** Also called when only the cache was refreshed; `object === old` then. */
  updated?(object: T, old: T, cause: Cause | undefined): void;
  /** `object` is the last known state; it may be older than the deletion when that was missed during a disconnect. */
  deleted?(object: T, cause: Cause | undefined): void;
}

/** A cache of one resource that follows the server through disconnects, expiry and restarts, and tells of each difference once. */
export interface Informer<T extends KubeObject = KubeObject> extends Lister<T> {
  readonly resource: Resource<T>;
  /** The first list is in the cache and has been told to every handler. */
  readonly synced: boolean;
  whenSynced(signal?: AbortSignal): Promise<void>;
  /**
   * Resolves when every handler has been told all that was written before this was called, however far the cache was behind: everything is read anew, and
   * what is read for the first time right now will do. Resolves at once, too, where the server refuses to tell; rejects when the signal aborts.
   */
  refresh(signal?: AbortSignal): Promise<void>;
  /** Before the informer starts only. `values` is called once per version of an object. */
  addIndex(name: string, values: (object: T) => readonly string[]): void;
  /** Handlers run synchronously, in order, on the informer's turn: they enqueue keys and return. Objects already cached are told as added. */
  on(handler: InformerHandler<T>): () => void;
}

export interface InformerScope {
  readonly namespace?: string;
  readonly fieldSelector?: string;
  readonly labelSelector?: string;
}

/** Informers of one process, each made once per resource and scope and shared by all who ask. */
export interface Informers {
  /** Starts the informer when the factory runs, or at once if it runs already. */
  of<T extends KubeObject>(resource: Resource<T>, scope?: InformerScope): Informer<T>;
  /** Ends the informer of a resource that is not served any more, for all who asked for it. Nobody is told of what it held. */
  release?(resource: Resource): void;
}
export const Informers = slot.one<Informers>('informers/v1');

/** What was done, or failed, and with what else it has to do: `Binding`, `Preempting`. */
export interface EventAction {
  readonly name: string;
  readonly related?: KubeObject;
}
/** Writes Events, aggregated and rate limited per source and object as client-go does. Never throws, never waits. */
export interface EventRecorder {
  /**
   * `fieldPath` says which part of the object: `spec.containers{web}`. With `action` the event is one of events.k8s.io: it has an `eventTime`, and
   * others like it are a series instead of a count.
   */
  event(about: KubeObject, type: 'Normal' | 'Warning', reason: string, message: string, fieldPath?: string, action?: EventAction): void;
}
/** Makes recorders; `component` becomes the Event's source and reportingComponent. */
export interface EventSource {
  recorder(component: string, host?: string): EventRecorder;
}
export const Events = slot.one<EventSource>('events/v1');
