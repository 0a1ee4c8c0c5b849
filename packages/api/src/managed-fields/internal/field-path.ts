import { parseExact, stringifyExact } from '../../json/exact-json.ts';
import { isObject } from '../../json/json.ts';

/**
 * One step from a value to a value inside it, in FieldsV1 notation: `f:name` for a member, `k:{"name":"x"}` for a list item by its
 * keys, `v:"x"` for an item of a set, `i:0` for one by its index. Equal steps are equal strings: keys are sorted, JSON has no spaces.
 */
export type PathElement = string;

type Scalar = string | number | bigint | boolean | null;

export const fieldElement = (name: string): PathElement => `f:${name}`;
export const valueElement = (value: unknown): PathElement => `v:${stringifyExact(value)}`;

/** Returns the path element of a list item with these keys. @param keys names and values, sorted by name */
export function keyElement(keys: readonly (readonly [name: string, value: unknown])[]): PathElement {
  let text = 'k:{';
  for (const [name, value] of keys) text += `${text.length === 3 ? '' : ','}${JSON.stringify(name)}:${stringifyExact(value)}`;
  return `${text}}`;
}

/** Returns the canonical form of a path element that a client sent; undefined if it is invalid. */
export function parseElement(text: string): PathElement | undefined {
  const rest = text.slice(2);
  switch (text.slice(0, 2)) {
    case 'f:':
      return text;
    case 'i:':
      return /^-?\d{1,10}$/.test(rest) ? text : undefined;
    case 'v:': {
      const value = parsed(rest);
      return value === undefined ? undefined : valueElement(value);
    }
    case 'k:': {
      const value = parsed(rest);
      return isObject(value)
        ? keyElement(
            Object.keys(value)
              .sort()
              .map((name) => [name, value[name]] as const),
          )
        : undefined;
    }
    default:
      return undefined;
  }
}

function parsed(text: string): unknown {
  try {
    return parseExact(text);
  } catch {
    return undefined; // invalid JSON
  }
}

/** Formats a path element as in conflict and error messages: `.spec`, `[name="x"]`, `[="x"]`, `[0]`. */
export function elementText(element: PathElement): string {
  const rest = element.slice(2);
  switch (element[0]) {
    case 'f':
      return `.${rest}`;
    case 'k': {
      const keys = parseExact(rest) as Readonly<Record<string, unknown>>;
      return `[${Object.keys(keys)
        .map((name) => `${name}=${goValue(keys[name])}`)
        .join(',')}]`;
    }
    case 'v':
      return `[=${goValue(parseExact(rest))}]`;
    default:
      return `[${rest}]`;
  }
}

export const pathText = (path: readonly PathElement[]): string => path.map(elementText).join('');

const goValue = (value: unknown): string =>
  value === null
    ? 'null'
    : typeof value === 'object'
      ? `{${Object.keys(value)
          .map((key) => `${key}: ${goValue((value as Record<string, unknown>)[key])}`)
          .join('; ')}}`
      : stringifyExact(value);

const ranks: Readonly<Record<string, number>> = { f: 0, k: 1, v: 2, i: 3 };
const decoded = new Map<PathElement, unknown>();
const maxDecoded = 4096;
/** Characters. Longer elements are not cached, to bound the memory. */
const maxDecodedText = 1024;

function valueOf(element: PathElement): unknown {
  let value = decoded.get(element);
  if (value === undefined) {
    value = parseExact(element.slice(2));
    if (element.length > maxDecodedText) return value;
    if (decoded.size >= maxDecoded) decoded.clear();
    decoded.set(element, value);
  }
  return value;
}

/** A path element with the JSON value of list items, which is decoded once for a sort. */
interface DecodedElement {
  readonly element: PathElement;
  readonly value: unknown;
}
const decode = (element: PathElement): DecodedElement => ({
  element,
  value: element.startsWith('k') || element.startsWith('v') ? valueOf(element) : undefined,
});

/** Compares path elements in the order of FieldsV1: members by name, then list items by keys, by value and by index. */
function compareElements({ element: a, value: v }: DecodedElement, { element: b, value: w }: DecodedElement): number {
  if (a === b) return 0;
  const [x, y] = [a[0] ?? '', b[0] ?? ''];
  if (x !== y) return (ranks[x] ?? 4) - (ranks[y] ?? 4);
  if (x === 'f') return a < b ? -1 : 1;
  if (x === 'i') return Number(a.slice(2)) - Number(b.slice(2));
  if (x === 'v') return compareScalars(v as Scalar, w as Scalar);
  const [left, right] = [v, w] as [Readonly<Record<string, Scalar>>, Readonly<Record<string, Scalar>>];
  const [names, others] = [Object.keys(left), Object.keys(right)];
  for (let i = 0; i < names.length && i < others.length; i++) {
    const [name = '', other = ''] = [names[i], others[i]];
    if (name !== other) return name < other ? -1 : 1;
    const order = compareScalars(left[name] ?? null, right[other] ?? null);
    if (order !== 0) return order;
  }
  return names.length - others.length;
}

const isMember = (element: PathElement) => element.startsWith('f:');

/** Sorts in place, in the order of FieldsV1. */
export function sortElements(elements: PathElement[]): void {
  if (elements.length < 2) return;
  // fast path: members sort as plain strings
  if (elements.every(isMember)) {
    elements.sort();
    return;
  }
  const sorted = elements.map(decode).sort(compareElements);
  for (const [i, { element }] of sorted.entries()) elements[i] = element;
}

const kindRank = (value: Scalar): number =>
  typeof value === 'number' || typeof value === 'bigint'
    ? 0
    : typeof value === 'string'
      ? 1
      : typeof value === 'boolean'
        ? 2
        : value === null
          ? 4
          : 3;

function compareScalars(a: Scalar, b: Scalar): number {
  const order = kindRank(a) - kindRank(b);
  if (order !== 0) return order;
  if (a === b || a === null || b === null) return 0;
  if (typeof a === 'object') return JSON.stringify(a) < JSON.stringify(b) ? -1 : 1;
  return a < b ? -1 : 1;
}
