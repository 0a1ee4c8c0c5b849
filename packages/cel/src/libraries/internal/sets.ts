import { fn, type Library } from '../library.ts';
import { equal } from '../../values/equality.ts';
import { itemsOf, type ListValue } from '../../values/value.ts';

const has = (list: ListValue, item: ReturnType<typeof itemsOf>[number]) => itemsOf(list).some((each) => equal(each, item));
const contains = (a: ListValue, b: ListValue) => itemsOf(b).every((item) => has(a, item));
const product = { cost: (a: number, b: number) => 1 + a * b };

export const sets: Library = {
  name: 'sets',
  functions: [
    fn('sets.contains(list<A>, list<A>): bool', contains, product),
    fn('sets.equivalent(list<A>, list<A>): bool', (a: ListValue, b: ListValue) => contains(a, b) && contains(b, a), {
      cost: (a, b) => 1 + 2 * a * b,
    }),
    fn('sets.intersects(list<A>, list<A>): bool', (a: ListValue, b: ListValue) => itemsOf(a).some((item) => has(b, item)), product),
  ],
};
