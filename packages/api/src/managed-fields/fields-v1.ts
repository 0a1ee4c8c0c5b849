import { isObject } from '../json.ts';
import { deepFreeze } from '../object.ts';
import { parseElement, sortElements } from './field-path.ts';
import { emptySet, FieldSet, FieldSetDraft } from './field-set.ts';

/** FieldsV1 as JSON: an object per element, `.` where the path that ends there is a member although longer ones are. */
export type FieldsV1 = Readonly<Record<string, unknown>>;

/** Deeper sets are no sets of an object's fields. */
const maxDepth = 110;
const maxShared = 2048;
/** Characters. Longer ones are not remembered: who sends many of them would fill the memory. */
const maxSharedText = 65_536;

const sets = new WeakMap<object, FieldSet>();
const encodings = new WeakMap<FieldSet, FieldsV1>();
/** Of sets that lie below an element which is a member itself. */
const dotted = new WeakMap<FieldSet, FieldsV1>();
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
  const encoded = encode(set, false);
  const fields = set.small ? sharedFields(encoded) : encoded;
  encodings.set(set, fields);
  if (!sets.has(fields)) sets.set(fields, set);
  return fields;
}

/** The one frozen object for FieldsV1 that say the same, as far as it can remember: this one, unless there was one before. */
export function sharedFields(given: FieldsV1): FieldsV1 {
  const text = JSON.stringify(given);
  if (text.length > maxSharedText) return deepFreeze(given);
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

/**
 * An equal set that was met a little while ago, so that what is known of it is found; else one that shares with a set alike what is equal
 * below: what pods of a template own differs in nothing but their addresses.
 */
export function sharedSet(set: FieldSet): FieldSet {
  if (set.empty) return emptySet;
  if (!set.small) return set;
  let like: FieldSet | undefined;
  for (let i = 0; i < recent.length; i++) {
    const other = recent[i] as FieldSet;
    if (other.equals(set)) {
      recent.splice(i, 1);
      recent.unshift(other);
      return other;
    }
    if (like === undefined && alike(other, set)) like = other;
  }
  const shared = like === undefined ? set : sharing(set, like);
  if (recent.length >= maxRecent) recent.pop();
  recent.unshift(shared);
  return shared;
}

function alike(a: FieldSet, b: FieldSet): boolean {
  if (a.children.size !== b.children.size) return false;
  for (const element of a.children.keys()) if (!b.children.has(element)) return false;
  return a.children.size > 0;
}

function sharing(set: FieldSet, like: FieldSet): FieldSet {
  if (set.equals(like)) return like;
  const children = new Map(set.children);
  for (const [element, child] of children) {
    const theirs = like.children.get(element);
    if (theirs !== undefined) children.set(element, sharing(child, theirs));
  }
  return new FieldSet(set.members, children);
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

const leaf: FieldsV1 = Object.freeze({});

/** Frozen in depth. Sets that share something below share its encoding. */
function encode(set: FieldSet, self: boolean): FieldsV1 {
  const before = (self ? dotted : encodings).get(set);
  if (before !== undefined) return before;
  const { members, children } = set;
  const result: Record<string, unknown> = self ? { '.': leaf } : {};
  const elements = [...members];
  for (const element of children.keys()) if (!members.has(element)) elements.push(element);
  sortElements(elements);
  for (const element of elements) {
    const below = children.get(element);
    result[element] = below === undefined ? leaf : encode(below, members.has(element));
  }
  Object.freeze(result);
  if (self) dotted.set(set, result);
  else encodings.set(set, result);
  return result;
}
