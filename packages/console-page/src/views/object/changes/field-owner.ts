import type { ManagedFieldsEntry } from '../../../api/client.ts';

type FieldSet = Readonly<Record<string, unknown>>;

/**
 * Returns the manager that owns a field of an object, the latest of several; undefined for a field without an owner.
 * @param path the keys and indexes from the object to the field
 */
export function ownerOf(
  entries: readonly ManagedFieldsEntry[],
  object: unknown,
  path: readonly (string | number)[],
): ManagedFieldsEntry | undefined {
  return entries
    .filter(({ fieldsV1 = {} }) => owns(fieldsV1, object, path))
    .toSorted((a, b) => ((a.time ?? '') < (b.time ?? '') ? 1 : -1))[0];
}

/** Returns true if a field set in the format FieldsV1 contains the field, or a part of it, or a value that is owned as a whole and contains it. */
function owns(fields: FieldSet, value: unknown, [key, ...rest]: readonly (string | number)[]): boolean {
  if (key === undefined) return true;
  const members = Object.keys(fields).filter((member) => member !== '.');
  if (members.length === 0) return true; // a leaf
  const item = (value as Readonly<Record<string | number, unknown>> | undefined)?.[key];
  const inner = typeof key === 'string' ? fields[`f:${key}`] : itemSet(fields, item, key);
  return typeof inner === 'object' && inner !== null && owns(inner as FieldSet, item, rest);
}

/** Returns the set of a list item: by the values of its keys, by its value, or by its index. */
function itemSet(fields: FieldSet, item: unknown, index: number): unknown {
  const byKeys = Object.keys(fields).find((member) => member.startsWith('k:') && hasKeys(item, member.slice(2)));
  return fields[byKeys ?? `v:${JSON.stringify(item)}`] ?? fields[`i:${index}`];
}

function hasKeys(item: unknown, json: string): boolean {
  if (typeof item !== 'object' || item === null) return false;
  const keys = JSON.parse(json) as Readonly<Record<string, unknown>>;
  return Object.entries(keys).every(([name, value]) => (item as Readonly<Record<string, unknown>>)[name] === value);
}
