import type { KubeObject } from '../../object.ts';
import { emptySet, type FieldSet } from '../field-set.ts';
import type { FieldType } from '../field-type.ts';
import type { ManagedKind } from '../managed-kind.ts';
import { managerId, type Manager, type Managers } from '../managers.ts';
import { toFieldSet, ensureNamedFieldsAreMembers } from './typed-field-set.ts';
import { mergeTyped, removeTyped } from '../typed-merge.ts';
import { metadataField, stripSet } from '../strip-meta.ts';
import { Changes, reconcileManagers, removeFromOtherManagers } from './update-managers.ts';

/**
 * Work in steps, each of which takes long for a large object: the caller can do other work between them.
 */
export type Steps<T> = Generator<undefined, T, undefined>;

/**
 * Merges an apply configuration into an object, removes fields that the manager applied before and that no manager owns now, and returns the object
 * with its managers.
 * @param live the current object; `{}` on create
 * @throws FieldConflicts if other managers own changed fields and the apply is not forced
 */
export function* applyConfiguration(
  kind: ManagedKind,
  live: KubeObject,
  config: KubeObject,
  managers: Managers,
  name: string,
  force: boolean,
  time: string,
): Steps<{ readonly object: KubeObject; readonly managers: Managers }> {
  const { apiVersion, subresource } = kind;
  const type = kind.typeOf(apiVersion);
  if (type === undefined) throw new Error(`no fields are known of ${apiVersion} ${kind.kind}`);
  const known = new Map(reconcileManagers(kind, managers));
  const manager = { manager: name, operation: 'Apply', apiVersion, subresource } as const;
  const id = managerId(manager);
  const last = known.get(id);
  const whole = toFieldSet(type, config);
  yield;
  const set = whole.recursiveDifference(kind.resetFields(apiVersion)).difference(metadataField);
  // an equal set keeps its cached encoding, and the manager gives up no field
  const isSame = last !== undefined && last.set.equals(set);
  known.set(id, { ...manager, time, set: isSame ? last.set : set });
  yield;
  const merged = mergeTyped(type, live, config) as KubeObject;
  yield;
  let object = merged;
  if (last !== undefined && !isSame && !last.set.empty) {
    // the configuration keeps its name and other metadata without a manager, even if it keeps nothing else below `metadata`
    const owners = new Map(known).set(id, { ...manager, time, set: set.union(whole.intersection(stripSet)) });
    object = yield* prune(kind, merged, owners, last);
  }
  const changes = new Changes(kind, { before: live, after: object, literal: true });
  for (const each of new Set([...known.values()].map((other) => other.apiVersion))) {
    changes.in(each);
    yield;
  }
  const updated = removeFromOtherManagers(known, changes, id, force);
  if (set.empty) updated.delete(id);
  return { object, managers: updated };
}

/** Removes from the merged object the fields of `last` that neither the new configuration nor another manager owns. */
function* prune(kind: ManagedKind, merged: KubeObject, managers: Managers, last: Manager): Steps<KubeObject> {
  const type = kind.typeOf(last.apiVersion);
  if (type === undefined) return merged;
  const had = last.set.recursiveDifference(kind.resetFields(last.apiVersion));
  const whole = kind.convert(merged, last.apiVersion);
  const gone = ensureNamedFieldsAreMembers(type, had);
  yield;
  let pruned = removeFields(type, whole, gone);
  yield;
  pruned = yield* withOwned(kind, whole, pruned, managers, last.apiVersion);
  yield;
  pruned = kind.convert(pruned, last.apiVersion);
  // fields that the manager did not own before stay
  const all = allPaths(type, whole);
  yield;
  const kept = allPaths(type, pruned);
  yield;
  const lost = all.difference(kept).intersection(gone);
  yield;
  return kind.convert(removeFields(type, whole, lost), kind.apiVersion);
}

/** Restores fields that pruning removed although a manager owns them in any API version. */
function* withOwned(kind: ManagedKind, merged: KubeObject, pruned: KubeObject, managers: Managers, first: string): Steps<KubeObject> {
  const owned = new Map<string, FieldSet>();
  if ([...managers.values()].some(({ apiVersion }) => apiVersion === first)) owned.set(first, emptySet);
  for (const { apiVersion, set } of managers.values()) owned.set(apiVersion, (owned.get(apiVersion) ?? emptySet).union(set));
  let rest = pruned;
  for (const [apiVersion, set] of owned) {
    const type = kind.typeOf(apiVersion);
    if (type === undefined) continue;
    const whole = kind.convert(merged, apiVersion);
    const paths = allPaths(type, kind.convert(rest, apiVersion));
    yield;
    const kept = paths.union(ensureNamedFieldsAreMembers(type, set));
    yield;
    const all = allPaths(type, whole);
    yield;
    rest = removeFields(type, whole, all.difference(kept));
  }
  return rest;
}

/** Returns every path of an object in the form in which apply configurations own them, and the structs above each path. */
const allPaths = (type: FieldType, object: KubeObject): FieldSet => ensureNamedFieldsAreMembers(type, toFieldSet(type, object));

function removeFields(type: FieldType, object: KubeObject, set: FieldSet): KubeObject {
  return set.empty ? object : ((removeTyped(type, object, set) as KubeObject | undefined) ?? {});
}
