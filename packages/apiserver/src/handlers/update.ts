import { invalid } from '@oarlock/api/field/field-error';
import { invalidStatus } from '@oarlock/api/field/invalid-status';
import { isObject } from '@oarlock/api/json/json';
import type { KubeObject } from '@oarlock/api/object';
import { badRequest, conflict, notFound, objectModified } from '@oarlock/api/status';
import { attributesOf, authorizeRequest } from '../authorization/authorization.ts';
import { decodeBody } from '../request/body.ts';
import type { RequestContext } from '../request/request-context.ts';
import type { RegistryDependencies } from '../registry/registry-dependencies.ts';
import type { WriteDecision } from '../registry/object-store.ts';
import { trackUpdate } from './managed-fields/tracking.ts';
import { withRequestNamespace } from './create.ts';
import { checkWriteOptions, writeOptions } from '../request/request-options.ts';
import type { EncodedObject, PipelineResponse } from '../request/response.ts';
import { withDefaults, keyOf, toServed, type ServedKind } from '../registry/served-kind.ts';
import { withMetadata, type SubresourceStrategy } from '../registry/strategy.ts';
import { DerivedObject, type Item } from '../watch-cache/item.ts';
import { admit, mutate, prepareExisting, prepareNew, validateExisting, validateNew, type WriteOperation } from './write-operation.ts';

/** How an update computes its object: from a PUT body, a patch, an applied configuration or a Scale. */
export interface UpdateSource {
  /** The strategy of the subresource; undefined for the object itself. */
  readonly subresource?: SubresourceStrategy | undefined;
  readonly optionsKind: 'UpdateOptions' | 'PatchOptions';
  /** Returns the new object in the served version. `old` is undefined if the object does not exist. */
  newObject(old: KubeObject | undefined): KubeObject;
  /** True if the update may create the object. */
  readonly allowCreate: boolean;
  /** True if `newObject` sets the field managers itself. */
  readonly tracksFields?: boolean;
}

/** Handles PUT of an object, or of a subresource of the object's kind. */
export async function update(
  registry: RegistryDependencies,
  kind: ServedKind,
  context: RequestContext,
  rules?: SubresourceStrategy,
): Promise<PipelineResponse> {
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
  const decoded = withDefaults(kind, withRequestNamespace(kind, body, namespace, name));
  return writeUpdate(registry, kind, context, {
    subresource: rules,
    optionsKind: 'UpdateOptions',
    allowCreate: kind.strategy.allowCreateOnUpdate === true && rules === undefined,
    newObject: () => decoded,
  });
}

/** Returns the cached object: a loopback client may have sent parts of it, which are not decoded again. */
function cachedObject(kind: ServedKind, namespace: string, name: string): KubeObject | undefined {
  return kind.toServedItem === undefined && kind.customResource === undefined
    ? kind.cache.get(keyOf(kind, namespace, name))?.object
    : undefined;
}

/** Runs an update and returns the response. */
export async function writeUpdate(
  registry: RegistryDependencies,
  kind: ServedKind,
  context: RequestContext,
  source: UpdateSource,
): Promise<PipelineResponse> {
  const { item, created } = await updateObject(registry, kind, context, source);
  return { kind: 'object', code: created ? 201 : 200, item, warnings: context.warnings };
}

/** Runs an update; repeats all of its steps on the newest object until no concurrent write interferes. */
export async function updateObject(
  registry: RegistryDependencies,
  kind: ServedKind,
  context: RequestContext,
  source: UpdateSource,
): Promise<{ readonly item: EncodedObject; readonly created: boolean }> {
  const { request } = context;
  const { objects } = registry;
  const key = keyOf(kind, request.namespace, request.name);
  let created = false;
  let stored: KubeObject | undefined;
  const decide = async (current: Item | undefined): Promise<WriteDecision> => {
    created = current === undefined;
    const decision =
      current === undefined
        ? await createOnUpdate(registry, kind, context, source)
        : await updateExisting(registry, kind, context, source, current);
    stored = decision.action === 'put' ? decision.object : decision.action === 'delete' ? decision.last : undefined;
    return decision;
  };
  if (context.dryRun) {
    const current = await objects.read(kind.storedKind, key);
    await decide(current);
    const object = stored ?? current?.object ?? {};
    if (stored === undefined && current !== undefined) return { item: await toServed(kind, current, request), created };
    return { item: new DerivedObject(kind.conversion?.fromStored(object) ?? object, current?.revision ?? 0), created };
  }
  const result = await objects.guaranteedUpdate(kind.storedKind, key, context, decide);
  if (result === undefined) throw notFound(kind.resource, request.name);
  const { item, deleted } = result;
  // the update removed the last finalizer: the response is the object as the client wrote it
  if (deleted && stored !== undefined) {
    const last = withMetadata(stored, { resourceVersion: String(item.revision) });
    return { item: new DerivedObject(kind.conversion?.fromStored(last) ?? last, item.revision), created: false };
  }
  return { item: await toServed(kind, item, request), created };
}

type UpdateDecision =
  | Extract<WriteDecision, { readonly action: 'put' }>
  | (Extract<WriteDecision, { readonly action: 'delete' }> & { readonly last: KubeObject });

/** Runs the steps of an update of an existing object. */
async function updateExisting(
  registry: RegistryDependencies,
  kind: ServedKind,
  context: RequestContext,
  source: UpdateSource,
  current: Item,
): Promise<UpdateDecision> {
  const { request } = context;
  const { subresource } = source;
  const served = toServed(kind, current, request);
  const old = (served instanceof Promise ? await served : served).object;
  const operation: WriteOperation = {
    registry,
    kind,
    context,
    attributes: { operation: 'UPDATE', resource: kind.resource, old, options: writeOptions(request.query, source.optionsKind) },
  };
  // the strategies of custom resources see the version of the request
  const oldStored = kind.customResource === undefined ? current.object : old;
  const decoded = source.newObject(old);
  if (context.isLarge) await context.yieldEventLoop();
  const submitted = source.tracksFields === true ? decoded : trackUpdate(registry, kind, context, old, decoded);
  if (context.isLarge) await context.yieldEventLoop();
  const mutation = mutate(operation, submitted);
  const admitted = checkPreconditions(kind, mutation instanceof Promise ? await mutation : mutation, current, request.name, source);
  const preparation = prepareExisting(operation, admitted, oldStored, subresource);
  const prepared = preparation instanceof Promise ? await preparation : preparation;
  if (context.isLarge) await context.yieldEventLoop();
  validateExisting(operation, prepared, { stored: oldStored, returned: old }, subresource);
  if (context.isLarge) await context.yieldEventLoop();
  const admission = admit(operation, prepared);
  if (admission !== undefined) await admission;
  const { stored, strategyContext, allocation } = prepared;
  if (isFinalizedBy(kind, stored, oldStored)) {
    const released = kind.strategy.allocate?.(undefined, current.object, strategyContext);
    return { action: 'delete', last: stored, reservation: (released instanceof Promise ? await released : released)?.reservation };
  }
  const object = kind.customResource === undefined ? stored : await kind.customResource.toStored(stored);
  return { action: 'put', object, ttlSeconds: kind.strategy.ttlSeconds, reservation: allocation };
}

/** Returns true if the object is being deleted and this update removes the last finalizer that held it. */
function isFinalizedBy({ strategy }: ServedKind, stored: KubeObject, old: KubeObject): boolean {
  const { deletionTimestamp, deletionGracePeriodSeconds } = old.metadata ?? {};
  return (
    (stored.metadata?.finalizers ?? []).length === 0 &&
    deletionTimestamp !== undefined &&
    (deletionGracePeriodSeconds ?? 0) === 0 &&
    strategy.isHeld?.(stored) !== true
  );
}

/** Checks uid and resourceVersion; returns the object with the resourceVersion that it replaces. @throws StatusError Conflict, Invalid */
function checkPreconditions(
  { strategy, resource }: ServedKind,
  admitted: KubeObject,
  { object, revision }: Item,
  name: string,
  { optionsKind }: Pick<UpdateSource, 'optionsKind'>,
): KubeObject {
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

/** Creates the object of an update, for kinds that allow it and for server-side apply. */
async function createOnUpdate(
  registry: RegistryDependencies,
  kind: ServedKind,
  context: RequestContext,
  source: UpdateSource,
): Promise<UpdateDecision> {
  const { request } = context;
  if (!source.allowCreate) throw notFound(kind.resource, request.name);
  // update permission does not imply create permission
  await authorizeRequest(registry.authz, [], { ...attributesOf(request), verb: 'create' }, context);
  const decoded = source.newObject(undefined);
  const submitted = source.tracksFields === true ? decoded : trackUpdate(registry, kind, context, undefined, decoded);
  const { uid = '' } = submitted.metadata ?? {};
  if (uid !== '')
    throw conflict(
      kind.resource,
      request.name,
      `StorageError: invalid object, Code: 4, Key: , ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: ${uid}, UID in object meta: `,
    );
  const operation: WriteOperation = {
    registry,
    kind,
    context,
    attributes: { operation: 'CREATE', resource: kind.resource, old: undefined, options: writeOptions(request.query, 'CreateOptions') },
  };
  const admitted = await mutate(operation, submitted);
  const prepared = await prepareNew(operation, admitted);
  validateNew(operation, request.name, prepared);
  await admit(operation, prepared);
  const { stored, allocation } = prepared;
  const object = kind.customResource === undefined ? stored : await kind.customResource.toStored(stored);
  return { action: 'put', object, ttlSeconds: kind.strategy.ttlSeconds, reservation: allocation };
}
