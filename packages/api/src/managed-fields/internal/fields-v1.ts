import { isObject } from '../../json/json.ts';
import { deepFreeze } from '../../object.ts';
import { parseElement, sortElements } from './field-path.ts';
import { emptySet, FieldSet, FieldSetBuilder } from '../field-set.ts';

/** FieldsV1 in JSON: an object with one member per path element. The member `.` means that the path itself is in the set. */
export type FieldsV1 = Readonly<Record<string, unknown>>;

/** Maximum depth of a decoded set; valid sets of object fields are not deeper. */
const maxDepth = 110;
const maxShared = 2048;
/** Characters. Longer texts are not cached, so that clients cannot fill the memory with them. */
const maxSharedText = 65_536;

const sets = new WeakMap<object, FieldSet>();
const encodings = new WeakMap<FieldSet, FieldsV1>();
/** Encodings with `.`: of sets below an element that is itself a member. */
const dotted = new WeakMap<FieldSet, FieldsV1>();
const texts = new WeakMap<object, string>();
/** Encodings by their JSON: objects created alike have equal field sets and share one encoding and one decoded set. */
const shared = new Map<string, FieldsV1>();

/** Decodes FieldsV1, using a cache; returns undefined if it is invalid. */
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
  const draft = new FieldSetBuilder();
  for (const key of Object.keys(fields)) {
    if (key === '.') continue; // marks this element; the parent handles it
    const element = parseElement(key);
    const value = fields[key];
    if (element === undefined || !isObject(value)) return undefined;
    const below = decode(value, depth + 1);
    if (below === undefined) return undefined;
    if (below.empty || Object.hasOwn(value, '.')) draft.add(element);
    draft.put(element, below);
  }
  return draft.build();
}

/** Returns the FieldsV1 of a set, frozen. Equal sets share one cached object. */
export function encodeFields(set: FieldSet): FieldsV1 {
  const known = encodings.get(set);
  if (known !== undefined) return known;
  const encoded = encode(set, false);
  const fields = set.small ? sharedFields(encoded) : encoded;
  encodings.set(set, fields);
  if (!sets.has(fields)) sets.set(fields, set);
  return fields;
}

/** Returns the cached object that is equal to this FieldsV1. If there is none, caches and returns the argument. */
export function sharedFields(fieldsV1: FieldsV1): FieldsV1 {
  const text = JSON.stringify(fieldsV1);
  if (text.length > maxSharedText) return deepFreeze(fieldsV1);
  let fields = shared.get(text);
  if (fields === undefined) {
    fields = deepFreeze(fieldsV1);
    texts.set(fields, text);
    const [oldest] = shared.keys();
    if (shared.size >= maxShared && oldest !== undefined) shared.delete(oldest);
  } else shared.delete(text);
  shared.set(text, fields); // most recently used last
  return fields;
}

const maxRecent = 32;
/** The recently used sets, most recent first. */
const recent: FieldSet[] = [];

/**
 * Returns a recently used set equal to this one, so that caches by identity hit. Otherwise shares equal subtrees with a similar recent set:
 * pods of one template differ only in their addresses.
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
  const shared = like === undefined ? set : shareStructure(set, like);
  if (recent.length >= maxRecent) recent.pop();
  recent.unshift(shared);
  return shared;
}

function alike(a: FieldSet, b: FieldSet): boolean {
  if (a.children.size !== b.children.size) return false;
  for (const element of a.children.keys()) if (!b.children.has(element)) return false;
  return a.children.size > 0;
}

function shareStructure(set: FieldSet, like: FieldSet): FieldSet {
  if (set.equals(like)) return like;
  const children = new Map(set.children);
  for (const [element, child] of children) {
    const theirs = like.children.get(element);
    if (theirs !== undefined) children.set(element, shareStructure(child, theirs));
  }
  return new FieldSet(set.members, children);
}

/** Returns the JSON of FieldsV1 that this module encoded or decoded; it is cached. */
export function fieldsText(fields: object): string {
  let text = texts.get(fields);
  if (text === undefined) {
    text = JSON.stringify(fields);
    if (Object.isFrozen(fields)) texts.set(fields, text);
  }
  return text;
}

const leaf: FieldsV1 = Object.freeze({});

/** Encodes a set, deeply frozen. Sets that share subtrees share their encodings. */
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
