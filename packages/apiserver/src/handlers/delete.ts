import type { KubeObject } from '@oarlock/api/object';
import { conflict, isStatus, notFound } from '@oarlock/api/status';
import { formatTime, parseTime } from '@oarlock/api/values/time';
import type { RequestContext } from '../request/request-context.ts';
import type { RegistryDependencies } from '../registry/registry-dependencies.ts';
import type { WriteDecision } from '../registry/object-store.ts';
import { newStrategyContext } from './write-operation.ts';
import { toServedItems } from '../registry/reader.ts';
import { deleteOptions, type DeleteOptions } from '../request/request-options.ts';
import type { EncodedObject, PipelineResponse } from '../request/response.ts';
import { keyOf, toServed, type ServedKind } from '../registry/served-kind.ts';
import { markDeleting } from '../registry/prepare.ts';
import { withMetadata, type Strategy } from '../registry/strategy.ts';
import { DerivedObject, type Item } from '../watch-cache/item.ts';

const orphanFinalizer = 'orphan';
const foregroundFinalizer = 'foregroundDeletion';
/** How many objects of a collection are deleted concurrently. */
const deleteCollectionWorkers = 16;

export interface DeleteResult {
  /** The object after the deletion or after the change of its metadata. */
  readonly item: EncodedObject;
  readonly deleted: boolean;
}

/** Handles DELETE of an object. */
export async function deleteObject(registry: RegistryDependencies, kind: ServedKind, context: RequestContext): Promise<PipelineResponse> {
  const options = deleteOptions(context.request);
  context.dryRun = options.dryRun;
  const { item, deleted } = await deleteNamed(registry, kind, context, context.request.name, options);
  const code = !deleted && options.orphanDependents === false ? 202 : 200;
  return {
    kind: 'object',
    code,
    item: deleted && kind.strategy.returnsDeletedObject !== true ? deletedStatus(kind, item) : item,
    warnings: context.warnings,
  };
}

/** Handles DELETE of a collection: deletes the objects that a list with the same query returns. */
export async function deleteCollection(
  registry: RegistryDependencies,
  kind: ServedKind,
  context: RequestContext,
): Promise<PipelineResponse> {
  const options = deleteOptions(context.request);
  context.dryRun = options.dryRun;
  const { items, revision } = await registry.reader.select(kind, context.request);
  const rest = items[Symbol.iterator]();
  const worker = async () => {
    for (const item of rest) {
      context.request.signal?.throwIfAborted();
      try {
        await deleteNamed(registry, kind, context, item.object.metadata?.name ?? '', options, item.object.metadata?.namespace ?? '');
      } catch (error) {
        // a concurrent request deleted the object
        if (!isStatus(error, 'NotFound')) throw error;
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(deleteCollectionWorkers, items.length) }, worker));
  return {
    kind: 'list',
    resource: kind.resource,
    items: await toServedItems(kind, items, context.request.signal),
    metadata: { resourceVersion: String(revision) },
    warnings: context.warnings,
  };
}

/** Deletes an object, or marks it if finalizers, a grace period or foreground deletion of dependents hold it. */
export async function deleteNamed(
  registry: RegistryDependencies,
  kind: ServedKind,
  context: RequestContext,
  name: string,
  options: DeleteOptions,
  namespace = context.request.namespace,
): Promise<DeleteResult> {
  const { admission, objects } = registry;
  const key = keyOf(kind, namespace, name);
  let last: KubeObject | undefined;
  const decide = async (current: Item | undefined): Promise<WriteDecision> => {
    if (current === undefined) throw notFound(kind.resource, name);
    checkPreconditions(kind, current, options);
    const old = (await toServed(kind, current, context.request)).object;
    await admission.validate(context, {
      operation: 'DELETE',
      resource: kind.resource,
      object: undefined,
      old,
      options: { ...options, kind: 'DeleteOptions', apiVersion: 'meta.k8s.io/v1' },
      name,
    });
    const step = planDeletion(kind.strategy, current.object, options, context.now);
    last = step.object;
    if (step.action === 'keep') return { action: 'keep' };
    if (step.action === 'put') return { action: 'put', object: step.object };
    const released = kind.strategy.allocate?.(undefined, current.object, newStrategyContext(context));
    return { action: 'delete', reservation: (released instanceof Promise ? await released : released)?.reservation };
  };
  if (context.dryRun) {
    const current = await objects.read(kind.storedKind, key);
    const { action } = await decide(current);
    return { item: returnedItem(kind, last ?? {}, current?.revision ?? 0), deleted: action === 'delete' };
  }
  const outcome = await objects.guaranteedUpdate(kind.storedKind, key, context, decide);
  if (outcome === undefined) throw notFound(kind.resource, name);
  const { item, deleted } = outcome;
  if (deleted) return { item: returnedItem(kind, last ?? item.object, item.revision), deleted };
  return { item: await toServed(kind, item, context.request), deleted };
}

function returnedItem({ conversion }: ServedKind, object: KubeObject, revision: number): DerivedObject {
  const at = withMetadata(object, { resourceVersion: String(revision) });
  return new DerivedObject(conversion?.fromStored(at) ?? at, revision);
}

function checkPreconditions(
  { resource, gvk }: ServedKind,
  { object, revision }: Item,
  { preconditions: { uid, resourceVersion } }: DeleteOptions,
): void {
  const { name = '', uid: own = '' } = object.metadata ?? {};
  const named = { group: gvk.group, resource: gvk.kind };
  if (uid !== undefined && uid !== own)
    throw conflict(
      named,
      name,
      `the UID in the precondition (${uid}) does not match the UID in record (${own}). The object might have been deleted and then recreated`,
    );
  if (resourceVersion !== undefined && resourceVersion !== String(revision))
    throw conflict(
      resource.group === '' ? named : { ...named },
      name,
      `the ResourceVersion in the precondition (${resourceVersion}) does not match the ResourceVersion in record (${revision}). The object might have been modified`,
    );
}

interface DeletionStep {
  readonly action: 'put' | 'delete' | 'keep';
  readonly object: KubeObject;
}

/** Returns the effect of a DELETE on the current object. */
export function planDeletion(strategy: Strategy, current: KubeObject, options: DeleteOptions, now: number): DeletionStep {
  const { deletionTimestamp, deletionGracePeriodSeconds: grace } = current.metadata ?? {};
  let object = current;
  let graceful = false;
  let period = 0;
  if (strategy.gracePeriod !== undefined) {
    if (deletionTimestamp === undefined) {
      period = strategy.gracePeriod(current, options.gracePeriodSeconds);
      object = markDeleting(current, formatTime(now + period * 1000), period);
      graceful = true;
    } else if ((grace ?? 0) > 0) {
      // a pending grace period may only be shortened
      const asked = options.gracePeriodSeconds;
      if (asked === undefined || asked >= (grace ?? 0)) return { action: 'keep', object: current };
      period = asked;
      const began = (parseTime(deletionTimestamp) ?? now) - (grace ?? 0) * 1000;
      object = markDeleting(current, formatTime(began + asked * 1000), asked);
      graceful = true;
    }
  }
  object = withGarbageCollectionFinalizers(strategy, object, options);
  if (strategy.isHeld?.(object) === true) {
    if (deletionTimestamp !== undefined) return { action: 'keep', object: current };
    return { action: 'put', object: strategy.markTerminating?.(markDeleting(object, formatTime(now), undefined)) ?? object };
  }
  if ((object.metadata?.finalizers ?? []).length > 0) {
    if (graceful) return { action: 'put', object };
    const at = deletionTimestamp !== undefined && (parseTime(deletionTimestamp) ?? 0) <= now ? deletionTimestamp : formatTime(now);
    return { action: 'put', object: markDeleting(object, at, 0) };
  }
  return graceful && period > 0 ? { action: 'put', object } : { action: 'delete', object };
}

/** Sets the finalizers for orphaning or foreground deletion, which the garbage collector acts on. */
function withGarbageCollectionFinalizers(
  { defaultGarbageCollectionPolicy: dependents = 'background' }: Strategy,
  object: KubeObject,
  { orphanDependents, propagationPolicy }: DeleteOptions,
): KubeObject {
  const before = object.metadata?.finalizers ?? [];
  if (dependents === 'unsupported') return object;
  const asked =
    orphanDependents !== undefined
      ? orphanDependents
        ? orphanFinalizer
        : undefined
      : propagationPolicy === 'Orphan'
        ? orphanFinalizer
        : propagationPolicy === 'Foreground'
          ? foregroundFinalizer
          : propagationPolicy === 'Background'
            ? undefined
            : (before.find((name) => name === orphanFinalizer || name === foregroundFinalizer) ??
              (dependents === 'orphan' ? orphanFinalizer : undefined));
  const kept = before.filter((name) => name !== orphanFinalizer && name !== foregroundFinalizer);
  const finalizers = asked === undefined ? kept : [...kept, asked];
  if (finalizers.length === before.length && finalizers.every((name) => before.includes(name))) return object;
  return withMetadata(object, { finalizers: finalizers.length === 0 ? undefined : finalizers });
}

function deletedStatus({ resource }: ServedKind, { object, revision }: EncodedObject): DerivedObject {
  const { name = '', uid = '' } = object.metadata ?? {};
  return new DerivedObject(
    {
      kind: 'Status',
      apiVersion: 'v1',
      metadata: {},
      ...{ status: 'Success', details: { name, ...(resource.group !== '' && { group: resource.group }), kind: resource.resource, uid } },
    } as KubeObject,
    revision,
  );
}
