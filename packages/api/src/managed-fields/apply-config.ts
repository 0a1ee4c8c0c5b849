import type { KubeObject } from '../object.ts';
import { emptySet, type FieldSet } from './field-set.ts';
import type { FieldType } from './field-type.ts';
import type { ManagedKind } from './managed-kind.ts';
import { managerId, type Manager, type Managers } from './managers.ts';
import { fieldsOf, withNamedFields } from './typed-fields.ts';
import { mergeTyped, removeTyped } from './typed-merge.ts';
import { metadataItself } from './unmanaged.ts';
import { Changes, reconciledManagers, takeFromOthers } from './update-managers.ts';

/**
 * Lays a configuration over an object, takes away what its manager applied before and nobody wants any more, and says who manages what.
 * @param live `{}` when there is none
 * @throws FieldConflicts
 */
export function applyConfig(
  kind: ManagedKind,
  live: KubeObject,
  config: KubeObject,
  managers: Managers,
  name: string,
  force: boolean,
  time: string,
): { readonly object: KubeObject; readonly managers: Managers } {
  const { apiVersion, subresource } = kind;
  const type = kind.typeOf(apiVersion);
  if (type === undefined) throw new Error(`no fields are known of ${apiVersion} ${kind.kind}`);
  const known = new Map(reconciledManagers(kind, managers));
  const manager = { manager: name, operation: 'Apply', apiVersion, subresource } as const;
  const id = managerId(manager);
  const last = known.get(id);
  const set = fieldsOf(type, config).recursiveDifference(kind.resets(apiVersion)).difference(metadataItself);
  // an equal set keeps its encoding
  known.set(id, { ...manager, time, set: last !== undefined && last.set.equals(set) ? last.set : set });
  const merged = mergeTyped(type, live, config) as KubeObject;
  const object = last === undefined || last.set.empty ? merged : prune(kind, merged, known, last);
  const taken = takeFromOthers(known, new Changes(kind, { before: live, after: object, literal: true }), id, force);
  if (set.empty) taken.delete(id);
  return { object, managers: taken };
}

/** Without what `last` had and nobody has now: neither the new configuration nor another manager. */
function prune(kind: ManagedKind, merged: KubeObject, managers: Managers, last: Manager): KubeObject {
  const type = kind.typeOf(last.apiVersion);
  if (type === undefined) return merged;
  const had = last.set.recursiveDifference(kind.resets(last.apiVersion));
  const whole = kind.convert(merged, last.apiVersion);
  const gone = withNamedFields(type, had);
  let pruned = removed(type, whole, gone);
  pruned = withOwned(kind, whole, pruned, managers, last.apiVersion);
  pruned = kind.convert(pruned, last.apiVersion);
  // what the manager did not have before is not its to remove
  const lost = everything(type, whole).difference(everything(type, pruned)).intersection(gone);
  return kind.convert(removed(type, whole, lost), kind.apiVersion);
}

/** With everything that somebody manages, in whatever version. */
function withOwned(kind: ManagedKind, merged: KubeObject, pruned: KubeObject, managers: Managers, first: string): KubeObject {
  const owned = new Map<string, FieldSet>();
  if ([...managers.values()].some(({ apiVersion }) => apiVersion === first)) owned.set(first, emptySet);
  for (const { apiVersion, set } of managers.values()) owned.set(apiVersion, (owned.get(apiVersion) ?? emptySet).union(set));
  let rest = pruned;
  for (const [apiVersion, set] of owned) {
    const type = kind.typeOf(apiVersion);
    if (type === undefined) continue;
    const whole = kind.convert(merged, apiVersion);
    const kept = everything(type, kind.convert(rest, apiVersion)).union(withNamedFields(type, set));
    rest = removed(type, whole, everything(type, whole).difference(kept));
  }
  return rest;
}

/** Every path of an object, as configurations own them, with the structs on the way. */
const everything = (type: FieldType, object: KubeObject): FieldSet => withNamedFields(type, fieldsOf(type, object));

function removed(type: FieldType, object: KubeObject, set: FieldSet): KubeObject {
  return set.empty ? object : ((removeTyped(type, object, set) as KubeObject | undefined) ?? {});
}
