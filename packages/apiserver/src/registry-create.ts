import { invalidStatus } from '@oarlock/api/field-error';
import type { KubeObject } from '@oarlock/api/object';
import { alreadyExists, badRequest, failure, StatusError } from '@oarlock/api/status';
import { conformedAnswer, decodeBody } from './body.ts';
import type { Call } from './call.ts';
import { settledManagers, tracked, withDecodable } from './managed-fields-tracking.ts';
import type { Machinery } from './machinery.ts';
import { generatedName } from './random.ts';
import { checkWriteOptions, writeOptions } from './request-options.ts';
import type { PipelineResponse } from './response.ts';
import { completed, keyOf, show, written, type ServedKind } from './served-kind.ts';
import { prepareCreate } from './strategy/generic.ts';
import { withMeta, type StrategyContext } from './strategy/strategy.ts';
import { validateCreate } from './validation-rules.ts';
import { View, type Item } from './watch-cache/item.ts';

const maxNames = 8;
const maxReservations = 64;

/** POST of a collection. */
export async function create(machinery: Machinery, kind: ServedKind, call: Call): Promise<PipelineResponse> {
  const { request } = call;
  checkWriteOptions(request.query, 'CreateOptions');
  const body = decodeBody(request.body, kind);
  if (call.large) await call.rest();
  const item = await createObject(machinery, kind, call, body);
  if (call.large) await call.rest();
  return {
    kind: 'object',
    code: 201,
    item: item instanceof View ? item : await show(kind, item, request),
    warnings: call.warnings,
  };
}

/** Admits, completes, validates and stores a new object. What it gives back was only made up when the request is a dry run. */
export async function createObject(machinery: Machinery, kind: ServedKind, call: Call, body: KubeObject): Promise<Item | View> {
  const { request } = call;
  const { admission } = machinery;
  let object = completed(kind, placed(kind, wellNamed(body), request.namespace, request.name));
  const { resourceVersion = '' } = object.metadata ?? {};
  // Kubernetes says the same words with a code of 500
  if (resourceVersion !== '' && resourceVersion !== '0') throw badRequest('resourceVersion should not be set on objects to be created');
  object = tracked(machinery, kind, call, undefined, object);
  if (call.large) await call.rest();
  const admitted = {
    operation: 'CREATE' as const,
    resource: kind.resource,
    old: undefined,
    options: writeOptions(request.query, 'CreateOptions'),
  };
  if (admission.mutates('CREATE', kind.resource, '')) {
    const given = admission.mutate(call, { ...admitted, object });
    const changed = given instanceof Promise ? await given : given;
    if (changed !== object) object = completed(kind, withDecodable(conformedAnswer(changed, object, kind), object));
  }
  const { name = '', generateName = '' } = object.metadata ?? {};
  if (name !== '') {
    const item = await attempt(machinery, kind, call, object, admitted);
    if (item !== undefined) return item;
    throw await exists(machinery, kind, call, name);
  }
  if (generateName === '') await attempt(machinery, kind, call, object, admitted);
  for (let i = 0; i < maxNames; i++) {
    const generated = generatedName(generateName, machinery.random);
    const item = await attempt(machinery, kind, call, withMeta(object, { name: generated }), admitted);
    if (item !== undefined) return item;
    if (i < maxNames - 1) continue;
    const { status } = alreadyExists(kind.resource, generated);
    throw new StatusError({
      ...status,
      message: `${status.message ?? ''}, the server was not able to generate a unique name for the object`,
      details: { ...status.details, retryAfterSeconds: 1 },
    });
  }
  throw failure('InternalError', 'Internal error occurred: no name was generated');
}

const loneSurrogates = /\p{Surrogate}/gu;

/** Names become keys: what is no Unicode in them is replaced, as Go does when it decodes. */
function wellNamed(object: KubeObject): KubeObject {
  const { name = '', generateName = '' } = object.metadata ?? {};
  const [text, prefix] = [name.replace(loneSurrogates, '\ufffd'), generateName.replace(loneSurrogates, '\ufffd')];
  if (text === name && prefix === generateName) return object;
  return withMeta(object, { ...(text !== name && { name: text }), ...(prefix !== generateName && { generateName: prefix }) });
}

/** Undefined when there is an object of that name. */
async function attempt(
  machinery: Machinery,
  kind: ServedKind,
  call: Call,
  object: KubeObject,
  admitted: Pick<Parameters<Machinery['admission']['validate']>[1], 'operation' | 'resource' | 'old' | 'options'>,
): Promise<Item | View | undefined> {
  const { objects, admission, random } = machinery;
  const { strategy, store, conversion } = kind;
  const context = strategyContext(call);
  const name = object.metadata?.name ?? '';
  call.named(name);
  for (let i = 0; i < maxReservations; i++) {
    let stored = written(kind, prepareCreate(kind, conversion?.toStored(object) ?? object, random.uuid(), context));
    const made = strategy.reserve?.(stored, undefined, context);
    const reserved = made instanceof Promise ? await made : made;
    stored = settledManagers(reserved?.object ?? stored, object, undefined);
    if (call.large) await call.rest();
    const shown = conversion?.fromStored(stored) ?? stored;
    validated(kind, name, call, () => [...validateCreate(kind, shown, call.request.body), ...(strategy.validate?.(stored, context) ?? [])]);
    if (call.large) await call.rest();
    const judged = admission.validate(call, { ...admitted, object: shown, name });
    if (judged !== undefined) await judged;
    const key = keyOf(kind, call.request.namespace, name);
    if (call.dryRun) return (await objects.read(store, key)) === undefined ? new View(shown, 0) : undefined;
    if (kind.custom !== undefined) stored = await kind.custom.toStored(stored);
    const item = await objects.create(store, key, stored, call, { ttlSeconds: strategy.ttlSeconds, reservation: reserved?.reservation });
    if (item !== 'taken') return item;
  }
  throw failure('InternalError', 'Internal error occurred: what the object needs was taken by others all the time');
}

/** Runs validation in its span. @throws StatusError Invalid */
export function validated(kind: ServedKind, name: string, call: Call, validate: () => Parameters<typeof invalidStatus>[1]): void {
  const span = call.child('validation');
  const errors = validate();
  span?.end();
  if (errors.length > 0) throw invalidStatus({ group: kind.gvk.group, kind: kind.gvk.kind, name }, errors);
}

export function strategyContext(call: Call): StrategyContext {
  return { now: call.now, identity: call.request.identity, dryRun: call.dryRun, taken: call.taken, warn: (message) => call.warn(message) };
}

/** The object in the namespace of the request. @throws StatusError BadRequest when it says otherwise */
export function placed(kind: ServedKind, object: KubeObject, namespace: string, name: string): KubeObject {
  const { namespace: own = '', name: ownName = '' } = object.metadata ?? {};
  if (name !== '' && ownName !== '' && name !== ownName)
    throw badRequest(`the name of the object (${ownName}) does not match the name on the URL (${name})`);
  if (!kind.namespaced) return own === '' ? object : withMeta(object, { namespace: undefined });
  if (namespace === '' && own === '') throw badRequest('an empty namespace may not be set during creation');
  if (own === namespace) return object;
  if (own === '') return withMeta(object, { namespace });
  throw badRequest('the namespace of the provided object does not match the namespace sent on the request');
}

async function exists({ objects }: Machinery, kind: ServedKind, call: Call, name: string): Promise<StatusError> {
  const { status } = alreadyExists(kind.resource, name);
  const item = await objects.read(kind.store, keyOf(kind, call.request.namespace, name));
  return item?.object.metadata?.deletionTimestamp === undefined
    ? new StatusError(status)
    : new StatusError({ ...status, message: `object is being deleted: ${status.message ?? ''}` });
}
