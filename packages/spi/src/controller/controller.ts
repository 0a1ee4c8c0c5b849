import type { KubeObject, ObjectKey } from '@oarlock/api/object';
import type { Logger } from '@oarlock/primitives/logger';
import { slot } from '@oarlock/kernel/slot';
import type { Span } from '@opentelemetry/api';
import type { Client, Informer } from '../composition/client.ts';

/** A resource whose changes enqueue keys of a controller. Created with `watch`. */
export interface ControllerWatch {
  readonly informer: Informer<KubeObject>;
  keys(object: KubeObject, old: KubeObject | undefined): Iterable<ObjectKey>;
}

/** Declares the keys to reconcile when an object of `informer` is added, updated or deleted. On an update, `old` is the previous version. */
export function watch<T extends KubeObject>(
  informer: Informer<T>,
  keys: (object: T, old: T | undefined) => Iterable<ObjectKey>,
): ControllerWatch {
  // the informer passes only its own objects to `keys`, so the wider type is safe: it only lets watches of different types share a list
  return { informer, keys } as unknown as ControllerWatch;
}

export interface ReconcileContext {
  /** A client whose requests have the span of this reconcile as parent. */
  readonly client: Client;
  readonly log: Logger;
  readonly signal: AbortSignal;
  readonly span: Span;
  /** Number of consecutive failures of this key. */
  readonly failures: number;
}

/** The result of a reconcile: the key is reconciled again after this delay in milliseconds, unless an event enqueues the key earlier. */
export interface ReconcileResult {
  readonly requeueAfterMs?: number;
}

/**
 * A controller: reconciles objects of one kind, level based.
 *
 * `reconcile` reads the caches, compares the actual with the desired state and makes the next step. The controller is called
 * again for the changes that its own writes cause.
 *
 * Guaranteed: only the leader reconciles, after all informers have synced; one key is never reconciled concurrently; a key
 * whose reconcile throws is retried with backoff (5 ms doubling to 1000 s, client-go's default). Not guaranteed: that the cache
 * contains the controller's own last write, or that each event leads to a separate reconcile.
 *
 * ```ts
 * const controller: Controller = {
 *   name: 'example',
 *   watches: [watch(informers.forResource(pods), (pod) => [objectKey(pod)])],
 *   async reconcile(key, { client }) {
 *     const pod = podInformer.get(key);
 *     if (pod === undefined) return; // deleted: nothing to do
 *     ...
 *   },
 * };
 * ```
 */
export interface Controller {
  readonly name: string;
  readonly watches: readonly ControllerWatch[];
  /** Maximum number of keys that are reconciled concurrently. Default 5. */
  readonly concurrentReconciles?: number;
  /** True if the controller runs only when the setting `enable` of the role names it. */
  readonly isDisabledByDefault?: boolean;
  /**
   * True if the controller can run while the API server does not serve some of the watched kinds; it handles these kinds when they are served. If
   * absent or false, the controller starts when the API server serves all of them.
   */
  readonly toleratesMissingKinds?: boolean;
  /**
   * Adds watches at runtime, for controllers whose watched kinds change. Called at the start: `add` adds a watch and returns a function that removes
   * the watch. The function that `addDynamicWatches` returns is called when the controller stops.
   */
  addDynamicWatches?(add: (watch: ControllerWatch) => () => void): () => void;
  reconcile(key: ObjectKey, context: ReconcileContext): Promise<ReconcileResult | void>;
}

/** Controllers of the controller manager. They run on the leader only, after their informers have synced. */
export const Controllers = slot.chain<Controller>('controller/v1');
