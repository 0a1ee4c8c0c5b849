import type { PathElement } from './internal/field-path.ts';
import type { FieldSet } from './field-set.ts';
import type { FieldType, ListType, MapType } from './field-type.ts';
import { listItemToPathElement, ListItemError, itemsByElement } from './internal/list-items.ts';
import { asList, asMap, formOf, isEmptyMap, ownMember, type Members } from './internal/typed-value.ts';

/** Returns the live value merged with an applied configuration. The result shares the parts that the configuration does not change. */
export function mergeTyped(type: FieldType, live: unknown, config: unknown): unknown {
  if (config === undefined) return live;
  if (live === undefined) return config;
  const form = formOf(type, config);
  if (form === 'map' && type.map !== undefined && !type.map.atomic) {
    const [was, is] = [asMap(live), asMap(config)];
    if (!isEmptyMap(was) || !isEmptyMap(is)) return mergeMap(type.map, was, is);
  } else if (form === 'list' && type.list !== undefined && type.list.relation !== 'atomic') {
    const [was, is] = [asList(live), asList(config)];
    if ((was?.length ?? 0) > 0 || (is?.length ?? 0) > 0) return mergeList(type.list, was ?? [], is ?? []);
  }
  return config;
}

function mergeMap({ fields, values }: MapType, live: Members | undefined, config: Members | undefined): unknown {
  const result: Record<string, unknown> = { ...live };
  for (const key in config) {
    const type = fields.get(key)?.type ?? values;
    if (type !== undefined) result[key] = mergeTyped(type, ownMember(live, key), config[key]);
  }
  return result;
}

/**
 * Merges two lists of items with identity. Items of one side keep their position relative to their neighbors; items of both sides follow
 * the order of the configuration.
 */
function mergeList(list: ListType, live: readonly unknown[], config: readonly unknown[]): unknown {
  const elementsOf = (items: readonly unknown[]) =>
    items.map((item, i) => {
      const element = listItemToPathElement(list, item);
      return element instanceof ListItemError ? `!${i}` : element; // an item without identity equals no other item
    });
  const left = elementsOf(live);
  const right = elementsOf(config).filter((element) => !element.startsWith('!'));
  const [ours, theirs] = [itemsByElement(list, live), itemsByElement(list, config)];
  const result: unknown[] = [];
  const merged = new Set<PathElement>();
  const shared = right.filter((element) => ours.has(element));
  let next = 0;
  const take = (element: PathElement) => {
    merged.add(element);
    const own = ours.get(element);
    // merge only with a unique live item; duplicates have no single value
    result.push(mergeTyped(list.items, own?.length === 1 ? own[0] : undefined, theirs.get(element)?.[0]));
    if (shared[next] === element) next++;
  };
  let [i, j] = [0, 0];
  while (i < left.length || j < right.length) {
    const [a, b] = [left[i], right[j]];
    if (a !== undefined && b !== undefined) {
      if (a === b) {
        take(a);
        i++;
        j++;
        continue;
      }
      if (theirs.has(a) && next < shared.length && shared[next] !== a) {
        i++; // both sides have the item; the configuration places it later
        continue;
      }
    }
    if (a !== undefined) {
      if (!theirs.has(a)) {
        result.push(live[i++]);
        continue;
      }
      if (merged.has(a)) {
        i++;
        if (b === undefined) continue;
      }
    }
    if (b !== undefined) {
      take(b);
      j++;
    }
  }
  return result;
}

/** Returns the value without the paths of a set. */
export function removeTyped(type: FieldType, value: unknown, gone: FieldSet): unknown {
  const form = formOf(type, value);
  if (form === 'map' && type.map !== undefined) {
    const map = asMap(value);
    if (map === undefined) return value;
    return type.map.atomic ? undefined : removeFromMap(type.map, map, gone);
  }
  if (form === 'list' && type.list !== undefined) {
    const items = asList(value);
    if (items === undefined) return value;
    return type.list.relation === 'atomic' ? undefined : removeFromList(type.list, items, gone);
  }
  return value;
}

function removeFromMap({ fields, values }: MapType, map: Members, gone: FieldSet): unknown {
  const result: Record<string, unknown> = {};
  for (const key of Object.keys(map)) {
    const element = `f:${key}`;
    if (gone.members.has(element)) continue;
    const below = gone.children.get(element);
    const type = fields.get(key)?.type ?? values;
    const rest = below === undefined || type === undefined ? map[key] : removeTyped(type, map[key], below);
    if (rest !== undefined) result[key] = rest;
  }
  // an empty struct can be significant, an empty map is not
  return fields.size === 0 && isEmptyMap(result) ? undefined : result;
}

function removeFromList(list: ListType, items: readonly unknown[], gone: FieldSet): unknown {
  const result: unknown[] = [];
  for (const item of items) {
    const element = listItemToPathElement(list, item);
    if (element instanceof ListItemError) {
      result.push(item);
      continue;
    }
    if (gone.members.has(element)) continue;
    const below = gone.children.get(element);
    result.push(below === undefined ? item : removeTyped(list.items, item, below));
  }
  return result.length === 0 ? undefined : result;
}
