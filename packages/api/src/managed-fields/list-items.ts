import { isObject } from '../json.ts';
import { keyElement, valueElement, type PathElement } from './field-path.ts';
import type { ListType } from './field-type.ts';

/** Why an item of a list has no path. */
export class ItemFault {
  readonly message: string;
  constructor(message: string) {
    this.message = message;
  }
}

/** The element that leads to an item of a list that is a set or a map. */
export function itemElement(list: ListType, item: unknown): PathElement | ItemFault {
  return list.relation === 'map' ? keyed(list, item) : inSet(item);
}

function inSet(item: unknown): PathElement | ItemFault {
  if (item === null || item === undefined) return new ItemFault("associative list without keys has an element that's an explicit null");
  if (Array.isArray(item)) return new ItemFault('not supported: associative list with lists as elements');
  if (typeof item === 'object') return new ItemFault("associative list without keys has an element that's a map type");
  return valueElement(item);
}

function keyed({ keys, items }: ListType, item: unknown): PathElement | ItemFault {
  if (item === null || item === undefined) return new ItemFault('associative list with keys may not have a null element');
  if (!isObject(item)) return new ItemFault('associative list with keys may not have non-map elements');
  const [only] = keys;
  if (keys.length === 1 && only !== undefined && typeof item[only] === 'string') return `k:{"${only}":${JSON.stringify(item[only])}}`;
  const found: [string, unknown][] = [];
  for (const key of keys) {
    const value = Object.hasOwn(item, key) ? item[key] : undefined;
    const shown = value === undefined || value === null ? items.map?.fields.get(key)?.keyDefault : value;
    if (shown !== undefined) found.push([key, shown]);
  }
  return found.length === 0
    ? new ItemFault(
        `associative list with keys has an element that omits all key fields [${keys.map((key) => JSON.stringify(key)).join(' ')}] (and doesn't have default values for any key fields)`,
      )
    : keyElement(found);
}

/** Items by their elements, in the order of their first appearance; those that have none are left out. */
export function itemsByElement(list: ListType, items: readonly unknown[] | undefined): Map<PathElement, unknown[]> {
  const found = new Map<PathElement, unknown[]>();
  for (const item of items ?? []) {
    const element = itemElement(list, item);
    if (element instanceof ItemFault) continue;
    const others = found.get(element);
    if (others === undefined) found.set(element, [item]);
    else others.push(item);
  }
  return found;
}
