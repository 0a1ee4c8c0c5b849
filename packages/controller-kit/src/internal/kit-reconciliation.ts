import { controllerOf, controllerRef, objectKey, type KubeObject } from '@oarlock/api/object';
import { apiVersionOf, groupResource, type Resource } from '@oarlock/api/resource';
import { isStatus } from '@oarlock/api/status';
import type { Condition } from '@oarlock/api/types/meta-v1';
import type { Clock } from '@oarlock/primitives/clock';
import type { EventRecorder, Informer, Lister } from '@oarlock/spi/client';
import type { ReconcileContext } from '@oarlock/spi/controller';
import { nextCondition, type ConditionUpdate } from '../conditions.ts';
import type { ApplyConfiguration, Reconciliation, StatusOf } from '../reconciliation.ts';
import type { Applier } from './applier.ts';

/** The index of owned objects by the uid of their controller. */
export const controllerIndex = 'controller-kit/controller-uid';
export const controllerUids = (object: KubeObject): readonly string[] => {
  const uid = controllerOf(object)?.uid;
  return uid === undefined ? [] : [uid];
};

/** What all reconciles of one controller share. */
export interface KitDependencies<C> {
  readonly config: C;
  readonly clock: Clock;
  readonly applier: Applier;
  readonly recorder: EventRecorder;
  /** The informers of all declared resources, by `resource.group`. */
  readonly informers: ReadonlyMap<string, Informer>;
  /** The names of the owned resources, as `resource.group`. */
  readonly owned: ReadonlySet<string>;
}

/** The helpers for one reconcile of one object. */
export class KitReconciliation<T extends KubeObject, C> implements Reconciliation<T, C> {
  readonly client: ReconcileContext['client'];
  readonly log: ReconcileContext['log'];
  readonly signal: ReconcileContext['signal'];
  readonly span: ReconcileContext['span'];
  readonly failures: number;
  readonly config: C;
  readonly clock: Clock;
  readonly #resource: Resource<T>;
  readonly #object: T;
  readonly #dependencies: KitDependencies<C>;

  constructor(
    dependencies: KitDependencies<C>,
    context: ReconcileContext,
    { resource, object }: { readonly resource: Resource<T>; readonly object: T },
  ) {
    this.client = context.client;
    this.log = context.log;
    this.signal = context.signal;
    this.span = context.span;
    this.failures = context.failures;
    this.config = dependencies.config;
    this.clock = dependencies.clock;
    this.#resource = resource;
    this.#object = object;
    this.#dependencies = dependencies;
  }

  // functions instead of methods, so that a reconcile can take them out of its argument

  readonly lister = <O extends KubeObject>(resource: Resource<O>): Lister<O> => {
    const informer = this.#dependencies.informers.get(groupResource(resource));
    if (informer === undefined) throw new Error(`the controller does not declare ${groupResource(resource)}: add .owns() or .watches()`);
    return informer as Informer<O>;
  };

  readonly owned = <O extends KubeObject>(resource: Resource<O>): readonly O[] =>
    this.#ownedLister(resource).byIndex(controllerIndex, this.#object.metadata?.uid ?? '');

  readonly apply = async <O extends KubeObject>(resource: Resource<O>, configuration: ApplyConfiguration<O>): Promise<O> => {
    const lister = this.#ownedLister(resource);
    const own = this.#identity();
    const namespace = configuration.metadata.namespace ?? own.metadata.namespace;
    checkScope(resource, { own, namespace });
    const desired: KubeObject = {
      ...configuration,
      apiVersion: apiVersionOf(resource),
      kind: resource.kind,
      metadata: {
        ...configuration.metadata,
        ...(resource.namespaced && namespace !== undefined && { namespace }),
        ownerReferences: [controllerRef(own)],
      },
    };
    const cached = lister.get(objectKey(desired));
    const owner = cached && controllerOf(cached);
    if (owner !== undefined && owner.uid !== own.metadata.uid)
      throw new Error(`Object ${objectKey(desired)} is already owned by another ${owner.kind} controller ${owner.name}`);
    return this.#dependencies.applier.apply(desired, { client: this.client, resource, cached });
  };

  readonly setStatus = async (status: StatusOf<T>, updates?: readonly ConditionUpdate[]): Promise<void> => {
    const { clock, applier } = this.#dependencies;
    const { apiVersion, kind, metadata } = this.#identity();
    const { generation } = this.#object.metadata ?? {};
    const cached = this.lister(this.#resource).get(objectKey(this.#object)) ?? this.#object;
    const { conditions: before = [] } = ((cached as { readonly status?: object }).status ?? {}) as {
      readonly conditions?: readonly Condition[];
    };
    const conditions = updates?.map((update) =>
      nextCondition(
        before.find(({ type }) => type === update.type),
        { ...(generation !== undefined && { observedGeneration: generation }), ...update },
        clock.now(),
      ),
    );
    const { name = '', namespace } = metadata;
    const desired = {
      apiVersion,
      kind,
      metadata: { name, ...(namespace !== undefined && { namespace }) },
      status: { ...status, ...(conditions !== undefined && { conditions }) },
    };
    try {
      await applier.apply(desired, { client: this.client, resource: this.#resource, cached, subresource: 'status' });
    } catch (error) {
      if (!isStatus(error, 'NotFound')) throw error; // deleted in the meantime
    }
  };

  readonly event = (type: 'Normal' | 'Warning', reason: string, message: string): void =>
    this.#dependencies.recorder.event(this.#identity(), type, reason, message);

  /** Returns the reconciled object with its kind, which items of lists may lack. */
  #identity(): T & { readonly apiVersion: string; readonly kind: string; readonly metadata: NonNullable<T['metadata']> } {
    return { ...this.#object, apiVersion: apiVersionOf(this.#resource), kind: this.#resource.kind, metadata: this.#object.metadata ?? {} };
  }

  #ownedLister<O extends KubeObject>(resource: Resource<O>): Lister<O> {
    if (!this.#dependencies.owned.has(groupResource(resource)))
      throw new Error(`the controller does not own ${groupResource(resource)}: add .owns()`);
    return this.lister(resource);
  }
}

/** @throws Error if an object of the resource cannot have the owner, because the garbage collector would delete it */
function checkScope(resource: Resource, { own, namespace }: { readonly own: KubeObject; readonly namespace: string | undefined }): void {
  const ofOwner = own.metadata?.namespace;
  if (!resource.namespaced && ofOwner !== undefined)
    throw new Error(`cluster-scoped resource must not have a namespace-scoped owner, owner's namespace ${ofOwner}`);
  if (resource.namespaced && namespace === undefined)
    throw new Error(`metadata.namespace of the ${resource.kind} is missing: its owner is cluster-scoped`);
  if (ofOwner !== undefined && namespace !== ofOwner)
    throw new Error(`cross-namespace owner references are disallowed, owner's namespace ${ofOwner}, obj's namespace ${namespace ?? ''}`);
}
