import { isObject } from '../json.ts';
import { deepFreeze, type ManagedFieldsEntry } from '../object.ts';
import type { FieldSet } from './field-set.ts';
import { decodeFields, encodeFields, fieldsText, sharedFields } from './fields-v1.ts';

/** Who manages which fields, by one way of writing, in one version. */
export interface Manager {
  readonly manager: string;
  readonly operation: 'Apply' | 'Update';
  readonly apiVersion: string;
  readonly subresource: string;
  readonly time: string | undefined;
  readonly set: FieldSet;
  /** The entry it was read from, as long as it says the same. */
  readonly entry?: ManagedFieldsEntry | undefined;
}

/** Managers by their identity. */
export type Managers = ReadonlyMap<string, Manager>;

export const noManagers: Managers = new Map();

type Named = Pick<Manager, 'manager' | 'operation' | 'apiVersion' | 'subresource'>;

/** One who applies is the same in every version. */
export function managerId({ manager, operation, apiVersion, subresource }: Named): string {
  return JSON.stringify([manager, operation, operation === 'Apply' ? '' : apiVersion, subresource]);
}

const known = new WeakMap<readonly ManagedFieldsEntry[], Managers>();

/** The managers that an object names; undefined when an entry is none. */
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

/** Applied ones first, then by time, name, version and subresource; frozen. Undefined when there are none. */
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
  const last = lists.get(newest);
  if (last?.length === entries.length && last.every((entry, i) => entry === entries[i])) return last;
  const read = new Map<string, Manager>();
  for (const [i, [id, manager]] of sorted.entries()) {
    const entry = entries[i] as ManagedFieldsEntry;
    read.set(id, manager.entry === entry ? manager : { ...manager, entry });
  }
  // whoever writes the object next need not decode them
  known.set(deepFreeze(entries), read);
  lists.set(newest, entries);
  return entries;
}

/** The last list that was made with an entry as its last one: objects that are written alike at a time share it, too. */
const lists = new WeakMap<ManagedFieldsEntry, readonly ManagedFieldsEntry[]>();

/** The last entry that was made for a set: objects that are made alike at a time share it. */
const made = new WeakMap<FieldSet, ManagedFieldsEntry>();

function encodeEntry(given: Manager): ManagedFieldsEntry {
  if (given.entry !== undefined) return given.entry;
  const { manager, operation, apiVersion, subresource, time, set } = given;
  const last = made.get(set);
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
  made.set(set, Object.freeze(entry));
  return entry;
}

/** The manager with another set; itself when that is the same. */
export function withSet(manager: Manager, set: FieldSet): Manager {
  return set === manager.set ? manager : { ...manager, set, entry: undefined };
}

/** Managers that were just read, with what others say the same of made one with theirs. Changes nothing but what is not frozen. */
export function sharedManagers(entries: readonly ManagedFieldsEntry[]): readonly ManagedFieldsEntry[] {
  return entries.map((entry) => (isObject(entry.fieldsV1) ? { ...entry, fieldsV1: sharedFields(entry.fieldsV1) } : entry));
}

const texts = new WeakMap<object, string>();

/** The JSON of managers, of which most was made before. */
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
