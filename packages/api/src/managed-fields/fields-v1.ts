import { isObject } from '../json.ts';
import { deepFreeze } from '../object.ts';
import { compareElements, parseElement } from './field-path.ts';
import { emptySet, FieldSetDraft, type FieldSet } from './field-set.ts';

/** FieldsV1 as JSON: an object per element, `.` where the path that ends there is a member although longer ones are. */
export type FieldsV1 = Readonly<Record<string, unknown>>;

/** Deeper sets are no sets of an object's fields. */
const maxDepth = 110;
const maxShared = 2048;

const sets = new WeakMap<object, FieldSet>();
const encodings = new WeakMap<FieldSet, FieldsV1>();
const texts = new WeakMap<object, string>();
/** Objects that are made alike are owned alike: they share one encoding, and the set read from it. By its JSON. */
const shared = new Map<string, FieldsV1>();

/** The set that FieldsV1 stands for; undefined when it is none. What was decoded before is not decoded again. */
export function decodeFields(fields: unknown): FieldSet | undefined {
  if (fields === undefined || fields === null) return emptySet;
  if (!isObject(fields)) return undefined;
  const known = sets.get(fields);
  if (known !== undefined) return known;
  const set = decode(fields, 0);
  if (set !== undefined && Object.isFrozen(fields)) {
    sets.set(fields, set);
    encodings.set(set, fields);
  }
  return set;
}

function decode(fields: FieldsV1, depth: number): FieldSet | undefined {
  if (depth > maxDepth) return undefined;
  const draft = new FieldSetDraft();
  for (const key of Object.keys(fields)) {
    if (key === '.') continue; // said of this element, by whoever holds it
    const element = parseElement(key);
    const value = fields[key];
    if (element === undefined || !isObject(value)) return undefined;
    const below = decode(value, depth + 1);
    if (below === undefined) return undefined;
    if (below.empty || Object.hasOwn(value, '.')) draft.add(element);
    draft.put(element, below);
  }
  return draft.done();
}

/** The frozen FieldsV1 of a set, one object for equal sets as far as it can remember. */
export function encodeFields(set: FieldSet): FieldsV1 {
  const known = encodings.get(set);
  if (known !== undefined) return known;
  const fields = sharedFields(encode(set, false));
  encodings.set(set, fields);
  if (!sets.has(fields)) sets.set(fields, set);
  return fields;
}

/** The one frozen object for FieldsV1 that say the same, as far as it can remember: this one, unless there was one before. */
export function sharedFields(given: FieldsV1): FieldsV1 {
  const text = JSON.stringify(given);
  let fields = shared.get(text);
  if (fields === undefined) {
    fields = deepFreeze(given);
    texts.set(fields, text);
    const [oldest] = shared.keys();
    if (shared.size >= maxShared && oldest !== undefined) shared.delete(oldest);
  } else shared.delete(text);
  shared.set(text, fields); // the most recent last
  return fields;
}

const maxRecent = 32;
/** The most recent first. */
const recent: FieldSet[] = [];

/** An equal set that was met a little while ago, so that what is known of it is found; else the set itself. */
export function sharedSet(set: FieldSet): FieldSet {
  if (set.empty) return emptySet;
  for (let i = 0; i < recent.length; i++) {
    const other = recent[i] as FieldSet;
    if (!other.equals(set)) continue;
    for (let j = i; j > 0; j--) recent[j] = recent[j - 1] as FieldSet;
    recent[0] = other;
    return other;
  }
  if (recent.length >= maxRecent) recent.pop();
  recent.unshift(set);
  return set;
}

/** The JSON of FieldsV1 that this module gave out or decoded; it is made once. */
export function fieldsText(fields: object): string {
  let text = texts.get(fields);
  if (text === undefined) {
    text = JSON.stringify(fields);
    if (Object.isFrozen(fields)) texts.set(fields, text);
  }
  return text;
}

function encode({ members, children }: FieldSet, self: boolean): Record<string, unknown> {
  const result: Record<string, unknown> = self ? { '.': {} } : {};
  const elements = [...members];
  for (const element of children.keys()) if (!members.has(element)) elements.push(element);
  elements.sort(compareElements);
  for (const element of elements) {
    const below = children.get(element);
    result[element] = below === undefined ? {} : encode(below, members.has(element));
  }
  return result;
}
