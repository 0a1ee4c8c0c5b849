import { isObject } from '../../json/json.ts';
import { keyElement, valueElement, type PathElement } from './field-path.ts';
import type { ListType } from '../field-type.ts';

/** Why a list item has no path. */
export class ListItemError {
  readonly message: string;
  constructor(message: string) {
    this.message = message;
  }
}

/** Returns the path element of an item of a list of type set or map. */
export function listItemToPathElement(list: ListType, item: unknown): PathElement | ListItemError {
  return list.relation === 'map' ? keyed(list, item) : inSet(item);
}

function inSet(item: unknown): PathElement | ListItemError {
  if (item === null || item === undefined) return new ListItemError("associative list without keys has an element that's an explicit null");
  if (Array.isArray(item)) return new ListItemError('not supported: associative list with lists as elements');
  if (typeof item === 'object') return new ListItemError("associative list without keys has an element that's a map type");
  return valueElement(item);
}

function keyed({ keys, items }: ListType, item: unknown): PathElement | ListItemError {
  if (item === null || item === undefined) return new ListItemError('associative list with keys may not have a null element');
  if (!isObject(item)) return new ListItemError('associative list with keys may not have non-map elements');
  const [only] = keys;
  if (keys.length === 1 && only !== undefined && typeof item[only] === 'string') return `k:{"${only}":${JSON.stringify(item[only])}}`;
  const found: [string, unknown][] = [];
  for (const key of keys) {
    const value = Object.hasOwn(item, key) ? item[key] : undefined;
    const keyValue = value === undefined || value === null ? items.map?.fields.get(key)?.keyDefault : value;
    if (keyValue !== undefined) found.push([key, keyValue]);
  }
  return found.length === 0
    ? new ListItemError(
        `associative list with keys has an element that omits all key fields [${keys.map((key) => JSON.stringify(key)).join(' ')}] (and doesn't have default values for any key fields)`,
      )
    : keyElement(found);
}

/** Groups items by path element, in order of first appearance; items without path are omitted. */
export function itemsByElement(list: ListType, items: readonly unknown[] | undefined): Map<PathElement, unknown[]> {
  const found = new Map<PathElement, unknown[]>();
  for (const item of items ?? []) {
    const element = listItemToPathElement(list, item);
    if (element instanceof ListItemError) continue;
    const others = found.get(element);
    if (others === undefined) found.set(element, [item]);
    else others.push(item);
  }
  return found;
}
