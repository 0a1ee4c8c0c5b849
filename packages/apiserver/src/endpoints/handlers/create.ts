import type { KubeObject } from '@oarlock/api/object';
import { alreadyExists, badRequest, failure, isStatus, StatusError } from '@oarlock/api/status';
import type { ApiRequest } from '@oarlock/spi/loopback';
import { decodeBody } from '../request/body.ts';
import type { RequestContext } from '../request/request-context.ts';
import { trackLargeUpdate, trackUpdate } from './managed-fields/tracking.ts';
import type { RegistryDependencies } from '../../registry/registry-dependencies.ts';
import { generateRandomName } from '../../registry/random.ts';
import { checkWriteOptions } from '../request/request-options.ts';
import type { EncodedObject, PipelineResponse } from '../request/response.ts';
import { withDefaults, keyOf, toServed, type ServedKind } from '../../registry/served-kind.ts';
import { withMetadata } from '../../registry/strategy.ts';
import { Item } from '../../watch-cache/item.ts';
import type { RequestScope } from '../../registry/request-scope.ts';
import { withoutDuplicateOwners } from './owner-references.ts';
import {
  admit,
  dryRunResult,
  forbidWhileTerminating,
  mutate,
  newCreateOperation,
  prepareNew,
  validateNew,
  warnAboutNew,
  type PreparedObject,
  type WriteOperation,
} from './write-operation.ts';

const maxNameAttempts = 8;
const maxAllocationAttempts = 64;

/** Handles POST to a collection of objects. */
export async function create(registry: RegistryDependencies, kind: ServedKind, context: RequestContext): Promise<PipelineResponse> {
  const { request } = context;
  checkWriteOptions(request.query, 'CreateOptions');
  const body = decodeBody(request.body, kind);
  forbidWhileTerminating(kind, body.metadata?.name ?? '');
  if (context.isLarge) await context.yieldEventLoop();
  const item = await createObject(newCreateOperation(registry, kind, context), body);
  if (context.isLarge) await context.yieldEventLoop();
  return {
    kind: 'object',
    code: 201,
    item: item instanceof Item ? await toServed(kind, item, request) : item,
    warnings: context.warnings,
  };
}

/** Creates an object from a decoded body, and returns the created object. For a dry run the result is not an Item. */
async function createObject(operation: WriteOperation, body: KubeObject): Promise<EncodedObject> {
  const { kind, context } = operation;
  const { request } = context;
  const decoded = withDefaults(kind, withRequestNamespace(kind, withValidUnicodeName(body), request), context.now);
  if (context.isLarge) await context.yieldEventLoop();
  const { resourceVersion = '' } = decoded.metadata ?? {};
  // upstream's message; upstream returns it with code 500. Storage checks it, so a dry run accepts the object
  if (!context.dryRun && resourceVersion !== '' && resourceVersion !== '0')
    throw badRequest('resourceVersion should not be set on objects to be created');
  const single = withoutDuplicateOwners(decoded, context, false);
  const submitted = context.isLarge ? await trackLargeUpdate(operation, undefined, single) : trackUpdate(operation, undefined, single);
  if (context.isLarge) await context.yieldEventLoop();
  const mutation = mutate(operation, submitted);
  const admitted = mutation instanceof Promise ? await mutation : mutation;
  if (context.isLarge) await context.yieldEventLoop();
  const { name = '', generateName = '' } = admitted.metadata ?? {};
  if (name !== '') {
    const item = await createNamed(operation, admitted);
    if (item !== undefined) return item;
    throw await alreadyExistsError(operation, name);
  }
  // an object without a name and without generateName fails validation
  if (generateName === '') await createNamed(operation, admitted);
  return createWithGeneratedName(operation, admitted, generateName);
}

async function createWithGeneratedName(operation: WriteOperation, admitted: KubeObject, generateName: string): Promise<EncodedObject> {
  const { registry, kind } = operation;
  for (let attempt = 1; ; attempt++) {
    const name = generateRandomName(generateName, registry.random);
    const item = await createNamed(operation, withMetadata(admitted, { name }));
    if (item !== undefined) return item;
    if (attempt < maxNameAttempts) continue;
    const { status } = alreadyExists(kind.resource, name);
    throw new StatusError({
      ...status,
      message: `${status.message ?? ''}, the server was not able to generate a unique name for the object`,
      details: { ...status.details, retryAfterSeconds: 1 },
    });
  }
}

const loneSurrogates = /\p{Surrogate}/gu;

/** Replaces lone surrogates in metadata.name and metadata.generateName as Go's JSON decoder does, because names become storage keys. */
function withValidUnicodeName(object: KubeObject): KubeObject {
  const { name = '', generateName = '' } = object.metadata ?? {};
  const [text, prefix] = [name.replace(loneSurrogates, '\ufffd'), generateName.replace(loneSurrogates, '\ufffd')];
  if (text === name && prefix === generateName) return object;
  return withMetadata(object, { ...(text !== name && { name: text }), ...(prefix !== generateName && { generateName: prefix }) });
}

/** Prepares, validates and commits a named object; returns undefined if an object with this name exists. */
async function createNamed(unnamed: WriteOperation, admitted: KubeObject): Promise<EncodedObject | undefined> {
  const { kind, context } = unnamed;
  const name = admitted.metadata?.name ?? '';
  const operation: WriteOperation = { ...unnamed, attributes: { ...unnamed.attributes, name } };
  context.setObjectName(name);
  const key = keyOf(kind, context.request.namespace, name);
  // each attempt has a new uid and new allocations, so it is validated and admitted again
  for (let attempt = 0; attempt < maxAllocationAttempts; attempt++) {
    const preparation = prepareNew(operation, admitted);
    const prepared = preparation instanceof Promise ? await preparation : preparation;
    if (context.isLarge) await context.yieldEventLoop();
    validateNew(operation, name, prepared);
    if (context.isLarge) await context.yieldEventLoop();
    warnAboutNew(operation, prepared);
    if (context.isLarge) await context.yieldEventLoop();
    const admission = admit(operation, prepared);
    if (admission !== undefined) await admission;
    if (context.isLarge) await context.yieldEventLoop();
    const item = await commitNew(operation, key, prepared);
    if (item !== 'taken') return item;
  }
  throw failure('InternalError', 'Internal error occurred: concurrent requests reserved the allocations of the object on every attempt');
}

/**
 * Commits a new object. Returns undefined if the key exists, and `taken` if another request took an address or port that was allocated to the
 * object.
 */
async function commitNew(
  operation: WriteOperation,
  key: string,
  { stored, allocation }: PreparedObject,
): Promise<EncodedObject | 'taken' | undefined> {
  const { registry, kind, context } = operation;
  const { objects } = registry;
  const { storedKind, strategy, customResource } = kind;
  const encoded = customResource === undefined ? stored : await customResource.toStored(stored);
  if (context.dryRun)
    return (await objects.read(storedKind, key)) === undefined ? dryRunResult(operation, encoded, { key, revision: 0 }) : undefined;
  return objects.create(storedKind, key, encoded, context, { ttlSeconds: strategy.ttlSeconds, reservation: allocation });
}

/**
 * Sets the namespace of the request on an object without a namespace.
 * @throws StatusError BadRequest if the object has another namespace or name than the request
 */
export function withRequestNamespace(
  kind: Pick<ServedKind, 'namespaced'>,
  object: KubeObject,
  { namespace, name }: Pick<ApiRequest, 'namespace' | 'name'>,
): KubeObject {
  const { namespace: own = '', name: ownName = '' } = object.metadata ?? {};
  if (name !== '' && ownName !== '' && name !== ownName)
    throw badRequest(`the name of the object (${ownName}) does not match the name on the URL (${name})`);
  if (!kind.namespaced) return own === '' ? object : withMetadata(object, { namespace: undefined });
  if (namespace === '' && own === '') throw badRequest('an empty namespace may not be set during creation');
  if (own === namespace) return object;
  if (own === '') return withMetadata(object, { namespace });
  throw badRequest('the namespace of the provided object does not match the namespace sent on the request');
}

async function alreadyExistsError({ registry: { objects }, kind, context }: RequestScope, name: string): Promise<StatusError> {
  const { status } = alreadyExists(kind.resource, name);
  const item = await objects.read(kind.storedKind, keyOf(kind, context.request.namespace, name)).catch((error: unknown) => {
    if (!isStatus(error, 'InternalError')) throw error;
    return undefined; // the object exists and cannot be decoded
  });
  return item?.object.metadata?.deletionTimestamp === undefined
    ? new StatusError(status)
    : new StatusError({ ...status, message: `object is being deleted: ${status.message ?? ''}` });
}
