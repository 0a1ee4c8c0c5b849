import { emptySet, FieldSetBuilder, type FieldSet } from '../field-set.ts';
import type { FieldType, ListType, MapType } from '../field-type.ts';
import { itemsByElement } from './list-items.ts';
import { asList, asMap, formOf, isEmptyMap, type Members } from './typed-value.ts';

/**
 * Returns the paths that a configuration sets: leaves, list items and map members. A struct is a member only if it is empty: setting a
 * field of a struct does not make the manager its owner.
 */
export function toFieldSet(type: FieldType, value: unknown): FieldSet {
  switch (formOf(type, value)) {
    case 'map': {
      const map = asMap(value);
      return type.map === undefined || type.map.atomic || map === undefined ? emptySet : inMap(type.map, map);
    }
    case 'list':
      return type.list === undefined || type.list.relation === 'atomic' ? emptySet : inList(type.list, asList(value));
    case 'scalar':
      return emptySet;
  }
}

/** Returns true if nothing below a value has a path of its own. */
function isLeaf(type: FieldType, value: unknown): boolean {
  switch (formOf(type, value)) {
    case 'map':
      return type.map?.atomic === true;
    case 'list':
      return type.list?.relation === 'atomic';
    case 'scalar':
      return true;
  }
}

function inMap({ fields, values }: MapType, map: Members): FieldSet {
  const draft = new FieldSetBuilder();
  for (const key of Object.keys(map)) {
    const value = map[key];
    const field = fields.get(key);
    const type = field?.type ?? values;
    if (type === undefined || value === undefined) continue;
    const element = `f:${key}`;
    if (field === undefined || value === null || isLeaf(type, value) || (asMap(value) !== undefined && isEmptyMap(asMap(value))))
      draft.add(element);
    draft.put(element, toFieldSet(type, value));
  }
  return draft.build();
}

function inList(list: ListType, items: readonly unknown[] | undefined): FieldSet {
  const draft = new FieldSetBuilder();
  for (const [element, found] of itemsByElement(list, items)) {
    draft.add(element);
    if (found.length === 1) draft.put(element, toFieldSet(list.items, found[0]));
  }
  return draft.build();
}

/** Returns the set with every named field on the way to a member. */
export function ensureNamedFieldsAreMembers(type: FieldType, set: FieldSet): FieldSet {
  if (set.children.size === 0) return set;
  const draft = new FieldSetBuilder();
  for (const member of set.members) draft.add(member);
  for (const [element, child] of set.children) {
    const field = element.startsWith('f:') ? type.map?.fields.get(element.slice(2)) : undefined;
    if (field !== undefined) draft.add(element);
    const below = element.startsWith('f:') ? (field?.type ?? type.map?.values) : type.list?.items;
    draft.put(element, below === undefined ? child : ensureNamedFieldsAreMembers(below, child));
  }
  return draft.build();
}

/**
 * Replaces paths inside lists and maps that have become atomic by the path of the list or map (ReconcileFieldSetWithSchema upstream).
 * Returns the same set if it has no such paths.
 */
export function reconcileFieldSetWithSchema(type: FieldType, set: FieldSet): FieldSet {
  let result = set;
  for (const [element, child] of set.children) {
    const below = element.startsWith('f:') ? (type.map?.fields.get(element.slice(2))?.type ?? type.map?.values) : type.list?.items;
    if (below === undefined) continue;
    const atomic = below.scalar === undefined && (below.map?.atomic === true || below.list?.relation === 'atomic');
    const draft = new FieldSetBuilder();
    if (atomic) {
      draft.add(element);
      const whole = draft.build();
      result = result.recursiveDifference(whole).union(whole);
      continue;
    }
    const inner = reconcileFieldSetWithSchema(below, child);
    if (inner === child) continue;
    draft.put(element, inner);
    result = withoutChild(result, element).union(draft.build());
  }
  return result;
}

function withoutChild(set: FieldSet, element: string): FieldSet {
  const draft = new FieldSetBuilder();
  for (const member of set.members) draft.add(member);
  for (const [other, child] of set.children) if (other !== element) draft.put(other, child);
  return draft.build();
}
