import type { KubeObject, ObjectMeta } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import type { Clock } from '@oarlock/primitives/clock';
import type { Lister } from '@oarlock/spi/client';
import type { ReconcileContext, ReconcileResult } from '@oarlock/spi/controller';
import type { ConditionUpdate } from './conditions.ts';

type Partially<T> = T extends readonly (infer I)[]
  ? readonly Partially<I>[]
  : T extends object
    ? { readonly [K in keyof T]?: Partially<T[K]> | undefined }
    : T;

/** The fields of an object that a controller determines. Fields that an earlier configuration had and that are absent now are removed. */
export type ApplyConfiguration<O extends KubeObject> = Partially<Omit<O, 'apiVersion' | 'kind' | 'metadata' | 'status'>> & {
  readonly metadata: Pick<ObjectMeta, 'labels' | 'annotations' | 'namespace' | 'finalizers'> & { readonly name: string };
};

/** The status of an object without its conditions. */
export type StatusOf<T> = T extends { readonly status?: infer S } ? Omit<NonNullable<S>, 'conditions'> : never;

/** What a reconcile function receives in addition to the object. Its functions can be taken out of it: `async (website, { apply, setStatus }) => ...`. */
export interface Reconciliation<T extends KubeObject, C> extends ReconcileContext {
  readonly config: C;
  readonly clock: Clock;
  /** Returns the cache of the reconciled resource, or of one that the controller owns or watches. Its objects are frozen. */
  readonly lister: <O extends KubeObject>(resource: Resource<O>) => Lister<O>;
  /** Returns the objects of an owned resource whose controller is the reconciled object, from the cache. */
  readonly owned: <O extends KubeObject>(resource: Resource<O>) => readonly O[];
  /**
   * Creates or updates an object of an owned resource by server-side apply, with the controller's name as field manager and the reconciled object as
   * controller reference. The namespace is that of the reconciled object. Sends no request if the cache shows that nothing would change.
   * @throws StatusError of the API server; Error if another controller owns the object
   */
  readonly apply: <O extends KubeObject>(resource: Resource<O>, configuration: ApplyConfiguration<O>) => Promise<O>;
  /**
   * Applies the status: what the reconcile observed, completely. A condition's `lastTransitionTime` changes with its status only, and its
   * `observedGeneration` is the generation of the object. Sends no request if nothing would change, and ignores that the object was deleted.
   */
  readonly setStatus: (status: StatusOf<T>, conditions?: readonly ConditionUpdate[]) => Promise<void>;
  /** Records an event about the reconciled object. */
  readonly event: (type: 'Normal' | 'Warning', reason: string, message: string) => void;
}

/** Makes one step towards the state that `object` declares. `object` is not being deleted. */
export type ReconcileFunction<T extends KubeObject, C> = (object: T, context: Reconciliation<T, C>) => Promise<ReconcileResult | void>;

/** Cleans up before an object is deleted. The object stays while the function throws or returns `requeueAfterMs`. */
export type FinalizeFunction<T extends KubeObject, C> = ReconcileFunction<T, C>;
