import { emptySet, type FieldSet } from '../field-set.ts';
import type { Field, FieldType, ListType, MapType } from '../field-type.ts';
import { listItemToPathElement, ListItemError } from './list-items.ts';
import { asList, asMap, equalAsDecoded, formOf, isEmptyMap, ownMember, isShown, type Members } from './typed-value.ts';

/**
 * Returns true if a new object sets exactly these paths: those that `compareTyped` reports as added or modified compared to an empty object.
 * Allocates nothing, because objects are often created alike.
 */
export function isFieldSetOfNewObject(type: FieldType, object: unknown, set: FieldSet, ignored?: FieldSet): boolean {
  const map = asMap(object);
  return map !== undefined && type.map !== undefined && freshMap(type.map, map, set, ignored);
}

/** Visits a struct that exists although the JSON may omit it: its fields are members, the struct is not. */
function freshMap({ fields, values }: MapType, map: Members, set: FieldSet, ignored: FieldSet | undefined): boolean {
  let [members, children] = [0, 0];
  for (const key in map) {
    const field = fields.get(key);
    const element = field?.element ?? `f:${key}`;
    if (ignored !== undefined && ignored.members.has(element)) continue;
    const value = field === undefined ? map[key] : isShown(field, map[key]);
    const type = field?.type ?? values;
    if (type === undefined || value === undefined || (field !== undefined && value === field.standing)) continue;
    const child = set.children.get(element);
    const below = ignored?.children.get(element);
    if (child !== undefined) children++;
    if (field === undefined || field.standing === undefined) {
      if (!set.members.has(element)) return false;
      members++;
      if (!isSetOfValue(type, value, child ?? emptySet, below)) return false;
    } else {
      const member = standing(field, value, child ?? emptySet, below);
      if (member === undefined || member !== set.members.has(element)) return false;
      if (member) members++;
    }
  }
  return members === set.members.size && children === set.children.size;
}

/** Returns whether a non-omitted field is itself a member; undefined if the paths below it differ from the set. */
function standing(field: Field, value: unknown, set: FieldSet, ignored: FieldSet | undefined): boolean | undefined {
  const { type, standing: before } = field;
  const form = formOf(type, value);
  if (form !== formOf(type, before)) return undefined; // rare: the caller falls back to compareTyped
  if (form === 'map' && type.map !== undefined && !type.map.atomic) {
    const map = asMap(value);
    if (map !== undefined && !isEmptyMap(map)) {
      if (before !== null) return freshMap(type.map, map, set, ignored) ? false : undefined;
      return everythingInMap(type.map, map, set, ignored) ? false : undefined;
    }
  } else if (form === 'list' && type.list !== undefined && type.list.relation !== 'atomic') {
    const items = asList(value) ?? [];
    if (items.length > 0) return everythingInList(type.list, items, set, ignored) ? false : undefined;
  }
  return set.empty ? !equalAsDecoded(type, before, value) : undefined;
}

/** Returns true if the set contains exactly the paths below an added value. */
function isSetOfValue(type: FieldType, value: unknown, set: FieldSet, ignored: FieldSet | undefined): boolean {
  if (typeof value !== 'object' || value === null) return set.empty;
  const form = formOf(type, value);
  if (form === 'map' && type.map !== undefined && !type.map.atomic) {
    const map = asMap(value);
    return map === undefined ? set.empty : everythingInMap(type.map, map, set, ignored);
  }
  if (form !== 'list' || type.list === undefined || type.list.relation === 'atomic') return set.empty;
  return everythingInList(type.list, asList(value) ?? [], set, ignored);
}

function everythingInMap(
  { fields, values, standing: always }: MapType,
  map: Members,
  set: FieldSet,
  ignored: FieldSet | undefined,
): boolean {
  let [members, children] = [0, 0];
  const visit = (element: string, type: FieldType, value: unknown): boolean => {
    if (ignored !== undefined && ignored.members.has(element)) return true;
    if (!set.members.has(element)) return false;
    members++;
    const child = set.children.get(element);
    if (child !== undefined) children++;
    return isSetOfValue(type, value, child ?? emptySet, ignored?.children.get(element));
  };
  for (const key in map) {
    const field = fields.get(key);
    if (field !== undefined) {
      const value = isShown(field, map[key]);
      if (value !== undefined && !visit(field.element, field.type, value)) return false;
    } else if (values !== undefined && !visit(`f:${key}`, values, map[key])) return false;
  }
  for (const field of always)
    if (ownMember(map, field.name) === undefined && !visit(field.element, field.type, field.standing)) return false;
  return members === set.members.size && children === set.children.size;
}

function everythingInList(list: ListType, items: readonly unknown[], set: FieldSet, ignored: FieldSet | undefined): boolean {
  if (items.length !== set.members.size) return false; // also if items have no identity or are duplicates
  let children = 0;
  for (const item of items) {
    const element = listItemToPathElement(list, item);
    if (element instanceof ListItemError || ignored?.members.has(element) === true || !set.members.has(element)) return false;
    const child = set.children.get(element);
    if (child !== undefined) children++;
    if (!isSetOfValue(list.items, item, child ?? emptySet, ignored?.children.get(element))) return false;
  }
  return children === set.children.size;
}
