import type { KubeObject } from '@oarlock/api/object';
import { conflict, forbidden, isStatus, notFound } from '@oarlock/api/status';
import { formatTime, parseTime } from '@oarlock/api/values/time';
import type { RequestContext } from '../request/request-context.ts';
import type { RegistryDependencies } from '../../registry/registry-dependencies.ts';
import type { WriteDecision } from '../../registry/object-store.ts';
import { newStrategyContext, toServedVersion } from './write-operation.ts';
import { toServedItems } from '../../registry/reader.ts';
import { deleteOptions, type DeleteOptions } from '../request/request-options.ts';
import type { EncodedObject, PipelineResponse } from '../request/response.ts';
import { keyOf, toServed, type ServedKind } from '../../registry/served-kind.ts';
import { unsafeDelete } from './unsafe-delete.ts';
import { markDeleting } from '../../registry/prepare.ts';
import { withMetadata, type Allocation, type Strategy } from '../../registry/strategy.ts';
import { DerivedObject, type Item } from '../../watch-cache/item.ts';
import type { RequestScope } from '../../registry/request-scope.ts';

const orphanFinalizer = 'orphan';
const foregroundFinalizer = 'foregroundDeletion';
/** The number of objects of a collection that are deleted concurrently. */
const deleteCollectionWorkers = 16;

/** A request to delete one object. */
export interface DeleteOperation extends RequestScope {
  readonly namespace: string;
  readonly name: string;
  readonly options: DeleteOptions;
}

export interface DeleteResult {
  /** The last state of a deleted object, or the object whose metadata the request changed. */
  readonly item: EncodedObject;
  readonly deleted: boolean;
}

/** Handles DELETE of an object. */
export async function deleteObject(registry: RegistryDependencies, kind: ServedKind, context: RequestContext): Promise<PipelineResponse> {
  const { namespace, name } = context.request;
  const options = deleteOptions(context.request);
  context.dryRun = options.dryRun;
  const denial = kind.strategy.deletionDenial?.(name);
  if (denial !== undefined) throw forbidden(kind.resource, name, denial);
  if (options.ignoreStoreReadError) {
    await unsafeDelete(registry, kind, context);
    return { kind: 'object', code: 200, item: new DerivedObject(unsafeDeletedStatus, 0), warnings: context.warnings };
  }
  warnAboutDefaultPolicy(kind, context, options);
  const { item, deleted } = await deleteNamed({ registry, kind, context, namespace, name, options });
  const code = !deleted && options.orphanDependents === false ? 202 : 200;
  return {
    kind: 'object',
    code,
    item: deleted && kind.strategy.returnsDeletedObject !== true ? deletedStatus(kind, item) : item,
    warnings: context.warnings,
  };
}

/** Adds the warning of kinds whose dependents are kept when the request has no propagation policy. */
function warnAboutDefaultPolicy(
  { strategy }: ServedKind,
  context: RequestContext,
  { propagationPolicy, orphanDependents }: DeleteOptions,
): void {
  if (propagationPolicy === undefined && orphanDependents === undefined) context.warn(strategy.deleteWarning ?? '');
}

/** Handles DELETE of a collection: deletes the objects that a list with the same query returns. */
export async function deleteCollection(
  registry: RegistryDependencies,
  kind: ServedKind,
  context: RequestContext,
): Promise<PipelineResponse> {
  const options = deleteOptions(context.request);
  context.dryRun = options.dryRun;
  warnAboutDefaultPolicy(kind, context, options);
  const { items, revision } = await registry.reader.select(kind, context.request);
  const rest = items[Symbol.iterator]();
  const worker = async () => {
    for (const { object } of rest) {
      context.request.signal?.throwIfAborted();
      const { namespace = '', name = '' } = object.metadata ?? {};
      try {
        await deleteNamed({ registry, kind, context, namespace, name, options });
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

/**
 * Deletes an object. If finalizers, a grace period or foreground deletion of dependents prevent that, only sets deletionTimestamp.
 *
 * A deletion runs these steps in order. If a concurrent write interferes, all steps are repeated on the newest object:
 *
 * checkPreconditions -> admit -> prepareDeletion -> releaseAllocations -> commit -> encode
 *
 * The object has the same forms as in a WriteOperation: `stored` (marked as being deleted, in the storage version) and `returned` (in the served
 * version).
 */
export async function deleteNamed(operation: DeleteOperation): Promise<DeleteResult> {
  const { kind, context } = operation;
  const { objects } = operation.registry;
  const key = keyOf(kind, operation.namespace, operation.name);
  if (context.dryRun) {
    const current = await objects.read(kind.storedKind, key);
    const { action, stored } = await decideDeletion(operation, current);
    return { item: returnedItem(kind, stored, current?.revision ?? 0), deleted: action === 'delete' };
  }
  let last: PreparedDeletion | undefined;
  const result = await objects.guaranteedUpdate(kind.storedKind, key, context, async (current) => {
    last = await decideDeletion(operation, current);
    return toWriteDecision(last);
  });
  if (result === undefined) throw notFound(kind.resource, operation.name);
  const { item, deleted } = result;
  if (deleted) return { item: returnedItem(kind, last?.stored ?? item.object, item.revision), deleted };
  return { item: await toServed(kind, item, context.request), deleted };
}

/** The effect of a DELETE request on the current object. */
interface PreparedDeletion {
  readonly action: 'put' | 'delete' | 'keep';
  readonly stored: KubeObject;
  /** The writes that are committed together with the deletion. */
  readonly allocation?: Allocation | undefined;
}

/** Runs the steps of a deletion before the commit, and returns the effect. */
async function decideDeletion(operation: DeleteOperation, current: Item | undefined): Promise<PreparedDeletion> {
  const { kind, context, options } = operation;
  if (current === undefined) throw notFound(kind.resource, operation.name);
  checkPreconditions(kind, current, options);
  await admit(operation, current);
  const prepared = prepareDeletion(kind.strategy, current.object, { options, now: context.now });
  if (prepared.action !== 'delete') return prepared;
  const release = releaseAllocations(operation, current);
  return { ...prepared, allocation: (release instanceof Promise ? await release : release)?.reservation };
}

function toWriteDecision({ action, stored, allocation }: PreparedDeletion): WriteDecision {
  switch (action) {
    case 'keep':
      return { action };
    case 'put':
      return { action, object: stored };
    case 'delete':
      return { action, reservation: allocation };
  }
}

/** Runs validating admission for the deletion. @throws StatusError of the first plugin that denies the request */
async function admit({ registry, kind, context, options, name }: DeleteOperation, current: Item): Promise<void> {
  await registry.admission.validate(context, {
    operation: 'DELETE',
    resource: kind.resource,
    object: undefined,
    old: (await toServed(kind, current, context.request)).object,
    options: { ...options, kind: 'DeleteOptions', apiVersion: 'meta.k8s.io/v1' },
    name,
  });
}

/** Returns the writes that release the allocations of the object, such as the cluster IPs of a Service; undefined if there are none. */
function releaseAllocations(
  { kind, context }: DeleteOperation,
  { object }: Item,
): ReturnType<NonNullable<Strategy['allocate']>> | undefined {
  return kind.strategy.allocate?.(undefined, object, newStrategyContext(context));
}

function returnedItem(kind: ServedKind, stored: KubeObject, revision: number): DerivedObject {
  return new DerivedObject(toServedVersion(kind, withMetadata(stored, { resourceVersion: String(revision) })), revision);
}

/** @throws StatusError Conflict if the object does not meet the preconditions of the options */
export function checkPreconditions(
  { gvk }: Pick<ServedKind, 'gvk'>,
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
      named,
      name,
      `the ResourceVersion in the precondition (${resourceVersion}) does not match the ResourceVersion in record (${revision}). The object might have been modified`,
    );
}

interface DeletionInput {
  readonly options: DeleteOptions;
  /** The time in milliseconds since the Unix epoch. */
  readonly now: number;
}

/** Returns the effect of a DELETE request on the current object (rest.BeforeDelete and the finalizer rules of registry.Store upstream). */
function prepareDeletion(strategy: Strategy, current: KubeObject, { options, now }: DeletionInput): PreparedDeletion {
  const { deletionTimestamp } = current.metadata ?? {};
  const graceful = beginGracefulDeletion(strategy, current, { options, now });
  if (graceful === 'unchanged') return { action: 'keep', stored: current };
  const object = withGarbageCollectionFinalizers(strategy, graceful?.object ?? current, options);
  if (strategy.isHeld?.(object) === true) {
    if (deletionTimestamp !== undefined) return { action: 'keep', stored: current };
    return { action: 'put', stored: strategy.markTerminating?.(markDeleting(object, formatTime(now), undefined)) ?? object };
  }
  if ((object.metadata?.finalizers ?? []).length > 0) {
    if (graceful !== undefined) return { action: 'put', stored: object };
    const isPast = deletionTimestamp !== undefined && (parseTime(deletionTimestamp) ?? 0) <= now;
    return { action: 'put', stored: markDeleting(object, isPast ? deletionTimestamp : formatTime(now), 0) };
  }
  return { action: graceful !== undefined && graceful.periodSeconds > 0 ? 'put' : 'delete', stored: object };
}

/**
 * Returns the object with its grace period set. Returns undefined if the kind has no graceful deletion or the period is over, and `unchanged` if the
 * request does not shorten a pending grace period.
 */
function beginGracefulDeletion(
  strategy: Strategy,
  current: KubeObject,
  { options, now }: DeletionInput,
): { readonly object: KubeObject; readonly periodSeconds: number } | 'unchanged' | undefined {
  if (strategy.gracePeriod === undefined) return undefined;
  const { deletionTimestamp, deletionGracePeriodSeconds: pending = 0 } = current.metadata ?? {};
  if (deletionTimestamp === undefined) {
    const periodSeconds = strategy.gracePeriod(current, options.gracePeriodSeconds);
    return { object: markDeleting(current, formatTime(now + periodSeconds * 1000), periodSeconds), periodSeconds };
  }
  if (pending <= 0) return undefined;
  const requested = options.gracePeriodSeconds;
  if (requested === undefined || requested >= pending) return 'unchanged';
  const beganAt = (parseTime(deletionTimestamp) ?? now) - pending * 1000;
  return { object: markDeleting(current, formatTime(beganAt + requested * 1000), requested), periodSeconds: requested };
}

/** Returns the object with the finalizer for orphaning or foreground deletion, which the garbage collector handles. */
function withGarbageCollectionFinalizers(strategy: Strategy, object: KubeObject, options: DeleteOptions): KubeObject {
  const before = object.metadata?.finalizers ?? [];
  const { defaultGarbageCollectionPolicy: defaultPolicy = 'background' } = strategy;
  if (defaultPolicy === 'unsupported') return object;
  const requested =
    requestedFinalizer(options) ??
    before.find((name) => name === orphanFinalizer || name === foregroundFinalizer) ??
    (defaultPolicy === 'orphan' ? orphanFinalizer : '');
  const kept = before.filter((name) => name !== orphanFinalizer && name !== foregroundFinalizer);
  const finalizers = requested === '' ? kept : [...kept, requested];
  if (finalizers.length === before.length && finalizers.every((name) => before.includes(name))) return object;
  return withMetadata(object, { finalizers: finalizers.length === 0 ? undefined : finalizers });
}

/** Returns the finalizer for the propagation policy of the delete options: '' for background deletion, undefined if the options have no policy. */
function requestedFinalizer({ orphanDependents, propagationPolicy }: DeleteOptions): string | undefined {
  if (orphanDependents !== undefined) return orphanDependents ? orphanFinalizer : '';
  switch (propagationPolicy) {
    case 'Orphan':
      return orphanFinalizer;
    case 'Foreground':
      return foregroundFinalizer;
    case 'Background':
      return '';
    default:
      return undefined;
  }
}

/** The response after the deletion of an object that cannot be read, whose uid is therefore not known. */
const unsafeDeletedStatus = { kind: 'Status', apiVersion: 'v1', metadata: {}, ...{ status: 'Success' } } as KubeObject;

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
