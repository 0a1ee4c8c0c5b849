export interface DiffLine {
  readonly kind: 'same' | 'added' | 'removed';
  readonly text: string;
}

/** The number of changed lines up to which the shortest difference is computed. */
const maxEdits = 500;

/** Returns the shortest difference of two texts in lines (Myers, "An O(ND) Difference Algorithm"). Very different texts differ as a whole. */
export function diffLines(before: string, after: string): readonly DiffLine[] {
  const a = before.split('\n');
  const b = after.split('\n');
  const history = forwardPaths(a, b);
  if (history === undefined)
    return [...a.map((text): DiffLine => ({ kind: 'removed', text })), ...b.map((text): DiffLine => ({ kind: 'added', text }))];
  const result: DiffLine[] = [];
  let x = a.length;
  let y = b.length;
  for (let d = history.length - 1; d >= 0; d -= 1) {
    const ends = history[d] as ReadonlyMap<number, number>;
    const k = x - y;
    const isInsertion = k === -d || (k !== d && (ends.get(k - 1) ?? -1) < (ends.get(k + 1) ?? -1));
    const previousX = d === 0 ? 0 : ((isInsertion ? ends.get(k + 1) : ends.get(k - 1)) ?? 0);
    const previousY = d === 0 ? 0 : previousX - (isInsertion ? k + 1 : k - 1);
    while (x > previousX && y > previousY) {
      x -= 1;
      y -= 1;
      result.push({ kind: 'same', text: a[x] ?? '' });
    }
    if (d === 0) break;
    if (isInsertion) result.push({ kind: 'added', text: b[previousY] ?? '' });
    else result.push({ kind: 'removed', text: a[previousX] ?? '' });
    x = previousX;
    y = previousY;
  }
  return result.reverse();
}

/** Returns the furthest ends of the paths before each number of edits; undefined if the texts differ too much. */
function forwardPaths(a: readonly string[], b: readonly string[]): readonly ReadonlyMap<number, number>[] | undefined {
  const ends = new Map<number, number>([[1, 0]]);
  const history: ReadonlyMap<number, number>[] = [];
  for (let d = 0; d <= Math.min(a.length + b.length, maxEdits); d += 1) {
    history.push(new Map(ends));
    for (let k = -d; k <= d; k += 2) {
      const isInsertion = k === -d || (k !== d && (ends.get(k - 1) ?? -1) < (ends.get(k + 1) ?? -1));
      let x = isInsertion ? (ends.get(k + 1) ?? 0) : (ends.get(k - 1) ?? 0) + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x += 1;
      ends.set(k, x);
      if (x >= a.length && x - k >= b.length) return history;
    }
  }
  return undefined;
}

/** Returns the lines of a difference with `context` unchanged lines around each change; `undefined` stands for lines that are left out. */
export function withContext(lines: readonly DiffLine[], context = 3): readonly (DiffLine | undefined)[] {
  const isNear = (index: number) => lines.slice(Math.max(0, index - context), index + context + 1).some(({ kind }) => kind !== 'same');
  const result: (DiffLine | undefined)[] = [];
  for (const [index, line] of lines.entries()) {
    if (isNear(index)) result.push(line);
    else if (result.length > 0 && result.at(-1) !== undefined) result.push(undefined);
  }
  if (result.at(-1) === undefined) result.pop();
  return result;
}
