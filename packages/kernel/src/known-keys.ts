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

/** The keys that a schema knows at a path: what an author may have meant. */
export function knownKeys(schema: Schema, path: readonly PropertyKey[]): readonly string[] {
  const { shape, innerType, in: input, element, valueType, options } = schema._zod.def as unknown as Definition;
  const through = innerType ?? input;
  if (through !== undefined) return knownKeys(through, path);
  if (options !== undefined) return [...new Set(options.flatMap((option) => knownKeys(option, path)))];
  const [head, ...rest] = path;
  if (head === undefined) return Object.keys(shape ?? {});
  const next = shape?.[String(head)] ?? element ?? valueType;
  return next === undefined ? [] : knownKeys(next, rest);
}

const closeEnough = 3;

/** The candidate that differs in the fewest letters, if it is few enough for a slip of the hand. */
export function closest(word: string, candidates: readonly string[]): string | undefined {
  const [best] = candidates
    .map((candidate) => ({ candidate, distance: distance(word, candidate) }))
    .filter((each) => each.distance <= Math.min(closeEnough, Math.ceil(word.length / 3)))
    .toSorted((a, b) => a.distance - b.distance);
  return best?.candidate;
}

/** Letters to insert, delete or replace (Levenshtein). */
function distance(a: string, b: string): number {
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
