import type { z } from 'zod';

type Schema = z.core.$ZodType;
interface Definition {
  readonly type: string;
  readonly shape?: Readonly<Record<string, Schema>>;
  readonly innerType?: Schema;
  readonly in?: Schema;
  readonly element?: Schema;
  readonly valueType?: Schema;
  readonly options?: readonly Schema[];
}

/** Returns the keys that a schema accepts at a path, as candidates for a suggestion in an error message. */
export function knownKeys(schema: Schema, path: readonly PropertyKey[]): readonly string[] {
  const { shape, innerType, in: input, element, valueType, options } = schema._zod.def as unknown as Definition;
  const inner = innerType ?? input;
  if (inner !== undefined) return knownKeys(inner, path);
  if (options !== undefined) return [...new Set(options.flatMap((option) => knownKeys(option, path)))];
  const [head, ...rest] = path;
  if (head === undefined) return Object.keys(shape ?? {});
  const next = shape?.[String(head)] ?? element ?? valueType;
  return next === undefined ? [] : knownKeys(next, rest);
}

/** Maximum edit distance of a suggestion; the distance is also limited to a third of the length of the word. */
const maxEditDistance = 3;

/** Returns the candidate with the smallest edit distance to `word`, or undefined if no candidate is close enough to assume a typing error. */
export function closestWord(word: string, candidates: readonly string[]): string | undefined {
  const [best] = candidates
    .map((candidate) => ({ candidate, distance: editDistance(word, candidate) }))
    .filter((each) => each.distance <= Math.min(maxEditDistance, Math.ceil(word.length / 3)))
    .toSorted((a, b) => a.distance - b.distance);
  return best?.candidate;
}

/** Returns the Levenshtein distance: the number of letters to insert, delete or replace. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      next[j] = Math.min((row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1, (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
