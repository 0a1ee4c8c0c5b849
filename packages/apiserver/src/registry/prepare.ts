import { copyFields } from '@oarlock/api/json/copy-fields';
import { jsonEqual } from '@oarlock/api/json/json';
import type { KubeObject, ObjectMeta } from '@oarlock/api/object';
import { groupResource } from '@oarlock/api/resource';
import { formatTime } from '@oarlock/api/values/time';
import { withoutDisabledFields } from './disabled-fields.ts';
import { defaultStatusStrategy, statusOnly, statusOnlyResources } from './status-only.ts';
import type { ServedKind } from './served-kind.ts';
import { fieldOf, withMetadata, withFields, type StrategyContext, type SubresourceStrategy } from './strategy.ts';

const systemFields: ReadonlySet<string> = new Set([
  'selfLink',
  'managedFields',
  'deletionTimestamp',
  'deletionGracePeriodSeconds',
  'resourceVersion',
  'generation',
]);

const hasStatus = ({ kind }: ServedKind) => kind.subresources.some(({ name }) => name === 'status');

/** The object that is created, its uid and the context of the request. */
export interface CreatePreparation {
  readonly object: KubeObject;
  readonly uid: string;
  readonly context: StrategyContext;
}

/** Sets the fields of a new object that the server owns (rest.BeforeCreate upstream): uid, creationTimestamp, generation, and an empty status. */
export function prepareForCreate(kind: ServedKind, { object, uid, context }: CreatePreparation): KubeObject {
  const { strategy } = kind;
  const metadata: Record<string, unknown> = {};
  const clientMetadata = (object.metadata ?? {}) as Readonly<Record<string, unknown>>;
  for (const field in clientMetadata) if (!systemFields.has(field)) metadata[field] = clientMetadata[field];
  if (context.dryRun && clientMetadata['resourceVersion'] !== undefined) metadata['resourceVersion'] = clientMetadata['resourceVersion'];
  metadata['uid'] = uid;
  metadata['creationTimestamp'] = formatTime(context.now);
  if (strategy.generation !== undefined && strategy.generation !== false) metadata['generation'] = 1;
  let fresh: KubeObject = copyFields(object, { metadata: metadata as ObjectMeta });
  if (hasStatus(kind) && strategy.keepsStatusOnCreate !== true) fresh = withFields(fresh, { status: {} });
  fresh = withoutDisabledFields(kind, fresh);
  return strategy.prepareForCreate?.(fresh, context) ?? fresh;
}

/** The new and the old object, and the context of the request. */
export interface UpdatePreparation {
  readonly object: KubeObject;
  readonly old: KubeObject;
  readonly context: StrategyContext;
}

/**
 * Prepares an updated object (rest.BeforeUpdate upstream): keeps the fields that the server owns, and the status, which only the status subresource
 * can change.
 */
export function prepareForUpdate(kind: ServedKind, { object, old, context }: UpdatePreparation): KubeObject {
  const { strategy } = kind;
  const kept = withoutDisabledFields(kind, object, old);
  const next = hasStatus(kind) ? withFields(kept, { status: fieldOf(old, 'status') }) : kept;
  return restoreServerFields(kind, { object: strategy.prepareForUpdate?.(next, old, context) ?? next, old });
}

/** Returns the strategy of a subresource that updates its object; undefined if the kind has none, or for the object itself (''). */
export function subresourceStrategy(served: ServedKind, subresource: string): SubresourceStrategy | undefined {
  const rules = served.strategy.subresources?.[subresource];
  if (rules !== undefined || subresource !== 'status' || !hasStatus(served)) return rules;
  return statusOnlyResources.has(groupResource(served.resource)) ? statusOnly : defaultStatusStrategy;
}

/** The rules of the subresource, the new and the old object, and the context of the request. */
export interface SubresourcePreparation {
  readonly rules: SubresourceStrategy;
  readonly object: KubeObject;
  readonly old: KubeObject;
  readonly context: StrategyContext;
}

export function prepareForSubresourceUpdate(kind: ServedKind, { rules, object, old, context }: SubresourcePreparation): KubeObject {
  return restoreServerFields(kind, { object: rules.prepareForUpdate(object, old, context), old, subresource: true });
}

/** Restores the fields that the server owns, and increments the generation if the update changes fields that the generation counts. */
function restoreServerFields(
  { strategy }: ServedKind,
  {
    object,
    old,
    subresource = false,
  }: { readonly object: KubeObject; readonly old: KubeObject; readonly subresource?: boolean | undefined },
): KubeObject {
  const before = old.metadata ?? {};
  const metadata: Record<string, unknown> = {};
  const submitted = (object.metadata ?? {}) as Readonly<Record<string, unknown>>;
  for (const name in submitted) if (name !== 'selfLink' && name !== 'managedFields') metadata[name] = submitted[name];
  if (!metadata['uid'] && before.uid !== undefined) metadata['uid'] = before.uid;
  restoreField(metadata, before, 'creationTimestamp');
  if (before.deletionTimestamp !== undefined) metadata['deletionTimestamp'] = before.deletionTimestamp;
  if (before.deletionGracePeriodSeconds !== undefined) metadata['deletionGracePeriodSeconds'] ??= before.deletionGracePeriodSeconds;
  if (subresource) {
    if (metadata['generation'] === undefined || !isGenerationCounted(object, old)) restoreField(metadata, before, 'generation');
    return copyFields(object, { metadata: metadata as ObjectMeta });
  }
  restoreField(metadata, before, 'generation');
  const { generation } = strategy;
  if (generation !== undefined && generation !== false) {
    const changed = generation === true ? !jsonEqual(fieldOf(object, 'spec'), fieldOf(old, 'spec')) : generation(object, old);
    if (changed) metadata['generation'] = (before.generation ?? 0) + 1;
  }
  return copyFields(object, { metadata: metadata as ObjectMeta });
}

/** Returns true if the strategy of a subresource that changes the spec has already incremented the generation. */
function isGenerationCounted(object: KubeObject, old: KubeObject): boolean {
  return object.metadata?.generation === (old.metadata?.generation ?? 0) + 1 && !jsonEqual(fieldOf(object, 'spec'), fieldOf(old, 'spec'));
}

function restoreField(metadata: Record<string, unknown>, before: ObjectMeta, name: keyof ObjectMeta): void {
  if (before[name] === undefined || before[name] === null) delete metadata[name];
  else metadata[name] = before[name];
}

/** Marks an object as being deleted while finalizers or a grace period prevent its removal, as upstream's rest.BeforeDelete does. */
export function markDeleting(object: KubeObject, deletionTimestamp: string, graceSeconds: number | undefined): KubeObject {
  const { metadata } = object;
  const begins = metadata?.deletionTimestamp === undefined;
  return withMetadata(object, {
    deletionTimestamp,
    ...(graceSeconds !== undefined && { deletionGracePeriodSeconds: graceSeconds }),
    ...(begins && (metadata?.generation ?? 0) > 0 && { generation: (metadata?.generation ?? 0) + 1 }),
  });
}
