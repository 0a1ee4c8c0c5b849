import { invalid, invalidStatus } from '@oarlock/api/field-error';
import { isObject } from '@oarlock/api/json';
import type { KubeObject } from '@oarlock/api/object';
import { badRequest, conflict, notFound, objectModified } from '@oarlock/api/status';
import { attributesOf, authorize } from './authorization.ts';
import { conformedAnswer, decodeBody } from './body.ts';
import type { Call } from './call.ts';
import type { Machinery } from './machinery.ts';
import type { Decision } from './object-store.ts';
import { settledManagers, tracked, withDecodable } from './managed-fields-tracking.ts';
import { placed, strategyContext, validated } from './registry-create.ts';
import { checkWriteOptions, writeOptions } from './request-options.ts';
import type { Encoded, PipelineResponse } from './response.ts';
import { completed, keyOf, show, written, type ServedKind } from './served-kind.ts';
import { prepareCreate, prepareSubresource, prepareUpdate } from './strategy/generic.ts';
import { withMeta, type UpdateRules } from './strategy/strategy.ts';
import { validateCreate, validateUpdate } from './validation-rules.ts';
import { View, type Item } from './watch-cache/item.ts';

/** How an object comes about that is to replace another one. */
export interface Change {
  /** The subresource by whose rules the update is made; absent for the object itself. */
  readonly rules?: UpdateRules | undefined;
  readonly optionsKind: 'UpdateOptions' | 'PatchOptions';
  /** What the object is to become, in the served version, not completed yet. `old` is undefined when there is none. */
  next(old: KubeObject | undefined): KubeObject;
  /** Whether it may be made when there is none. */
  readonly creates: boolean;
  /** `next` says itself who manages what it changes. */
  readonly applies?: boolean;
}

/** PUT of an object or of a subresource that has the object's kind. */
export async function update(machinery: Machinery, kind: ServedKind, call: Call, rules?: UpdateRules): Promise<PipelineResponse> {
  const { request } = call;
  checkWriteOptions(request.query, 'UpdateOptions');
  const { namespace, name } = request;
  const { name: ownName = '', namespace: ownNamespace = '' } =
    (isObject(request.body) ? (request.body as KubeObject).metadata : undefined) ?? {};
  const body = decodeBody(request.body, kind, cached(kind, namespace, name));
  if (ownName === '') throw badRequest('name must be provided');
  if (ownName !== name) throw badRequest(`the name of the object (${ownName}) does not match the name on the URL (${name})`);
  if (kind.namespaced && ownNamespace !== '' && ownNamespace !== namespace)
    throw badRequest('the namespace of the provided object does not match the namespace sent on the request');
  const next = completed(kind, placed(kind, body, namespace, name));
  return replace(machinery, kind, call, {
    rules,
    optionsKind: 'UpdateOptions',
    creates: kind.strategy.createOnUpdate === true && rules === undefined,
    next: () => next,
  });
}

/** What clients of this process, who get the cache's own objects, may send parts of. */
function cached(kind: ServedKind, namespace: string, name: string): KubeObject | undefined {
  return kind.viewer === undefined && kind.custom === undefined ? kind.cache.get(keyOf(kind, namespace, name))?.object : undefined;
}

/** Writes a change, and answers with what became of it. */
export async function replace(machinery: Machinery, kind: ServedKind, call: Call, change: Change): Promise<PipelineResponse> {
  const { item, created } = await replaceObject(machinery, kind, call, change);
  return { kind: 'object', code: created ? 201 : 200, item, warnings: call.warnings };
}

/** Admits, completes, validates and stores a change, again and again until nobody else wrote in between. */
export async function replaceObject(
  machinery: Machinery,
  kind: ServedKind,
  call: Call,
  change: Change,
): Promise<{ readonly item: Encoded; readonly created: boolean }> {
  const { request } = call;
  const { objects } = machinery;
  const key = keyOf(kind, request.namespace, request.name);
  let created = false;
  let shown: KubeObject | undefined;
  const decide = async (current: Item | undefined): Promise<Decision> => {
    created = current === undefined;
    const decision =
      current === undefined ? await upsert(machinery, kind, call, change) : await changeOf(machinery, kind, call, change, current);
    shown = decision.action === 'put' ? decision.object : decision.action === 'delete' ? decision.last : undefined;
    return decision;
  };
  if (call.dryRun) {
    const current = await objects.read(kind.store, key);
    await decide(current);
    const object = shown ?? current?.object ?? {};
    if (shown === undefined && current !== undefined) return { item: await show(kind, current, request), created };
    return { item: new View(kind.conversion?.fromStored(object) ?? object, current?.revision ?? 0), created };
  }
  const outcome = await objects.change(kind.store, key, call, decide);
  if (outcome === undefined) throw notFound(kind.resource, request.name);
  const { item, deleted } = outcome;
  // the last finalizer went away: the answer is the object as the client wrote it
  if (deleted && shown !== undefined) {
    const last = withMeta(shown, { resourceVersion: String(item.revision) });
    return { item: new View(kind.conversion?.fromStored(last) ?? last, item.revision), created: false };
  }
  return { item: await show(kind, item, request), created };
}

type Made =
  | Extract<Decision, { readonly action: 'put' }>
  | (Extract<Decision, { readonly action: 'delete' }> & { readonly last: KubeObject });

async function changeOf(machinery: Machinery, kind: ServedKind, call: Call, change: Change, current: Item): Promise<Made> {
  const { admission } = machinery;
  const { strategy, conversion } = kind;
  const { request } = call;
  const { rules } = change;
  const view = show(kind, current, request);
  const old = (view instanceof Promise ? await view : view).object;
  // custom resources are stored by the rules of the version in which they came
  const before = kind.custom === undefined ? current.object : old;
  let next = change.next(old);
  if (call.large) await call.rest();
  if (change.applies !== true) next = tracked(machinery, kind, call, old, next);
  if (call.large) await call.rest();
  const admitted = { operation: 'UPDATE' as const, resource: kind.resource, old, options: writeOptions(request.query, change.optionsKind) };
  if (admission.mutates('UPDATE', kind.resource, request.subresource)) {
    const given = admission.mutate(call, { ...admitted, object: next });
    const changed = given instanceof Promise ? await given : given;
    if (changed !== next) next = completed(kind, withDecodable(conformedAnswer(changed, next, kind), next));
  }
  next = checkVersion(kind, next, current, request.name, change);
  const context = strategyContext(call);
  let stored = written(kind, conversion?.toStored(next) ?? next);
  stored = rules === undefined ? prepareUpdate(kind, stored, before, context) : prepareSubresource(kind, rules, stored, before, context);
  const made = rules === undefined ? strategy.reserve?.(stored, before, context) : undefined;
  const reserved = made instanceof Promise ? await made : made;
  stored = settledManagers(reserved?.object ?? stored, next, before);
  if (call.large) await call.rest();
  const shown = conversion?.fromStored(stored) ?? stored;
  validated(kind, request.name, call, () => [
    ...(rules?.validate?.(stored, before, context) ?? validateUpdate(kind, shown, old, request.subresource, request.body)),
    ...(rules === undefined ? (strategy.validateUpdate?.(stored, before, context) ?? []) : []),
  ]);
  if (call.large) await call.rest();
  const judged = admission.validate(call, { ...admitted, object: shown });
  if (judged !== undefined) await judged;
  if (goes(kind, stored, before)) {
    const released = strategy.reserve?.(undefined, current.object, context);
    return { action: 'delete', last: stored, reservation: (released instanceof Promise ? await released : released)?.reservation };
  }
  return {
    action: 'put',
    object: kind.custom === undefined ? stored : await kind.custom.toStored(stored),
    ttlSeconds: strategy.ttlSeconds,
    reservation: reserved?.reservation,
  };
}

/** Deletion has begun, and this update takes away the last that held the object. */
function goes({ strategy }: ServedKind, next: KubeObject, old: KubeObject): boolean {
  const { deletionTimestamp, deletionGracePeriodSeconds } = old.metadata ?? {};
  return (
    (next.metadata?.finalizers ?? []).length === 0 &&
    deletionTimestamp !== undefined &&
    (deletionGracePeriodSeconds ?? 0) === 0 &&
    strategy.held?.(next) !== true
  );
}

/** The object with the version that it replaces. @throws StatusError Conflict, Invalid */
function checkVersion(
  { strategy, resource }: ServedKind,
  next: KubeObject,
  { object, revision }: Item,
  name: string,
  { optionsKind }: Pick<Change, 'optionsKind'>,
): KubeObject {
  const { uid = '', resourceVersion = '' } = next.metadata ?? {};
  const existing = object.metadata?.uid ?? '';
  // what a patch makes of it is a field as others, and may not change
  const expected = optionsKind === 'UpdateOptions';
  if (expected && uid !== '' && uid !== existing) {
    throw conflict(
      resource,
      name,
      `StorageError: invalid object, Code: 4, Key: , ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: ${uid}, UID in object meta: ${existing}`,
    );
  }
  if (resourceVersion === '' || resourceVersion === '0') {
    if (strategy.unconditionalUpdate !== false) return withMeta(next, { resourceVersion: String(revision) });
    throw invalidStatus({ group: resource.group, kind: resource.resource, name }, [
      invalid('metadata.resourceVersion', 0, 'must be specified for an update'),
    ]);
  }
  if (resourceVersion !== String(revision)) throw conflict(resource, name, objectModified);
  return next;
}

/** PUT of what is not there, for kinds that allow it. */
async function upsert(machinery: Machinery, kind: ServedKind, call: Call, change: Change): Promise<Made> {
  const { admission, random, authz } = machinery;
  const { strategy, conversion } = kind;
  const { request } = call;
  if (!change.creates) throw notFound(kind.resource, request.name);
  // who may change what is there may not for that make what is not
  await authorize(authz, [], { ...attributesOf(request), verb: 'create' }, call);
  let next = change.next(undefined);
  if (change.applies !== true) next = tracked(machinery, kind, call, undefined, next);
  const { uid = '' } = next.metadata ?? {};
  if (uid !== '')
    throw conflict(
      kind.resource,
      request.name,
      `StorageError: invalid object, Code: 4, Key: , ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: ${uid}, UID in object meta: `,
    );
  const admitted = {
    operation: 'CREATE' as const,
    resource: kind.resource,
    old: undefined,
    options: writeOptions(request.query, 'CreateOptions'),
  };
  if (admission.mutates('CREATE', kind.resource, ''))
    next = completed(kind, withDecodable(conformedAnswer(await admission.mutate(call, { ...admitted, object: next }), next, kind), next));
  const context = strategyContext(call);
  let stored = written(kind, prepareCreate(kind, conversion?.toStored(next) ?? next, random.uuid(), context));
  const made = strategy.reserve?.(stored, undefined, context);
  const reserved = made instanceof Promise ? await made : made;
  stored = settledManagers(reserved?.object ?? stored, next, undefined);
  const shown = conversion?.fromStored(stored) ?? stored;
  validated(kind, request.name, call, () => [
    ...validateCreate(kind, shown, request.body),
    ...(strategy.validate?.(stored, context) ?? []),
  ]);
  await admission.validate(call, { ...admitted, object: shown });
  if (kind.custom !== undefined) stored = await kind.custom.toStored(stored);
  return { action: 'put', object: stored, ttlSeconds: strategy.ttlSeconds, reservation: reserved?.reservation };
}
