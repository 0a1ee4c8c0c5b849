import { CelError, noSuchOverload } from '../../values/cel-error.ts';
import { fn, type FunctionDeclaration, type Library } from '../library.ts';
import { compare, equal } from '../../values/equality.ts';
import { doubleOf, Duration, intOf, itemsOf, kindOf, numberOf, type Uint, uintOf, type ListValue, type Value } from '../../values/value.ts';

const comparable = ['int', 'uint', 'double', 'bool', 'duration', 'timestamp', 'string', 'bytes'];
const traverse = { cost: (size: number) => Math.max(1, size) };

function isSorted(list: ListValue): boolean {
  const items = itemsOf(list);
  for (let i = 1; i < items.length; i++) {
    const order = compare(items[i - 1] as Value, items[i] as Value);
    if (order === undefined || order > 0) return false;
  }
  return true;
}

function extreme(name: 'min' | 'max', list: ListValue): Value {
  const [first, ...rest] = itemsOf(list);
  if (first === undefined) throw new CelError('invalid-argument', `${name} called on empty list`);
  let best = first;
  for (const item of rest) {
    const order = compare(item, best) ?? 0;
    if (name === 'min' ? order < 0 : order > 0) best = item;
  }
  return best;
}

type Sum = (items: readonly Value[]) => Value;
/** The implementations of `sum`, one for each element type, because the sum of an empty list depends on its type. */
const sums: readonly (readonly [type: string, sum: Sum])[] = [
  ['int', (items) => intOf(items.reduce<bigint>((sum, item) => sum + BigInt(item as number | bigint), 0n))],
  ['uint', (items) => uintOf(items.reduce<bigint>((sum, item) => sum + (item as Uint).value, 0n))],
  ['double', (items) => doubleOf(items.reduce<number>((sum, item) => sum + Number(numberOf(item)), 0))],
  ['duration', (items) => new Duration(items.reduce<bigint>((sum, item) => sum + (item as Duration).nanos, 0n))],
];
const sumOfAny: Sum = (items) => {
  const [first] = items;
  const kind = kindOf(first);
  const found = sums.find(([type]) => type === kind);
  if (first !== undefined && (found === undefined || items.some((item) => kindOf(item) !== kind))) throw noSuchOverload();
  return first === undefined ? 0 : (found?.[1](items) ?? 0);
};
const sumFunctions: readonly FunctionDeclaration[] = sums.map(([type, sum]) =>
  fn(`(list<${type}>).sum(): ${type}`, (list: ListValue) => sumOf(sum, type, itemsOf(list)), traverse),
);
/**
 * Returns the sum of a list. A list whose static element type is `dyn` can contain other types than `type`; such a list is summed by
 * `sumOfAny`.
 */
function sumOf(sum: Sum, type: string, items: readonly Value[]): Value {
  return items.every((item) => kindOf(item) === type) ? sum(items) : sumOfAny(items);
}

export const lists: Library = {
  name: 'lists',
  functions: [
    fn(
      comparable.map((type) => `(list<${type}>).isSorted(): bool`),
      isSorted,
      traverse,
    ),
    fn(
      comparable.map((type) => `(list<${type}>).min(): ${type}`),
      (list: ListValue) => extreme('min', list),
      traverse,
    ),
    fn(
      comparable.map((type) => `(list<${type}>).max(): ${type}`),
      (list: ListValue) => extreme('max', list),
      traverse,
    ),
    ...sumFunctions,
    fn('(list<A>).indexOf(A): int', (list: ListValue, item: Value) => itemsOf(list).findIndex((each) => equal(each, item)), traverse),
    fn(
      '(list<A>).lastIndexOf(A): int',
      (list: ListValue, item: Value) => itemsOf(list).findLastIndex((each) => equal(each, item)),
      traverse,
    ),
  ],
};
