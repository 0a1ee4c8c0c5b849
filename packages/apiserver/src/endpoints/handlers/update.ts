import { invalid } from '@oarlock/api/field/field-error';
import { invalidStatus } from '@oarlock/api/field/invalid-status';
import { isObject } from '@oarlock/api/json/json';
import type { KubeObject } from '@oarlock/api/object';
import { badRequest, conflict, notFound, objectModified } from '@oarlock/api/status';
import { attributesOf, authorizeRequest } from '../../authorization/authorization.ts';
import { decodeBody } from '../request/body.ts';
import type { RequestContext } from '../request/request-context.ts';
import type { RegistryDependencies } from '../../registry/registry-dependencies.ts';
import type { WriteDecision } from '../../registry/object-store.ts';
import { trackLargeUpdate, trackUpdate } from './managed-fields/tracking.ts';
import { withRequestNamespace } from './create.ts';
import { withoutDuplicateOwners } from './owner-references.ts';
import { checkWriteOptions, writeOptions } from '../request/request-options.ts';
import type { EncodedObject, PipelineResponse } from '../request/response.ts';
import { withDefaults, keyOf, toServed, type ServedKind } from '../../registry/served-kind.ts';
import { withMetadata, type SubresourceStrategy } from '../../registry/strategy.ts';
import { DerivedObject, type Item } from '../../watch-cache/item.ts';
import { subresourceStrategy } from '../../registry/prepare.ts';
import type { RequestScope } from '../../registry/request-scope.ts';
import {
  admit,
  forbidWhileTerminating,
  mutate,
  newCreateOperation,
  prepareExisting,
  prepareNew,
  type AdmissionView,
  dryRunResult,
  toServedVersion,
  validateExisting,
  validateNew,
  warnAboutExisting,
  warnAboutNew,
  type WriteOperation,
} from './write-operation.ts';

/** A request that updates an object. `newObject` computes the new object from a PUT body, a patch, an apply configuration or a Scale. */
export interface UpdateRequest extends RequestScope {
  /** The strategy of the subresource; undefined for the object itself. */
  readonly subresource?: SubresourceStrategy | undefined;
  readonly optionsKind: 'UpdateOptions' | 'PatchOptions';
  /** Returns the new object in the served version. `old` is undefined if the object does not exist. */
  newObject(old: KubeObject | undefined): KubeObject | Promise<KubeObject>;
  /** True if the request may create the object. */
  readonly allowCreate: boolean;
  /** True if `newObject` updates managedFields itself. */
  readonly tracksFields?: boolean;
  /** What admission decides on in place of the object, for a subresource of another kind. */
  readonly admissionView?: AdmissionView | undefined;
}

/** Handles PUT of an object or of a subresource of the same kind. */
export async function update(registry: RegistryDependencies, kind: ServedKind, context: RequestContext): Promise<PipelineResponse> {
  const { request } = context;
  checkWriteOptions(request.query, 'UpdateOptions');
  const { namespace, name } = request;
  const { name: ownName = '', namespace: ownNamespace = '' } =
    (isObject(request.body) ? (request.body as KubeObject).metadata : undefined) ?? {};
  const body = decodeBody(request.body, kind, cachedObject(kind, namespace, name));
  if (ownName === '') throw badRequest('name must be provided');
  if (ownName !== name) throw badRequest(`the name of the object (${ownName}) does not match the name on the URL (${name})`);
  if (kind.namespaced && ownNamespace !== '' && ownNamespace !== namespace)
    throw badRequest('the namespace of the provided object does not match the namespace sent on the request');
  const decoded = withoutDuplicateOwners(withDefaults(kind, withRequestNamespace(kind, body, request), context.now), context, false);
  const subresource = subresourceStrategy(kind, request.subresource);
  return writeUpdate({
    registry,
    kind,
    context,
    subresource,
    optionsKind: 'UpdateOptions',
    allowCreate: kind.strategy.allowCreateOnUpdate === true && subresource === undefined,
    newObject: () => decoded,
  });
}

/**
 * Returns the cached object; undefined if the cache does not contain it in the served version. A body from a loopback client may share
 * parts with the cached object; shared parts are not decoded again.
 */
function cachedObject(kind: ServedKind, namespace: string, name: string): KubeObject | undefined {
  return kind.toServedItem === undefined && kind.customResource === undefined
    ? kind.cache.get(keyOf(kind, namespace, name))?.object
    : undefined;
}

/** Runs an update and returns the response with the updated object. */
export async function writeUpdate(update: UpdateRequest): Promise<PipelineResponse> {
  const { item, created } = await updateObject(update);
  return { kind: 'object', code: created ? 201 : 200, item, warnings: update.context.warnings };
}

/** Runs an update. If a concurrent write interferes, all steps are repeated on the newest object. */
export async function updateObject(update: UpdateRequest): Promise<{ readonly item: EncodedObject; readonly created: boolean }> {
  const { kind, context } = update;
  const { request } = context;
  const { objects } = update.registry;
  const key = keyOf(kind, request.namespace, request.name);
  let created = false;
  let finalized = false;
  let stored: KubeObject | undefined;
  const decide = async (current: Item | undefined): Promise<WriteDecision> => {
    created = current === undefined;
    const decision = current === undefined ? await createOnUpdate(update) : await updateExisting(update, current);
    finalized = decision.action === 'delete';
    stored = decision.action === 'put' ? decision.object : decision.action === 'delete' ? decision.last : undefined;
    return decision;
  };
  if (context.dryRun) {
    const current = await objects.read(kind.storedKind, key);
    await decide(current);
    const revision = current?.revision ?? 0;
    if (stored === undefined && current !== undefined) return { item: await toServed(kind, current, request), created };
    if (finalized) {
      const returned =
        kind.customResource === undefined ? toServedVersion(kind, stored ?? {}) : await kind.customResource.convert(stored ?? {});
      return { item: new DerivedObject(returned, revision), created };
    }
    return { item: await dryRunResult(update, stored ?? {}, { key, revision }), created };
  }
  const result = await objects.guaranteedUpdate(kind.storedKind, key, context, decide);
  if (result === undefined) throw notFound(kind.resource, request.name);
  const { item, deleted } = result;
  // the update removed the last finalizer: the response is the object as the client wrote it
  if (deleted && stored !== undefined) {
    const last = withMetadata(stored, { resourceVersion: String(item.revision) });
    return { item: new DerivedObject(toServedVersion(kind, last), item.revision), created: false };
  }
  return { item: await toServed(kind, item, request), created };
}

/** Returns the new object of an update. A large body is decoded in a turn of its own. */
function newObject(update: UpdateRequest, old: KubeObject | undefined): KubeObject | Promise<KubeObject> {
  return update.context.isLarge ? largeObject(update, old) : update.newObject(old);
}

async function largeObject(update: UpdateRequest, old: KubeObject | undefined): Promise<KubeObject> {
  const { context } = update;
  void context.request.body; // decodes it
  await context.yieldEventLoop();
  const object = await update.newObject(old);
  await context.yieldEventLoop();
  return object;
}

type UpdateDecision =
  | Extract<WriteDecision, { readonly action: 'put' }>
  | (Extract<WriteDecision, { readonly action: 'delete' }> & { readonly last: KubeObject });

/** Runs the steps of an update of an existing object before the commit. */
async function updateExisting(update: UpdateRequest, current: Item): Promise<UpdateDecision> {
  const { registry, kind, context, subresource } = update;
  const { request } = context;
  context.objectBytes = current.value.length;
  if (context.isLarge) await context.yieldEventLoop();
  const served = toServed(kind, current, request);
  const old = (served instanceof Promise ? await served : served).object;
  const { admissionView } = update;
  const options = writeOptions(request.query, update.optionsKind);
  const operation: WriteOperation = {
    registry,
    kind,
    context,
    attributes: { operation: 'UPDATE', resource: kind.resource, old: admissionView?.of(old) ?? old, options },
    subresource,
    admissionView,
  };
  // the strategies of custom resources see the version of the request
  const oldStored = kind.customResource === undefined ? current.object : old;
  const decoding = newObject(update, old);
  const decoded = decoding instanceof Promise ? await decoding : decoding;
  const submitted =
    update.tracksFields === true
      ? decoded
      : context.isLarge
        ? await trackLargeUpdate(update, old, decoded)
        : trackUpdate(update, old, decoded);
  if (context.isLarge) await context.yieldEventLoop();
  const mutation = mutate(operation, submitted);
  const admitted = checkPreconditions(update, mutation instanceof Promise ? await mutation : mutation, current);
  if (context.isLarge) await context.yieldEventLoop();
  const preparation = prepareExisting(operation, admitted, oldStored);
  const prepared = preparation instanceof Promise ? await preparation : preparation;
  if (context.isLarge) await context.yieldEventLoop();
  validateExisting(operation, prepared, { stored: oldStored, returned: old });
  if (context.isLarge) await context.yieldEventLoop();
  warnAboutExisting(operation, prepared, { stored: oldStored, returned: old });
  if (context.isLarge) await context.yieldEventLoop();
  const admission = admit(operation, prepared);
  if (admission !== undefined) await admission;
  if (context.isLarge) await context.yieldEventLoop();
  const { stored, strategyContext, allocation } = prepared;
  if (isFinalizedBy(kind, stored, oldStored)) {
    const released = kind.strategy.allocate?.(undefined, current.object, strategyContext);
    return { action: 'delete', last: stored, reservation: (released instanceof Promise ? await released : released)?.reservation };
  }
  const object = kind.customResource === undefined ? stored : await kind.customResource.toStored(stored);
  return { action: 'put', object, ttlSeconds: kind.strategy.ttlSeconds, reservation: allocation };
}

/** Returns true if the object is being deleted and this update removes the last finalizer that prevented its removal. */
function isFinalizedBy({ strategy }: ServedKind, stored: KubeObject, old: KubeObject): boolean {
  const { deletionTimestamp, deletionGracePeriodSeconds } = old.metadata ?? {};
  return (
    (stored.metadata?.finalizers ?? []).length === 0 &&
    deletionTimestamp !== undefined &&
    (deletionGracePeriodSeconds ?? 0) === 0 &&
    strategy.isHeld?.(stored) !== true
  );
}

/**
 * Checks the preconditions uid and resourceVersion, and returns the new object with the resourceVersion of the current object.
 * @throws StatusError Conflict if a precondition fails; Invalid if the resourceVersion is required and absent
 */
function checkPreconditions(
  { kind: { strategy, resource }, context, optionsKind }: UpdateRequest,
  admitted: KubeObject,
  { object, revision }: Item,
): KubeObject {
  const { name } = context.request;
  const { uid = '', resourceVersion = '' } = admitted.metadata ?? {};
  const existing = object.metadata?.uid ?? '';
  // in a patched object the uid is a field like any other: validation rejects its change
  const expected = optionsKind === 'UpdateOptions';
  if (expected && uid !== '' && uid !== existing) {
    throw conflict(
      resource,
      name,
      `StorageError: invalid object, Code: 4, Key: , ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: ${uid}, UID in object meta: ${existing}`,
    );
  }
  if (resourceVersion === '' || resourceVersion === '0') {
    if (strategy.allowUnconditionalUpdate !== false) return withMetadata(admitted, { resourceVersion: String(revision) });
    throw invalidStatus({ group: resource.group, kind: resource.resource, name }, [
      invalid('metadata.resourceVersion', 0, 'must be specified for an update'),
    ]);
  }
  if (resourceVersion !== String(revision)) throw conflict(resource, name, objectModified);
  return admitted;
}

/** Creates the object of an update, for kinds with allowCreateOnUpdate and for server-side apply. */
async function createOnUpdate(update: UpdateRequest): Promise<UpdateDecision> {
  const { registry, kind, context } = update;
  const { request } = context;
  if (!update.allowCreate) throw notFound(kind.resource, request.name);
  forbidWhileTerminating(kind, request.name);
  // update permission does not imply create permission
  await authorizeRequest(registry.authz, [], { ...attributesOf(request), verb: 'create' }, context);
  if (context.isLarge) await context.yieldEventLoop();
  const decoded = await newObject(update, undefined);
  const submitted = update.tracksFields === true ? decoded : await trackLargeUpdate(update, undefined, decoded);
  const { uid = '' } = submitted.metadata ?? {};
  if (uid !== '')
    throw conflict(
      kind.resource,
      request.name,
      `StorageError: invalid object, Code: 4, Key: , ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: ${uid}, UID in object meta: `,
    );
  const operation = newCreateOperation(registry, kind, context);
  if (context.isLarge) await context.yieldEventLoop();
  const admitted = await mutate(operation, submitted);
  if (context.isLarge) await context.yieldEventLoop();
  const prepared = await prepareNew(operation, admitted);
  if (context.isLarge) await context.yieldEventLoop();
  validateNew(operation, request.name, prepared);
  if (context.isLarge) await context.yieldEventLoop();
  warnAboutNew(operation, prepared);
  if (context.isLarge) await context.yieldEventLoop();
  await admit(operation, prepared);
  const { stored, allocation } = prepared;
  const object = kind.customResource === undefined ? stored : await kind.customResource.toStored(stored);
  return { action: 'put', object, ttlSeconds: kind.strategy.ttlSeconds, reservation: allocation };
}
