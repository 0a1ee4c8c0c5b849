import type { KubeObject, ObjectKey, ObjectList } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import { slot } from '@oarlock/kernel/slot';
import type { SpanContext } from '@oarlock/kernel/tracing';

/** The name of an object. `namespace` is absent for cluster-scoped kinds. */
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
  /** The namespace; absent: all namespaces. */
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
  /** Requests BOOKMARK events. Default true. */
  readonly bookmarks?: boolean;
  /** Starts with the existing objects as ADDED, then a BOOKMARK annotated `k8s.io/initial-events-end` (KEP-3157). */
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
  /** The span of the write, if the server knows it. */
  readonly spanContext?: SpanContext;
}

/**
 * A client of the Kubernetes API.
 *
 * One interface over two transports: loopback (calls the API server of this process with an identity, without sockets or
 * encoding) and HTTPS. Returned objects are deeply frozen and may be shared; copy before changing.
 *
 * Errors: every status that the server returns is thrown as `StatusError`. A transport failure is thrown as `StatusError`
 * `ServiceUnavailable` with `cause`; it is then unknown whether a write took effect.
 *
 * ```ts
 * const pod = await client.get(pods, { namespace: 'default', name: 'web' });
 * await client.update(pods, { ...pod, metadata: { ...pod.metadata, labels: { app: 'web' } } });
 * ```
 */
export interface Client {
  get<T extends KubeObject>(resource: Resource<T>, name: ObjectName, options?: GetOptions): Promise<T>;
  list<T extends KubeObject>(resource: Resource<T>, options?: ListOptions): Promise<ObjectList<T>>;
  /**
   * Returns events in batches, in order. The iterator ends when the server closes the watch (timeout) or the signal aborts.
   * @throws StatusError from the iterator: `Expired` if `resourceVersion` is too old, or the Status of an ERROR event
   */
  watch<T extends KubeObject>(resource: Resource<T>, options: WatchOptions): AsyncIterable<readonly WatchEvent<T>[]>;
  /**
   * Creates an object. With `subresource` (`binding`, `eviction`, `token`), `name` is the parent object, and the result has the subresource's type.
   */
  create<T extends KubeObject>(resource: Resource<T>, object: T, options?: WriteOptions & { readonly name?: ObjectName }): Promise<T>;
  update<T extends KubeObject>(resource: Resource<T>, object: T, options?: WriteOptions): Promise<T>;
  patch<T extends KubeObject>(resource: Resource<T>, name: ObjectName, type: PatchType, patch: unknown, options?: PatchOptions): Promise<T>;
  /** Deletes an object. Returns the object if finalizers or a grace period delay the deletion, otherwise undefined. */
  delete<T extends KubeObject>(resource: Resource<T>, name: ObjectName, options?: DeleteOptions): Promise<T | undefined>;
  deleteCollection<T extends KubeObject>(
    resource: Resource<T>,
    options?: DeleteOptions & Pick<ListOptions, 'namespace' | 'labelSelector' | 'fieldSelector'>,
  ): Promise<void>;
  /** Sends any other request, such as `/version` or `/oarlock/v1/traces`, with JSON bodies. */
  raw(method: 'GET' | 'POST' | 'PUT' | 'DELETE', path: string, body?: unknown, options?: CallOptions): Promise<unknown>;
  /** Returns a client whose requests have `spanContext` as the parent span. Cheap enough to call for every reconcile. */
  withSpanContext(spanContext: SpanContext | undefined): Client;
}
export const Client = slot.one<Client>('client/v1');

/** A read-only view of an informer's cache. Lists have no defined order. Returned objects are frozen and shared. */
export interface Lister<T extends KubeObject> {
  get(key: ObjectKey): T | undefined;
  list(namespace?: string): readonly T[];
  /** Returns the objects for which the index function named `index` returned `value`. */
  byIndex(index: string, value: string): readonly T[];
  readonly size: number;
}

/** Callbacks for changes of the cache (cache.ResourceEventHandler upstream). `spanContext` is the span of the write, if known. */
export interface ResourceEventHandler<T extends KubeObject> {
  onAdd?(object: T, spanContext: SpanContext | undefined): void;
  /** Called when an object has changed. Also called on a resync, with `object === old`. */
  onUpdate?(object: T, old: T, spanContext: SpanContext | undefined): void;
  /**
   * `object` is the last state that the informer knows. The state may be older than the deletion if the informer missed the deletion during a
   * disconnect (DeletedFinalStateUnknown).
   */
  onDelete?(object: T, spanContext: SpanContext | undefined): void;
}

/**
 * A cache of one resource that follows the API server (SharedIndexInformer upstream).
 *
 * Guaranteed: each change is delivered once to every handler, in order for one object; disconnects, expired resource versions
 * and server restarts are handled by relisting. Not guaranteed: that intermediate states of an object are seen, or that the cache is
 * as new as the server; see `refresh`.
 */
export interface Informer<T extends KubeObject = KubeObject> extends Lister<T> {
  readonly resource: Resource<T>;
  /** True when the cache holds the result of the first list and every handler has received it. */
  readonly hasSynced: boolean;
  whenSynced(signal?: AbortSignal): Promise<void>;
  /**
   * Resolves when every handler has received everything that was written before this call: the informer lists again, or waits for the first list if
   * that is in progress. Also resolves if the server forbids listing. Rejects when the signal aborts.
   */
  refresh(signal?: AbortSignal): Promise<void>;
  /** Adds an index. Must be called before the informer starts. `values` is called once per version of an object. */
  addIndexer(name: string, values: (object: T) => readonly string[]): void;
  /**
   * Adds a handler, and returns a function that removes it. Handlers run synchronously and in order, so they should enqueue keys
   * and return. Objects that are already cached are delivered as added.
   */
  addEventHandler(handler: ResourceEventHandler<T>): () => void;
}

export interface InformerScope {
  /** Absent: all namespaces. */
  readonly namespace?: string;
  readonly fieldSelector?: string;
  readonly labelSelector?: string;
}

/** Shared informers of one process (SharedInformerFactory upstream): one per resource and scope. */
export interface Informers {
  /** Returns the shared informer. It starts when the factory starts, or immediately if the factory already runs. */
  forResource<T extends KubeObject>(resource: Resource<T>, scope?: InformerScope): Informer<T>;
  /** Stops the informer of a resource that is no longer served, for all callers that share it. Handlers receive no delete events. */
  release?(resource: Resource): void;
}
export const Informers = slot.one<Informers>('informers/v1');

/** The action of an events.k8s.io Event, such as `Binding` or `Preempting`, and the related object. */
export interface EventAction {
  readonly name: string;
  readonly related?: KubeObject;
}
/** Writes Events, aggregated and rate limited per source and object as client-go does. It never throws and never blocks. */
export interface EventRecorder {
  /**
   * Records an event. `fieldPath` names a part of the object, such as `spec.containers{web}`. With `action`, writes an events.k8s.io Event, which has
   * an `eventTime` and whose repetitions form a series instead of a count.
   */
  event(about: KubeObject, type: 'Normal' | 'Warning', reason: string, message: string, fieldPath?: string, action?: EventAction): void;
}
/** Creates recorders. `component` becomes the Event's source and reportingComponent. */
export interface EventRecorderFactory {
  recorder(component: string, host?: string): EventRecorder;
}
export const Events = slot.one<EventRecorderFactory>('events/v1');
