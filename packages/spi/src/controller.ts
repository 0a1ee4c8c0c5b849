import type { KubeObject, ObjectKey } from '@oarlock/api/object';
import type { Logger } from '@oarlock/kernel/logger';
import { slot } from '@oarlock/kernel/slot';
import type { Span } from '@opentelemetry/api';
import type { Client, Informer } from './client.ts';

/** A kind whose changes wake a controller. Made with `watch`. */
export interface Watch {
  readonly informer: Informer<KubeObject>;
  keys(object: KubeObject, old: KubeObject | undefined): Iterable<ObjectKey>;
}

/** Says which keys to reconcile when an object of `informer` comes, changes (then with `old`) or goes. */
export function watch<T extends KubeObject>(informer: Informer<T>, keys: (object: T, old: T | undefined) => Iterable<ObjectKey>): Watch {
  // An informer hands its own objects to `keys` and to nobody else, so the wider type is only a container for unlike watches.
  return { informer, keys } as unknown as Watch;
}

export interface ReconcileContext {
  /** Requests made with it are caused by this reconcile. */
  readonly client: Client;
  readonly log: Logger;
  readonly signal: AbortSignal;
  readonly span: Span;
  /** How often this key has failed since it last succeeded. */
  readonly failures: number;
}

/** Come back to the key after so many milliseconds, unless something wakes it before. */
export interface ReconcileResult {
  readonly requeueAfterMs?: number;
}

/**
 * One reconcile loop. Level based: `reconcile` reads the caches, compares what is with what should be and does the next step; it is
 * called again for whatever its own writes change. Never for the same key twice at once. A throw puts the key back with
 * growing delay (5 ms doubling to 1000 s, as client-go's default limiter).
 */
export interface Controller {
  readonly name: string;
  readonly watches: readonly Watch[];
  /** How many keys are worked on at once. Default 5. */
  readonly workers?: number;
  /**
   * It does what it can where a server does not have all the kinds that it watches: it runs without those, and takes them up when the server has
   * them. Absent: it does not run before the server has all of them.
   */
  readonly partial?: boolean;
  /**
   * Called when it begins to run, for kinds that come and go meanwhile: `add` takes up another watch, and what it returns lets go of it.
   * What this returns is called when the run ends.
   */
  follow?(add: (watch: Watch) => () => void): () => void;
  reconcile(key: ObjectKey, context: ReconcileContext): Promise<ReconcileResult | void>;
}

/** Loops run only on the leader, after their informers have synced. */
export const Controllers = slot.chain<Controller>('controller/v1');
