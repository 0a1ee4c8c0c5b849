type IdOf = (item: unknown) => string;

function positions(order: readonly unknown[], idOf: IdOf): ReadonlyMap<string, number> {
  const result = new Map<string, number>();
  for (const [at, item] of order.entries()) {
    const id = idOf(item);
    if (!result.has(id)) result.set(id, at);
  }
  return result;
}

/** Sorts items by their position in `order`; items that are not in it come last and keep their relative order. */
export function sortByOrder(items: readonly unknown[], order: readonly unknown[], idOf: IdOf): unknown[] {
  const at = positions(order, idOf);
  const place = (item: unknown) => at.get(idOf(item)) ?? order.length;
  return [...items].sort((a, b) => place(a) - place(b));
}

/** Merges two sorted lists: an item of `left` goes first only if `order` has it before the item of `right`. */
export function mergeInOrder(left: readonly unknown[], right: readonly unknown[], order: readonly unknown[], idOf: IdOf): unknown[] {
  const at = positions(order, idOf);
  const result: unknown[] = [];
  let [i, j] = [0, 0];
  while (i < left.length || j < right.length) {
    const l = i < left.length ? at.get(idOf(left[i])) : undefined;
    const r = j < right.length ? at.get(idOf(right[j])) : undefined;
    if (j === right.length || (i < left.length && l !== undefined && r !== undefined && l < r)) result.push(left[i++]);
    else result.push(right[j++]);
  }
  return result;
}
