import { isObject } from './json.ts';

/** Returns a copy of a JSON value whose objects have sorted keys, as Go encodes maps. */
export function sortKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortKeys);
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.keys(value)
      .sort()
      .map((key) => [key, sortKeys(value[key])]),
  );
}

/**
 * Returns the result of a patch with the order of keys that upstream's JSON patch library encodes: objects that the patch changed have sorted keys,
 * unchanged ones keep their order. `sortsAdded` is true if added values are sorted too, as by merge patches.
 */
export function sortPatchedKeys(before: unknown, after: unknown, sortsAdded: boolean): unknown {
  if (before === after) return after;
  if (Array.isArray(before) && Array.isArray(after) && !sortsAdded) {
    const kept = new Set<unknown>(before);
    return after.map((item, index) => (kept.has(item) ? item : sortPatchedKeys(before[index], item, sortsAdded)));
  }
  if (!isObject(before) || !isObject(after)) return sortsAdded ? sortKeys(after) : after;
  return Object.fromEntries(
    Object.keys(after)
      .sort()
      .map((key) => [key, sortPatchedKeys(before[key], after[key], sortsAdded)]),
  );
}
