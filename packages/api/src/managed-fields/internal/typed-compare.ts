import { jsonEqual } from '../../json/json.ts';
import { emptySet, FieldSetBuilder, type FieldSet } from '../field-set.ts';
import type { Field, FieldType, ListType, MapType } from '../field-type.ts';
import { itemsByElement } from './list-items.ts';
import { asList, asMap, equalAsDecoded, formOf, isEmptyMap, ownMember, isShown, type Form, type Members } from './typed-value.ts';
import type { PathElement } from './field-path.ts';

/**
 * The difference between two objects: the paths added, removed and modified. A new value is in `added` with all paths inside of it; `removed`
 * likewise.
 */
export interface Comparison {
  readonly modified: FieldSet;
  readonly added: FieldSet;
  readonly removed: FieldSet;
}

export interface CompareOptions {
  /** The paths to skip, including all paths below them. */
  readonly ignored?: FieldSet | undefined;
  /**
   * True if the new object is a configuration: its fields are exactly those it contains, including empty ones. An empty list differs from a stored
   * null, as in structured-merge-diff, where the nil slice of a Go object is null: applying `[]` over another manager's null conflicts.
   */
  readonly literal?: boolean;
}

export const nothingChanged: Comparison = { modified: emptySet, added: emptySet, removed: emptySet };

/** Compares two objects of the same type. Values that both objects share by reference are skipped. */
export function compareTyped(
  type: FieldType,
  before: unknown,
  after: unknown,
  { ignored, literal = false }: CompareOptions = {},
): Comparison {
  if (before === after) return nothingChanged;
  const walk = new Walk(literal);
  walk.value(type, before, after, ignored);
  return walk.done();
}

class Walk {
  readonly #literal: boolean;
  readonly #path: PathElement[] = [];
  #modified: FieldSetBuilder | undefined;
  #added: FieldSetBuilder | undefined;
  #removed: FieldSetBuilder | undefined;

  constructor(literal: boolean) {
    this.#literal = literal;
  }

  done(): Comparison {
    return {
      modified: this.#modified?.build() ?? emptySet,
      added: this.#added?.build() ?? emptySet,
      removed: this.#removed?.build() ?? emptySet,
    };
  }

  value(type: FieldType, before: unknown, after: unknown, ignored: FieldSet | undefined): void {
    const was = formOf(type, before);
    const is = formOf(type, after);
    this.#as(is, type, before, after, ignored);
    if (was !== is) this.#as(was, type, before, after, ignored);
  }

  #as(form: Form, type: FieldType, before: unknown, after: unknown, ignored: FieldSet | undefined): void {
    if (form === 'map' && type.map !== undefined && !type.map.atomic) {
      const [was, is] = [asMap(before), asMap(after)];
      if (!isEmptyMap(was) || !isEmptyMap(is)) return this.#map(type.map, was, is, ignored);
    } else if (form === 'list' && type.list !== undefined && type.list.relation !== 'atomic') {
      const [was, is] = [asList(before), asList(after)];
      if ((was?.length ?? 0) > 0 || (is?.length ?? 0) > 0) return this.#list(type.list, was, is, ignored);
    }
    if (!equalAsDecoded(type, before, after)) (this.#modified ??= new FieldSetBuilder()).insert(this.#path);
  }

  #map(map: MapType, before: Members | undefined, after: Members | undefined, ignored: FieldSet | undefined): void {
    const { fields, values } = map;
    for (const key in after) {
      const is = after[key];
      const was = ownMember(before, key);
      if (is === was && is !== undefined) continue;
      const field = fields.get(key);
      if (field !== undefined) this.#field(field, was, is, ignored);
      else if (values !== undefined) this.#member(`f:${key}`, values, was, is, ignored);
    }
    for (const key in before) {
      if (ownMember(after, key) !== undefined || before[key] === undefined) continue;
      const field = fields.get(key);
      if (field !== undefined) this.#field(field, before[key], undefined, ignored);
      else if (values !== undefined) this.#member(`f:${key}`, values, before[key], undefined, ignored);
    }
  }

  #field(field: Field, before: unknown, after: unknown, ignored: FieldSet | undefined): void {
    const was = isShown(field, before);
    const is = this.#literal && after !== undefined ? after : isShown(field, after);
    if (was !== is) this.#member(field.element, field.type, was, is, ignored);
  }

  #member(element: PathElement, type: FieldType, before: unknown, after: unknown, ignored: FieldSet | undefined): void {
    if (ignored !== undefined && ignored.members.has(element)) return;
    const below = ignored?.children.get(element);
    if (before === undefined) {
      if (after !== undefined) this.#appear((this.#added ??= new FieldSetBuilder()), element, type, after, below, this.#literal);
      return;
    }
    if (after === undefined) return this.#appear((this.#removed ??= new FieldSetBuilder()), element, type, before, below, false);
    this.#path.push(element);
    this.value(type, before, after, below);
    this.#path.pop();
  }

  #appear(
    draft: FieldSetBuilder,
    element: PathElement,
    type: FieldType,
    value: unknown,
    ignored: FieldSet | undefined,
    literal: boolean,
  ): void {
    this.#path.push(element);
    draft.insert(this.#path);
    draft.graft(this.#path, fieldSetOfValue(type, value, ignored, literal));
    this.#path.pop();
  }

  #list(
    list: ListType,
    before: readonly unknown[] | undefined,
    after: readonly unknown[] | undefined,
    ignored: FieldSet | undefined,
  ): void {
    const was = itemsByElement(list, before);
    const is = itemsByElement(list, after);
    for (const [element, items] of is) this.#item(list, element, was.get(element) ?? [], items, ignored);
    for (const [element, items] of was) if (!is.has(element)) this.#item(list, element, items, [], ignored);
  }

  /** Duplicate items count as one. */
  #item(
    { items }: ListType,
    element: PathElement,
    before: readonly unknown[],
    after: readonly unknown[],
    ignored: FieldSet | undefined,
  ): void {
    if (before.length <= 1 && after.length <= 1) {
      if (before[0] !== after[0]) this.#member(element, items, before[0], after[0], ignored);
      return;
    }
    const insert = (draft: FieldSetBuilder) => {
      draft.insert([...this.#path, element]);
    };
    if (before.length >= 2 && after.length >= 2) {
      if (!jsonEqual(before, after)) insert((this.#modified ??= new FieldSetBuilder()));
    } else if (before.length >= 2) {
      if (after.length > 0) this.#member(element, items, undefined, after[0], ignored);
      insert((this.#removed ??= new FieldSetBuilder()));
    } else {
      if (before.length > 0) this.#member(element, items, before[0], undefined, ignored);
      insert((this.#added ??= new FieldSetBuilder()));
    }
  }
}

/** Returns every path inside a value, including the paths of structs and lists. */
export function fieldSetOfValue(type: FieldType, value: unknown, ignored?: FieldSet, literal = false): FieldSet {
  const form = formOf(type, value);
  if (form === 'map' && type.map !== undefined && !type.map.atomic) {
    const map = asMap(value);
    return map === undefined ? emptySet : everythingInMap(type.map, map, ignored, literal);
  }
  if (form !== 'list' || type.list === undefined || type.list.relation === 'atomic') return emptySet;
  const draft = new FieldSetBuilder();
  const { items } = type.list;
  for (const [element, found] of itemsByElement(type.list, asList(value))) {
    if (ignored?.members.has(element) === true) continue;
    draft.add(element);
    if (found.length === 1) draft.put(element, fieldSetOfValue(items, found[0], ignored?.children.get(element), literal));
  }
  return draft.build();
}

function everythingInMap({ fields, values, standing }: MapType, map: Members, ignored: FieldSet | undefined, literal: boolean): FieldSet {
  const draft = new FieldSetBuilder();
  const add = (element: PathElement, type: FieldType, value: unknown) => {
    if (ignored !== undefined && ignored.members.has(element)) return;
    draft.add(element);
    if (typeof value === 'object' && value !== null)
      draft.put(element, fieldSetOfValue(type, value, ignored?.children.get(element), literal));
  };
  for (const key in map) {
    const field = fields.get(key);
    if (field !== undefined) {
      const value = literal ? map[key] : isShown(field, map[key]);
      if (value !== undefined) add(field.element, field.type, value);
    } else if (values !== undefined) add(`f:${key}`, values, map[key]);
  }
  if (!literal) for (const field of standing) if (ownMember(map, field.name) === undefined) add(field.element, field.type, field.standing);
  return draft.build();
}
