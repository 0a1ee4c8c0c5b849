import type { KubeObject } from '../../object.ts';
import { FieldConflicts, type FieldConflict } from './conflict.ts';
import type { FieldSet } from '../field-set.ts';
import { sharedSet } from './fields-v1.ts';
import type { ManagedKind } from '../managed-kind.ts';
import { managerId, withSet, type Manager, type Managers } from '../managers.ts';
import { compareTyped, type Comparison } from './typed-compare.ts';
import { reconcileFieldSetWithSchema } from './typed-field-set.ts';

/** The maximum number of update entries per object and version; older ones are merged (capManagers upstream). */
const maxUpdaters = 10;
const oldUpdaters = 'ancient-changes';
/** The manager name for clients that send no manager name. */
const unnamed = 'unknown';

export interface Write {
  readonly before: KubeObject;
  readonly after: KubeObject;
  /** True if `after` is a merged apply configuration, whose fields are exactly the fields that it contains. */
  readonly literal: boolean;
}

/** The differences between an object before and after a write, computed for each API version in which managers own fields. */
export class Changes {
  readonly #kind: ManagedKind;
  readonly #write: Write;
  readonly #byVersion = new Map<string, Comparison | undefined>();

  constructor(kind: ManagedKind, write: Write) {
    this.#kind = kind;
    this.#write = write;
  }

  /** Returns the fields that the write added, modified or removed, as paths of this API version; undefined if the version does not exist. */
  in(apiVersion: string): Comparison | undefined {
    if (this.#byVersion.has(apiVersion)) return this.#byVersion.get(apiVersion);
    const comparison = this.#compare(apiVersion);
    this.#byVersion.set(apiVersion, comparison);
    return comparison;
  }

  #compare(apiVersion: string): Comparison | undefined {
    const { before, after, literal } = this.#write;
    const type = this.#kind.typeOf(apiVersion);
    if (type === undefined) return undefined;
    const ignored = this.#kind.resetFields(apiVersion);
    if (apiVersion === this.#kind.apiVersion) return compareTyped(type, before, after, { ignored, literal });
    const empty = Object.keys(before).length === 0;
    return compareTyped(type, empty ? before : this.#kind.convert(before, apiVersion), this.#kind.convert(after, apiVersion), { ignored });
  }
}

/**
 * Returns the managers without the fields that a write added, modified or removed.
 * @param self the manager that applies and keeps its fields; undefined if the write is not an apply
 * @throws FieldConflicts if `force` is false and another manager owns an added or modified field
 */
export function removeFromOtherManagers(
  managers: Managers,
  changes: Changes,
  self: string | undefined,
  force: boolean,
): Map<string, Manager> {
  const result = new Map<string, Manager>();
  const conflicts: FieldConflict[] = [];
  for (const [id, manager] of managers) {
    if (id === self) {
      result.set(id, manager);
      continue;
    }
    const comparison = changes.in(manager.apiVersion);
    if (comparison === undefined) continue;
    const { modified, added, removed } = comparison;
    if (!force) {
      const conflicting = manager.set.intersection(modified.union(added));
      for (const path of conflicting.paths()) conflicts.push({ manager, path });
    }
    const set = manager.set.difference(modified).difference(added).difference(removed);
    if (!set.empty) result.set(id, withSet(manager, set));
  }
  if (conflicts.length > 0) throw new FieldConflicts(conflicts.sort(byManager));
  return result;
}

function byManager({ manager: a }: FieldConflict, { manager: b }: FieldConflict): number {
  const [x, y] = [`${a.manager}\0${a.operation}\0${a.apiVersion}`, `${b.manager}\0${b.operation}\0${b.apiVersion}`];
  return x === y ? 0 : x < y ? -1 : 1;
}

/** Replaces fields inside of lists and maps that have become atomic by the path of the list or map. */
export function reconcileManagers(kind: ManagedKind, managers: Managers): Managers {
  if (!kind.mayChangeAtomicity) return managers;
  const result = new Map<string, Manager>();
  for (const [id, manager] of managers) {
    const type = kind.typeOf(manager.apiVersion);
    result.set(id, type === undefined ? manager : withSet(manager, reconcileFieldSetWithSchema(type, manager.set)));
  }
  return result;
}

/**
 * Returns the managers of an object after a write with operation Update.
 * @param changed the fields that the write added or modified, in the API version of the kind
 * @param name the manager of the write
 */
export function updateManagers(
  kind: ManagedKind,
  managers: Managers,
  changes: Changes,
  changed: FieldSet,
  name: string,
  time: string,
): Managers {
  const { apiVersion, subresource } = kind;
  const manager = { manager: name === '' ? unnamed : name, operation: 'Update', apiVersion, subresource } as const;
  const id = managerId(manager);
  const before = managers.get(id);
  if (
    managers.size === 1 &&
    before !== undefined &&
    !kind.mayChangeAtomicity &&
    !changed.empty &&
    changesOwn(changes.in(apiVersion), changed, before)
  )
    return new Map([[id, before.time === time ? before : { ...before, time, entry: undefined }]]);
  const others = removeFromOtherManagers(reconcileManagers(kind, managers), changes, undefined, true);
  if (changed.empty) return others;
  const rest = others.get(id)?.set;
  const all = rest === undefined ? changed : rest.union(changed);
  // an equal set keeps its cached encoding
  const same = before !== undefined && before.set.equals(all) ? before.set : sharedSet(all);
  others.set(id, before?.set === same && before.time === time ? before : { ...manager, time, set: same });
  return capUpdateManagers(others);
}

/**
 * Returns true if the manager changes only values of fields that it already owns and removes none. Only the time of its entry then changes,
 * as for Lease renewals.
 */
function changesOwn(comparison: Comparison | undefined, changed: FieldSet, { set }: Manager): boolean {
  return comparison?.removed.empty === true && set.union(changed) === set;
}

/** Returns the fields that an update added or modified. */
export const changedFields = ({ added, modified }: Comparison): FieldSet => sharedSet(added.union(modified));

/** Merges the oldest Update entries of a version until the object has at most `maxUpdaters` Update entries. */
function capUpdateManagers(managers: Map<string, Manager>): Managers {
  if (managers.size <= maxUpdaters) return managers;
  const updaters = [...managers].filter(([, { operation }]) => operation === 'Update');
  let count = updaters.length;
  if (count <= maxUpdaters) return managers;
  updaters.sort(([a, { time: x = '' }], [b, { time: y = '' }]) => (x === y ? (a < b ? -1 : 1) : x < y ? -1 : 1));
  const first = new Map<string, string>();
  for (const [id, manager] of updaters) {
    if (count <= maxUpdaters) break;
    const { apiVersion } = manager;
    const oldest = first.get(apiVersion);
    if (oldest === undefined) {
      first.set(apiVersion, id);
      continue;
    }
    const bucket = { manager: oldUpdaters, operation: 'Update', apiVersion, subresource: '' } as const;
    const bucketId = managerId(bucket);
    let set = managers.get(bucketId)?.set;
    if (set === undefined) {
      set = managers.get(oldest)?.set ?? manager.set;
      managers.delete(oldest);
    }
    managers.delete(id);
    managers.set(bucketId, { ...bucket, time: manager.time, set: manager.set.union(set) });
    count--;
  }
  return managers;
}
