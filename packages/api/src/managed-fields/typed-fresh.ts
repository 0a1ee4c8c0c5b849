import { jsonEqual } from '../json.ts';
import { emptySet, type FieldSet } from './field-set.ts';
import type { Field, FieldType, ListType, MapType } from './field-type.ts';
import { itemElement, ItemFault } from './list-items.ts';
import { asList, asMap, formOf, isEmptyMap, ownMember, shown, type Members } from './typed-value.ts';

/**
 * Whether a new object sets exactly these paths: those that `compareTyped` calls added or modified against an empty object. Looks
 * without making anything, for objects that are made alike again and again.
 */
export function setsExactly(type: FieldType, object: unknown, set: FieldSet, ignored?: FieldSet): boolean {
  const map = asMap(object);
  return map !== undefined && type.map !== undefined && freshMap(type.map, map, set, ignored);
}

/** A struct that is there without being shown: it is no member, its fields are. */
function freshMap({ fields, values }: MapType, map: Members, set: FieldSet, ignored: FieldSet | undefined): boolean {
  let [members, children] = [0, 0];
  for (const key in map) {
    const field = fields.get(key);
    const element = field?.element ?? `f:${key}`;
    if (ignored !== undefined && ignored.members.has(element)) continue;
    const value = field === undefined ? map[key] : shown(field, map[key]);
    const type = field?.type ?? values;
    if (type === undefined || value === undefined || (field !== undefined && value === field.standing)) continue;
    const child = set.children.get(element);
    const below = ignored?.children.get(element);
    if (child !== undefined) children++;
    if (field === undefined || field.standing === undefined) {
      if (!set.members.has(element)) return false;
      members++;
      if (!everything(type, value, child ?? emptySet, below)) return false;
    } else {
      const member = standing(field, value, child ?? emptySet, below);
      if (member === undefined || member !== set.members.has(element)) return false;
      if (member) members++;
    }
  }
  return members === set.members.size && children === set.children.size;
}

/** Whether a field that objects have without showing it is set itself; undefined when what is below it is not what the set says. */
function standing(field: Field, value: unknown, set: FieldSet, ignored: FieldSet | undefined): boolean | undefined {
  const { type, standing: before } = field;
  const form = formOf(type, value);
  if (form !== formOf(type, before)) return undefined; // seldom: left to those who compare
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
  return set.empty ? !jsonEqual(before, value) : undefined;
}

/** Whether everything below a value that was not there is what the set says. */
function everything(type: FieldType, value: unknown, set: FieldSet, ignored: FieldSet | undefined): boolean {
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
    return everything(type, value, child ?? emptySet, ignored?.children.get(element));
  };
  for (const key in map) {
    const field = fields.get(key);
    if (field !== undefined) {
      const value = shown(field, map[key]);
      if (value !== undefined && !visit(field.element, field.type, value)) return false;
    } else if (values !== undefined && !visit(`f:${key}`, values, map[key])) return false;
  }
  for (const field of always)
    if (ownMember(map, field.name) === undefined && !visit(field.element, field.type, field.standing)) return false;
  return members === set.members.size && children === set.children.size;
}

function everythingInList(list: ListType, items: readonly unknown[], set: FieldSet, ignored: FieldSet | undefined): boolean {
  if (items.length !== set.members.size) return false; // also where items have no path or are there twice
  let children = 0;
  for (const item of items) {
    const element = itemElement(list, item);
    if (element instanceof ItemFault || ignored?.members.has(element) === true || !set.members.has(element)) return false;
    const child = set.children.get(element);
    if (child !== undefined) children++;
    if (!everything(list.items, item, child ?? emptySet, ignored?.children.get(element))) return false;
  }
  return children === set.children.size;
}
