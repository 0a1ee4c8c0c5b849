import { CelError } from '../../values/cel-error.ts';
import { compare, equal } from '../../values/equality.ts';
import { isList, itemsOf, kindOf, type Int, type ListValue, type Value } from '../../values/value.ts';
import { fn, type Library } from '../library.ts';
import { maxResultSize } from './operators.ts';

const comparable = ['int', 'uint', 'double', 'bool', 'duration', 'timestamp', 'string', 'bytes'];
/** The cost of a call that creates a list. */
const creation = 11;
const rejected = (message: string) => new CelError('invalid-argument', message);

function slice(list: ListValue, start: Int, end: Int): readonly Value[] {
  const items = itemsOf(list);
  const call = `cannot slice(${start}, ${end})`;
  if (start < 0 || end < 0) throw rejected(`${call}, negative indexes not supported`);
  if (start > end) throw rejected(`${call}, start index must be less than or equal to end index`);
  if (end > items.length) throw rejected(`${call}, list is length ${items.length}`);
  return items.slice(Number(start), Number(end));
}

function flatten(list: ListValue, depth: Int = 1): readonly Value[] {
  if (depth < 0) throw rejected('level must be non-negative');
  const flat: Value[] = [];
  const visit = (items: readonly Value[], left: number) => {
    for (const item of items) {
      if (left > 0 && isList(item)) visit(itemsOf(item), left - 1);
      else flat.push(item);
    }
  };
  visit(itemsOf(list), Number(depth));
  return flat;
}

function distinct(list: ListValue): readonly Value[] {
  const unique: Value[] = [];
  for (const item of itemsOf(list)) if (!unique.some((each) => equal(each, item))) unique.push(item);
  return unique;
}

function listRange(count: Int): readonly Value[] {
  if (count < 0) throw rejected(`lists.range: size must be non-negative, got ${count}`);
  if (count > maxResultSize) throw rejected(`lists.range: size ${count} exceeds maximum allowed (${maxResultSize})`);
  return Array.from({ length: Number(count) }, (_, i) => i);
}

/** Sorts a list by the keys of its elements. @throws CelError if two keys cannot be compared */
function sortByAssociatedKeys(list: ListValue, associated: ListValue): readonly Value[] {
  const [items, keys] = [itemsOf(list), itemsOf(associated)];
  const [first] = keys;
  if (first === undefined) return items;
  const kind = kindOf(first);
  if (!comparable.includes(kind)) throw rejected('list elements must be comparable');
  if (keys.some((key) => kindOf(key) !== kind)) throw rejected('list elements must have the same type');
  const order = Array.from(keys.keys()).sort((a, b) => compare(keys[a] as Value, keys[b] as Value) ?? 0);
  return order.map((i) => items[i] as Value);
}

/** Returns the cost of comparing each element of a list with each other element. */
function selfComparison(list: ListValue): number {
  const items = itemsOf(list);
  const kind = kindOf(items[0] ?? null);
  return Math.floor(items.length ** 2 * (kind === 'string' || kind === 'bytes' ? 2.1 : 2));
}
const created = { cost: () => creation, resultSize: (size: number) => size };
const compared = { cost: () => creation, argumentCost: selfComparison };

/** Version 3 of cel-go's library of lists (ext.Lists). */
export const extendedLists: Library = {
  name: 'extended lists',
  functions: [
    fn('(list<A>).slice(int, int): list<A>', slice, created),
    fn(['(list<list<A>>).flatten(): list<A>', '(list<dyn>).flatten(int): list<dyn>'], flatten, {
      cost: () => creation,
      argumentCost: (list: ListValue, depth: Int = 1) => itemsOf(list).length * Number(depth),
    }),
    fn('lists.range(int): list<int>', listRange, created),
    fn('(list<A>).reverse(): list<A>', (list: ListValue) => itemsOf(list).toReversed(), created),
    fn('(list<A>).distinct(): list<A>', distinct, compared),
    fn(
      comparable.map((type) => `(list<${type}>).sort(): list<${type}>`),
      (list: ListValue) => sortByAssociatedKeys(list, list),
      compared,
    ),
    fn(
      comparable.map((type) => `(list<A>).@sortByAssociatedKeys(list<${type}>): list<A>`),
      sortByAssociatedKeys,
      { cost: () => creation, argumentCost: (_: ListValue, keys: ListValue) => selfComparison(keys) },
    ),
  ],
};
