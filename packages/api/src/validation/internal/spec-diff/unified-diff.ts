interface Match {
  readonly a: number;
  readonly b: number;
  readonly size: number;
}
interface Range {
  readonly aStart: number;
  readonly aEnd: number;
  readonly bStart: number;
  readonly bEnd: number;
}
/** A part of both texts: equal lines, or lines that replace each other. */
interface Change extends Range {
  readonly equal: boolean;
}

const context = 3;
/** Texts with more lines are compared only up to their first and from their last difference, which takes linear time. */
const maxLines = 4000;

/** Returns the positions of each line in a text. Leaves out lines that are frequent in long texts, as Python's difflib does. */
function positionsOf(lines: readonly string[]): ReadonlyMap<string, readonly number[]> {
  const positions = new Map<string, number[]>();
  for (const [i, line] of lines.entries()) {
    const known = positions.get(line);
    if (known === undefined) positions.set(line, [i]);
    else known.push(i);
  }
  if (lines.length < 200) return positions;
  const most = Math.floor(lines.length / 100) + 1;
  for (const [line, at] of positions) if (at.length > most) positions.delete(line);
  return positions;
}

class Matcher {
  readonly #a: readonly string[];
  readonly #b: readonly string[];
  readonly #positions: ReadonlyMap<string, readonly number[]>;

  constructor(a: readonly string[], b: readonly string[]) {
    this.#a = a;
    this.#b = b;
    this.#positions = positionsOf(b);
  }

  /** Returns the longest block of lines that both texts have in a range. */
  #longest({ aStart, aEnd, bStart, bEnd }: Range): Match {
    let best: Match = { a: aStart, b: bStart, size: 0 };
    let lengths = new Map<number, number>();
    for (let i = aStart; i < aEnd; i++) {
      const next = new Map<number, number>();
      for (const j of this.#positions.get(this.#a[i] as string) ?? []) {
        if (j < bStart || j >= bEnd) continue;
        const size = (lengths.get(j - 1) ?? 0) + 1;
        next.set(j, size);
        if (size > best.size) best = { a: i - size + 1, b: j - size + 1, size };
      }
      lengths = next;
    }
    return this.#extended(best, { aStart, aEnd, bStart, bEnd });
  }

  /** Extends a block by equal lines on both sides, which can be frequent lines. */
  #extended(match: Match, { aStart, aEnd, bStart, bEnd }: Range): Match {
    let { a, b, size } = match;
    while (a > aStart && b > bStart && this.#a[a - 1] === this.#b[b - 1]) [a, b, size] = [a - 1, b - 1, size + 1];
    while (a + size < aEnd && b + size < bEnd && this.#a[a + size] === this.#b[b + size]) size += 1;
    return { a, b, size };
  }

  /** Returns the blocks that both texts have, in order. */
  matches(): readonly Match[] {
    const found: Match[] = [];
    const whole = { aStart: 0, aEnd: this.#a.length, bStart: 0, bEnd: this.#b.length };
    if (Math.max(this.#a.length, this.#b.length) > maxLines) {
      const head = this.#extended({ a: 0, b: 0, size: 0 }, whole);
      const tail = this.#extended({ a: whole.aEnd, b: whole.bEnd, size: 0 }, { ...whole, aStart: head.size, bStart: head.size });
      return [head, tail];
    }
    const pending: Range[] = [whole];
    for (let range = pending.pop(); range !== undefined; range = pending.pop()) {
      const match = this.#longest(range);
      if (match.size === 0) continue;
      found.push(match);
      const { a, b, size } = match;
      if (range.aStart < a && range.bStart < b) pending.push({ ...range, aEnd: a, bEnd: b });
      if (a + size < range.aEnd && b + size < range.bEnd) pending.push({ ...range, aStart: a + size, bStart: b + size });
    }
    return found.sort((left, right) => left.a - right.a);
  }
}

function changesOf(a: readonly string[], b: readonly string[]): readonly Change[] {
  const changes: Change[] = [];
  let [i, j] = [0, 0];
  for (const match of [...new Matcher(a, b).matches(), { a: a.length, b: b.length, size: 0 }]) {
    if (i < match.a || j < match.b) changes.push({ equal: false, aStart: i, aEnd: match.a, bStart: j, bEnd: match.b });
    if (match.size > 0)
      changes.push({ equal: true, aStart: match.a, aEnd: match.a + match.size, bStart: match.b, bEnd: match.b + match.size });
    [i, j] = [match.a + match.size, match.b + match.size];
  }
  return changes;
}

/** Groups changes that are near each other, with the equal lines around them. */
function hunksOf(changes: readonly Change[]): readonly (readonly Change[])[] {
  const hunks: Change[][] = [];
  let hunk: Change[] = [];
  for (const [i, change] of changes.entries()) {
    if (!change.equal) {
      hunk.push(change);
      continue;
    }
    const { aStart, aEnd, bStart, bEnd } = change;
    const isFirst = i === 0;
    const isLast = i === changes.length - 1;
    const head = { ...change, aEnd: Math.min(aEnd, aStart + context), bEnd: Math.min(bEnd, bStart + context) };
    const tail = { ...change, aStart: Math.max(aStart, aEnd - context), bStart: Math.max(bStart, bEnd - context) };
    if (isFirst) hunk.push(tail);
    else if (isLast) hunk.push(head);
    else if (aEnd - aStart > 2 * context) {
      hunks.push([...hunk, head]);
      hunk = [tail];
    } else hunk.push(change);
  }
  if (hunk.some(({ equal }) => !equal)) hunks.push(hunk);
  return hunks;
}

/** Returns a range of lines in the format of a unified diff. */
function rangeText(start: number, end: number): string {
  const length = end - start;
  if (length === 1) return String(start + 1);
  return `${length === 0 ? start : start + 1},${length}`;
}

/** Returns the differences of two texts as a unified diff without file names, as Python's difflib and its Go port compute it. */
export function unifiedDiff(before: string, after: string): string {
  const [a, b] = [before.split('\n'), after.split('\n')];
  const lines: string[] = [];
  for (const hunk of hunksOf(changesOf(a, b))) {
    const [first, last] = [hunk[0] as Change, hunk.at(-1) as Change];
    lines.push(`@@ -${rangeText(first.aStart, last.aEnd)} +${rangeText(first.bStart, last.bEnd)} @@`);
    for (const { equal, aStart, aEnd, bStart, bEnd } of hunk) {
      for (const line of a.slice(aStart, aEnd)) lines.push(`${equal ? ' ' : '-'}${line}`);
      if (!equal) for (const line of b.slice(bStart, bEnd)) lines.push(`+${line}`);
    }
  }
  return lines.map((line) => `${line}\n`).join('');
}
