import { controllerOf, type KubeObject, type ObjectKey, type OwnerReference } from '@oarlock/api/object';
import { groupResource, type Resource } from '@oarlock/api/resource';
import type { Lifecycle } from '@oarlock/kernel/plugin';
import type { Informer, Lister } from '@oarlock/spi/client';
import { watch, type Controller, type ControllerWatch, type ReconcileContext, type ReconcileResult } from '@oarlock/spi/controller';
import type { FinalizeFunction, ReconcileFunction } from '../reconciliation.ts';
import type { DefinitionInstaller } from './definition-installer.ts';
import { addFinalizer, hasFinalizer, removeFinalizer } from './finalizer.ts';
import { KitReconciliation, type KitDependencies } from './kit-reconciliation.ts';

/** A resource whose changes enqueue the objects that own it. */
export interface Ownership {
  readonly resource: Resource;
  /** True if every owner reference counts, not only the controller reference. */
  readonly matchEveryOwner: boolean;
}

/** A resource whose changes enqueue the keys that a function returns. */
export interface MappedWatch {
  readonly resource: Resource;
  keys(object: KubeObject, reconciled: Lister<KubeObject>): Iterable<ObjectKey>;
}

/** What the builder has collected. */
export interface ControllerPlan<T extends KubeObject, C> {
  readonly resource: Resource<T>;
  readonly ownerships: readonly Ownership[];
  readonly mapped: readonly MappedWatch[];
  readonly finalizer?: { readonly name: string; readonly finalize: FinalizeFunction<T, C> };
  readonly concurrency?: number;
  readonly reconcile: ReconcileFunction<T, C>;
}

/** The controller of a plan. The controller manager runs it as any other: queue, workers, back-off and leader election are the manager's. */
export class KitController<T extends KubeObject, C> implements Controller, Lifecycle {
  readonly name: string;
  readonly watches: readonly ControllerWatch[];
  readonly concurrentReconciles?: number;
  readonly #plan: ControllerPlan<T, C>;
  readonly #primary: Informer<T>;
  readonly #dependencies: KitDependencies<C>;
  readonly #installer: DefinitionInstaller | undefined;

  constructor(
    name: string,
    plan: ControllerPlan<T, C>,
    { dependencies, installer }: { readonly dependencies: KitDependencies<C>; readonly installer: DefinitionInstaller | undefined },
  ) {
    this.name = name;
    this.#plan = plan;
    this.#dependencies = dependencies;
    this.#installer = installer;
    const informerOf = <O extends KubeObject>(resource: Resource<O>) => dependencies.informers.get(groupResource(resource)) as Informer<O>;
    this.#primary = informerOf(plan.resource);
    this.watches = [
      watch(this.#primary, ({ metadata }) => [keyOf(metadata?.namespace, metadata?.name ?? '')]),
      ...plan.ownerships.map((ownership) =>
        watch(informerOf(ownership.resource), (object, old) => ownerKeys(plan.resource, ownership, [object, old])),
      ),
      ...plan.mapped.map((mapped) =>
        watch(informerOf(mapped.resource), (object, old) => mappedKeys(mapped, this.#primary as Lister<KubeObject>, [object, old])),
      ),
    ];
    if (plan.concurrency !== undefined) this.concurrentReconciles = plan.concurrency;
  }

  async start(): Promise<void> {
    this.#installer?.start();
  }
  async stop(): Promise<void> {
    await this.#installer?.stop();
  }

  async reconcile(key: ObjectKey, context: ReconcileContext): Promise<ReconcileResult | void> {
    const { resource, finalizer, reconcile } = this.#plan;
    let object = this.#primary.get(key);
    if (object === undefined) return;
    if (object.metadata?.deletionTimestamp !== undefined) return this.#finalize(object, context);
    if (finalizer !== undefined && !hasFinalizer(object, finalizer.name)) {
      object = await addFinalizer(context.client, resource, { object, name: finalizer.name });
      if (object === undefined) return;
    }
    return reconcile(object, new KitReconciliation<T, C>(this.#dependencies, context, { resource, object }));
  }

  async #finalize(object: T, context: ReconcileContext): Promise<ReconcileResult | void> {
    const { resource, finalizer } = this.#plan;
    if (finalizer === undefined || !hasFinalizer(object, finalizer.name)) return;
    const result = await finalizer.finalize(object, new KitReconciliation<T, C>(this.#dependencies, context, { resource, object }));
    if (result?.requeueAfterMs !== undefined) return result;
    await removeFinalizer(context.client, resource, { object, name: finalizer.name });
  }
}

const keyOf = (namespace: string | undefined, name: string): ObjectKey =>
  namespace === undefined || namespace === '' ? name : `${namespace}/${name}`;

/** Returns the keys of the owners of an object, of the given kind: the present ones and those before the change. */
function ownerKeys(
  { group, kind, namespaced }: Resource,
  { matchEveryOwner }: Ownership,
  versions: readonly (KubeObject | undefined)[],
): Iterable<ObjectKey> {
  const keys = new Set<ObjectKey>();
  for (const object of versions) {
    if (object === undefined) continue;
    const controller = controllerOf(object);
    const owners = matchEveryOwner ? (object.metadata?.ownerReferences ?? []) : controller === undefined ? [] : [controller];
    for (const owner of owners)
      if (owner.kind === kind && groupOf(owner) === group) keys.add(keyOf(namespaced ? object.metadata?.namespace : undefined, owner.name));
  }
  return keys;
}

/** Returns the keys of the present object and of the one before the change (EnqueueRequestsFromMapFunc of controller-runtime). */
function mappedKeys(
  mapped: MappedWatch,
  reconciled: Lister<KubeObject>,
  versions: readonly (KubeObject | undefined)[],
): Iterable<ObjectKey> {
  return new Set(versions.flatMap((object) => (object === undefined ? [] : [...mapped.keys(object, reconciled)])));
}

const groupOf = ({ apiVersion }: OwnerReference): string => (apiVersion.includes('/') ? apiVersion.slice(0, apiVersion.indexOf('/')) : '');
