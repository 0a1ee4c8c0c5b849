import type { KubeObject } from '../object.ts';
import { FieldConflicts, type FieldConflict } from './conflict.ts';
import type { FieldSet } from './field-set.ts';
import { sharedSet } from './fields-v1.ts';
import type { ManagedKind } from './managed-kind.ts';
import { managerId, withSet, type Manager, type Managers } from './managers.ts';
import { compareTyped, type Comparison } from './typed-compare.ts';
import { reconciled } from './typed-fields.ts';

/** The most entries of updates that an object keeps apart; older ones become one. */
const maxUpdaters = 10;
const oldUpdaters = 'ancient-changes';
/** Who writes without a name. */
const unnamed = 'unknown';

export interface Write {
  readonly before: KubeObject;
  readonly after: KubeObject;
  /** The new object is a merged configuration: it has the fields that it shows. */
  readonly literal: boolean;
}

/** What a write changes, in each version in which fields of the object are managed. */
export class Changes {
  readonly #kind: ManagedKind;
  readonly #write: Write;
  readonly #byVersion = new Map<string, Comparison | undefined>();

  constructor(kind: ManagedKind, write: Write) {
    this.#kind = kind;
    this.#write = write;
  }

  /** Undefined when there is no such version. */
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
    const ignored = this.#kind.resets(apiVersion);
    if (apiVersion === this.#kind.apiVersion) return compareTyped(type, before, after, { ignored, literal });
    const empty = Object.keys(before).length === 0;
    return compareTyped(type, empty ? before : this.#kind.convert(before, apiVersion), this.#kind.convert(after, apiVersion), { ignored });
  }
}

/**
 * Takes from the others what a write changes or removes.
 * @param self whose write it is: not among those who lose. Undefined when it is no applier's.
 * @throws FieldConflicts when others manage what changes, unless forced
 */
export function takeFromOthers(managers: Managers, changes: Changes, self: string | undefined, force: boolean): Map<string, Manager> {
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
      const taken = manager.set.intersection(modified.union(added));
      for (const path of taken.paths()) conflicts.push({ manager, path });
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

/** What fields a schema has made atomic since are owned as a whole. */
export function reconciledManagers(kind: ManagedKind, managers: Managers): Managers {
  if (!kind.evolves) return managers;
  const result = new Map<string, Manager>();
  for (const [id, manager] of managers) {
    const type = kind.typeOf(manager.apiVersion);
    result.set(id, type === undefined ? manager : withSet(manager, reconciled(type, manager.set)));
  }
  return result;
}

/**
 * The managers after an update that one of them made.
 * @param changed what it added or modified, in the version of the kind
 */
export function updatedManagers(
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
  if (managers.size === 1 && before !== undefined && !kind.evolves && !changed.empty && changesOwn(changes.in(apiVersion), changed, before))
    return new Map([[id, before.time === time ? before : { ...before, time, entry: undefined }]]);
  const taken = takeFromOthers(reconciledManagers(kind, managers), changes, undefined, true);
  if (changed.empty) return taken;
  const rest = taken.get(id)?.set;
  const all = rest === undefined ? changed : rest.union(changed);
  // an equal set keeps its encoding
  const same = before !== undefined && before.set.equals(all) ? before.set : sharedSet(all);
  taken.set(id, before?.set === same && before.time === time ? before : { ...manager, time, set: same });
  return capped(taken);
}

/** Nothing but when it wrote is new about a manager that changes values of fields it has; what renews a lease does so every few seconds. */
function changesOwn(comparison: Comparison | undefined, changed: FieldSet, { set }: Manager): boolean {
  return comparison?.removed.empty === true && set.union(changed) === set;
}

/** What an update added or modified. */
export const changedBy = ({ added, modified }: Comparison): FieldSet => sharedSet(added.union(modified));

/** Merges the oldest updates of a version into one entry until there are few enough. */
function capped(managers: Map<string, Manager>): Managers {
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
