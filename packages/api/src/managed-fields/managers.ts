import { isObject } from '../json/json.ts';
import { deepFreeze, type ManagedFieldsEntry } from '../object.ts';
import type { FieldSet } from './field-set.ts';
import { decodeFields, encodeFields, fieldsText, sharedFields } from './internal/fields-v1.ts';

/** The fields that one manager owns through one operation and one subresource, in one API version (a managedFields entry). */
export interface Manager {
  readonly manager: string;
  readonly operation: 'Apply' | 'Update';
  readonly apiVersion: string;
  readonly subresource: string;
  readonly time: string | undefined;
  readonly set: FieldSet;
  /** The managedFields entry that this manager was decoded from; absent if the manager has changed since. */
  readonly entry?: ManagedFieldsEntry | undefined;
}

/** The managers of an object by `managerId`. */
export type Managers = ReadonlyMap<string, Manager>;

export const noManagers: Managers = new Map();

type Named = Pick<Manager, 'manager' | 'operation' | 'apiVersion' | 'subresource'>;

/** Returns the map key of a manager. Managers with operation Apply have the same key in every API version. */
export function managerId({ manager, operation, apiVersion, subresource }: Named): string {
  return JSON.stringify([manager, operation, operation === 'Apply' ? '' : apiVersion, subresource]);
}

const known = new WeakMap<readonly ManagedFieldsEntry[], Managers>();

/** Decodes `metadata.managedFields`; returns undefined if an entry is invalid. */
export function decodeManagers(entries: unknown): Managers | undefined {
  if (entries === undefined || entries === null) return noManagers;
  if (!Array.isArray(entries)) return undefined;
  if (entries.length === 0) return noManagers;
  const list = entries as readonly ManagedFieldsEntry[];
  const before = known.get(list);
  if (before !== undefined) return before;
  const managers = new Map<string, Manager>();
  for (const entry of list) {
    const manager = decodeEntry(entry);
    if (manager === undefined) return undefined;
    managers.set(managerId(manager), manager);
  }
  if (Object.isFrozen(list)) known.set(list, managers);
  return managers;
}

function decodeEntry(entry: unknown): Manager | undefined {
  if (!isObject(entry)) return undefined;
  const { manager = '', operation, apiVersion, fieldsType, fieldsV1, subresource = '', time } = entry as ManagedFieldsEntry;
  if ((operation !== 'Apply' && operation !== 'Update') || typeof apiVersion !== 'string' || apiVersion === '') return undefined;
  if (fieldsType !== 'FieldsV1') return undefined;
  const set = decodeFields(fieldsV1);
  if (set === undefined) return undefined;
  return { manager, operation, apiVersion, subresource, time, set, entry };
}

const byCodePoint = (a: string, b: string): number => (a === b ? 0 : a < b ? -1 : 1);

/**
 * Encodes managers as a frozen managedFields list: first Apply entries, then by time, name, version and subresource. Returns undefined if
 * there are no managers.
 */
export function encodeManagers(managers: Managers): readonly ManagedFieldsEntry[] | undefined {
  if (managers.size === 0) return undefined;
  const sorted = [...managers];
  if (sorted.length > 1) {
    sorted.sort(
      ([, a], [, b]) =>
        byCodePoint(a.operation, b.operation) ||
        byCodePoint(a.time ?? '', b.time ?? '') ||
        byCodePoint(a.manager, b.manager) ||
        byCodePoint(a.apiVersion, b.apiVersion) ||
        byCodePoint(a.subresource, b.subresource),
    );
  }
  const entries = sorted.map(([, manager]) => encodeEntry(manager));
  const newest = entries.at(-1) as ManagedFieldsEntry;
  const last = lastLists.get(newest);
  if (last?.length === entries.length && last.every((entry, i) => entry === entries[i])) return last;
  const read = new Map<string, Manager>();
  for (const [i, [id, manager]] of sorted.entries()) {
    const entry = entries[i] as ManagedFieldsEntry;
    read.set(id, manager.entry === entry ? manager : { ...manager, entry });
  }
  // the next write of the object finds the decoded managers here
  known.set(deepFreeze(entries), read);
  lastLists.set(newest, entries);
  return entries;
}

/** The last encoded list, by the last entry of the list. Objects that are written alike within the same second share one list. */
const lastLists = new WeakMap<ManagedFieldsEntry, readonly ManagedFieldsEntry[]>();

/** The last encoded entry, by field set. Objects that are created alike within the same second share one entry. */
const lastEntries = new WeakMap<FieldSet, ManagedFieldsEntry>();

function encodeEntry(source: Manager): ManagedFieldsEntry {
  if (source.entry !== undefined) return source.entry;
  const { manager, operation, apiVersion, subresource, time, set } = source;
  const last = lastEntries.get(set);
  if (
    last?.manager === manager &&
    last.time === time &&
    last.operation === operation &&
    last.apiVersion === apiVersion &&
    (last.subresource ?? '') === subresource
  )
    return last;
  const entry: { -readonly [K in keyof ManagedFieldsEntry]: ManagedFieldsEntry[K] } = { manager, operation, apiVersion };
  if (time !== undefined) entry.time = time;
  entry.fieldsType = 'FieldsV1';
  entry.fieldsV1 = encodeFields(set);
  if (subresource !== '') entry.subresource = subresource;
  if (manager === '') delete entry.manager;
  lastEntries.set(set, Object.freeze(entry));
  return entry;
}

/** Returns a copy of the manager that owns the fields of `set`, or `manager` itself if it already has this set. */
export function withSet(manager: Manager, set: FieldSet): Manager {
  return set === manager.set ? manager : { ...manager, set, entry: undefined };
}

/** Returns the managedFields entries of a decoded object, with field sets replaced by equal cached ones. The argument is not changed. */
export function sharedManagers(entries: readonly ManagedFieldsEntry[]): readonly ManagedFieldsEntry[] {
  return entries.map((entry) => (isObject(entry.fieldsV1) ? { ...entry, fieldsV1: sharedFields(entry.fieldsV1) } : entry));
}

const texts = new WeakMap<object, string>();

/** Returns the JSON text of a managedFields list. Frozen entries are serialized once and cached. */
export function managersText(entries: readonly ManagedFieldsEntry[]): string {
  let text = '[';
  for (const [i, entry] of entries.entries()) {
    if (i > 0) text += ',';
    let own = texts.get(entry);
    if (own === undefined) {
      own = entryText(entry);
      if (Object.isFrozen(entry)) texts.set(entry, own);
    }
    text += own;
  }
  return `${text}]`;
}

function entryText(entry: ManagedFieldsEntry): string {
  const { fieldsV1, ...named } = entry;
  const text = JSON.stringify(named);
  if (typeof fieldsV1 !== 'object' || fieldsV1 === null) return JSON.stringify(entry);
  return `${text.slice(0, -1)}${text.length > 2 ? ',' : ''}"fieldsV1":${fieldsText(fieldsV1)}}`;
}
