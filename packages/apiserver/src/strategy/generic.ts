import { jsonEqual } from '@oarlock/api/json';
import type { KubeObject, ObjectMeta } from '@oarlock/api/object';
import { formatTime } from '@oarlock/api/time';
import type { ServedKind } from '../served-kind.ts';
import { part, withMeta, withParts, type StrategyContext, type UpdateRules } from './strategy.ts';

const serverFields: ReadonlySet<string> = new Set([
  'selfLink',
  'managedFields',
  'deletionTimestamp',
  'deletionGracePeriodSeconds',
  'resourceVersion',
  'generation',
]);

const hasStatus = ({ kind }: ServedKind) => kind.subresources.some(({ name }) => name === 'status');

/** What the server says about an object that is new: its identity, age and generation, and a status that nobody has reported yet. */
export function prepareCreate(kind: ServedKind, object: KubeObject, uid: string, context: StrategyContext): KubeObject {
  const { strategy } = kind;
  const metadata: Record<string, unknown> = {};
  const given = (object.metadata ?? {}) as Readonly<Record<string, unknown>>;
  for (const field in given) if (!serverFields.has(field)) metadata[field] = given[field];
  metadata['uid'] = uid;
  metadata['creationTimestamp'] = formatTime(context.now);
  if (strategy.generation !== undefined && strategy.generation !== false) metadata['generation'] = 1;
  let fresh: KubeObject = { ...object, metadata: metadata as ObjectMeta };
  if (hasStatus(kind) && strategy.keepsStatus !== true) fresh = withParts(fresh, { status: {} });
  return strategy.create?.(fresh, context) ?? fresh;
}

/** What an update may change: not the server's fields, and the status only through its subresource. */
export function prepareUpdate(kind: ServedKind, object: KubeObject, old: KubeObject, context: StrategyContext): KubeObject {
  const { strategy } = kind;
  const next = hasStatus(kind) ? withParts(object, { status: part(old, 'status') }) : object;
  return settled(kind, strategy.update?.(next, old, context) ?? next, old);
}

const genericStatus: UpdateRules = {
  prepare: (object, old) => {
    const parts: Record<string, unknown> = { ...old };
    for (const name of ['kind', 'apiVersion', 'metadata', 'status']) delete parts[name];
    for (const name of Object.keys(object))
      if (!(name in parts) && !['kind', 'apiVersion', 'metadata', 'status'].includes(name)) parts[name] = undefined;
    return withParts(object, parts);
  },
};

/** The rules of a subresource that updates its object; undefined when it has none. */
export function updateRules({ strategy, kind }: ServedKind, subresource: string): UpdateRules | undefined {
  const rules = strategy.subresources?.[subresource];
  return rules ?? (subresource === 'status' && kind.subresources.some(({ name }) => name === 'status') ? genericStatus : undefined);
}

export function prepareSubresource(
  kind: ServedKind,
  rules: UpdateRules,
  object: KubeObject,
  old: KubeObject,
  context: StrategyContext,
): KubeObject {
  return settled(kind, rules.prepare(object, old, context), old, true);
}

/** The server's fields as they were, whatever the client sent; a new generation where the update counts. */
function settled({ strategy }: ServedKind, object: KubeObject, old: KubeObject, subresource = false): KubeObject {
  const before = old.metadata ?? {};
  const metadata: Record<string, unknown> = { ...object.metadata };
  delete metadata['selfLink'];
  delete metadata['managedFields'];
  if (!metadata['uid'] && before.uid !== undefined) metadata['uid'] = before.uid;
  restore(metadata, before, 'creationTimestamp');
  if (before.deletionTimestamp !== undefined) metadata['deletionTimestamp'] = before.deletionTimestamp;
  if (before.deletionGracePeriodSeconds !== undefined) metadata['deletionGracePeriodSeconds'] ??= before.deletionGracePeriodSeconds;
  if (subresource) {
    if (metadata['generation'] === undefined || !generationOfRules(object, old)) restore(metadata, before, 'generation');
    return { ...object, metadata: metadata as ObjectMeta };
  }
  restore(metadata, before, 'generation');
  const { generation } = strategy;
  if (generation !== undefined && generation !== false) {
    const changed = generation === true ? !jsonEqual(part(object, 'spec'), part(old, 'spec')) : generation(object, old);
    if (changed) metadata['generation'] = (before.generation ?? 0) + 1;
  }
  return { ...object, metadata: metadata as ObjectMeta };
}

/** A subresource that changes the spec has counted it. */
function generationOfRules(object: KubeObject, old: KubeObject): boolean {
  return object.metadata?.generation === (old.metadata?.generation ?? 0) + 1 && !jsonEqual(part(object, 'spec'), part(old, 'spec'));
}

function restore(metadata: Record<string, unknown>, before: ObjectMeta, name: keyof ObjectMeta): void {
  if (before[name] === undefined || before[name] === null) delete metadata[name];
  else metadata[name] = before[name];
}

/** KEP-1929 and upstream's registries: deletion has begun, and something still holds the object. */
export function markDeleting(object: KubeObject, deletionTimestamp: string, graceSeconds: number | undefined): KubeObject {
  const { metadata } = object;
  const begins = metadata?.deletionTimestamp === undefined;
  return withMeta(object, {
    deletionTimestamp,
    ...(graceSeconds !== undefined && { deletionGracePeriodSeconds: graceSeconds }),
    ...(begins && (metadata?.generation ?? 0) > 0 && { generation: (metadata?.generation ?? 0) + 1 }),
  });
}
