import { isObject, jsonEqual } from '../../json/json.ts';
import type { Field, FieldType, MapType } from '../field-type.ts';

export type Form = 'scalar' | 'list' | 'map';
export type Members = Readonly<Record<string, unknown>>;

/** Returns the form (scalar, list or map) as which a value of the type is merged. */
export function formOf(type: FieldType, value: unknown): Form {
  if (Array.isArray(value)) {
    if (type.list !== undefined) return 'list';
  } else if (typeof value === 'object' && value !== null) {
    if (type.map !== undefined) return 'map';
  } else if (value !== null && type.scalar !== undefined) return 'scalar';
  return type.map !== undefined ? 'map' : type.scalar !== undefined ? 'scalar' : 'list';
}

export const asMap = (value: unknown): Members | undefined => (isObject(value) ? value : undefined);
export const asList = (value: unknown): readonly unknown[] | undefined => (Array.isArray(value) ? (value as unknown[]) : undefined);

export function isEmptyMap(map: Members | undefined): boolean {
  if (map === undefined) return true;
  for (const _ in map) return false;
  return true;
}

/** Returns a member as Go decodes it: undefined for an empty omitempty field, the zero value for an absent field that always exists in Go. */
export function isShown(field: Field, value: unknown): unknown {
  if (value === undefined) return field.standing;
  // without a Go type, null is a value
  if (value === null) return field.standing ?? (field.omitsZero ? undefined : null);
  if (!field.omitsZero) return value;
  if (typeof value === 'object') {
    if (Array.isArray(value)) return value.length === 0 ? field.standing : value;
    return isEmptyMap(value as Members) ? field.standing : value;
  }
  return value === '' || value === 0 || value === false ? undefined : value;
}

export function ownMember(map: Members | undefined, key: string): unknown {
  return map !== undefined && Object.hasOwn(map, key) ? map[key] : undefined;
}

/** Returns true if two values are equal as Go decodes them: in a struct, an absent field equals its empty value. */
export function equalAsDecoded(type: FieldType, a: unknown, b: unknown): boolean {
  if (jsonEqual(a, b)) return true;
  const { list, map } = type;
  if (list !== undefined && Array.isArray(a) && Array.isArray(b))
    return a.length === b.length && a.every((item, i) => equalAsDecoded(list.items, item, b[i]));
  return map !== undefined && isObject(a) && isObject(b) && equalMembers(map, a, b);
}

function equalMembers({ fields, values }: MapType, a: Members, b: Members): boolean {
  return Object.keys({ ...a, ...b }).every((key) => {
    const field = fields.get(key);
    const [left, right] = [ownMember(a, key), ownMember(b, key)];
    if (field === undefined) return values === undefined ? jsonEqual(left, right) : equalAsDecoded(values, left, right);
    return equalAsDecoded(field.type, isShown(field, left), isShown(field, right));
  });
}
