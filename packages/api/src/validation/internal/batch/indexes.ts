/** An interval of indexes, both ends inclusive. */
export type IndexInterval = readonly [first: number, last: number];

const integer = /^[+-]?\d+$/;

/** Parses an interval such as `3` or `1-4` of a Job with `completions` indexes; returns the error as text. */
function parseInterval(text: string, completions: number): IndexInterval | string {
  const limits = text.split('-');
  if (limits.length > 2)
    return `the fragment ${JSON.stringify(text)} violates the requirement that an index interval can have at most two parts separated by '-'`;
  for (const limit of limits) {
    if (!integer.test(limit)) return `cannot convert string to integer for index: ${JSON.stringify(limit)}`;
    if (Number(limit) >= completions) return `too large index: ${JSON.stringify(limit)}`;
  }
  const [first = 0, last = first] = limits.map(Number);
  return limits.length > 1 && first >= last ? `non-increasing order, previous: ${first}, current: ${last}` : [first, last];
}

/** Parses a list of intervals such as `1,3-5`; returns the error as text. */
export function parseIndexes(text: string, completions: number): readonly IndexInterval[] | string {
  if (text === '') return [];
  const intervals: IndexInterval[] = [];
  for (const part of text.split(',')) {
    const interval = parseInterval(part, completions);
    if (typeof interval === 'string') return interval;
    const previous = intervals.at(-1);
    if (previous !== undefined && previous[1] >= interval[0])
      return `non-increasing order, previous: ${previous[1]}, current: ${interval[0]}`;
    intervals.push(interval);
  }
  return intervals;
}

/** Returns the first index that two texts have in common. Intervals that are not valid are ignored. */
export function firstCommonIndex(text: string, other: string, completions: number): number | undefined {
  const [intervals, others] = [text, other].map((list) =>
    list.split(',').flatMap((part) => {
      const interval = parseInterval(part, completions);
      return typeof interval === 'string' ? [] : [interval];
    }),
  );
  let [i, j] = [0, 0];
  for (;;) {
    const [a, b] = [intervals?.[i], others?.[j]];
    if (a === undefined || b === undefined) return undefined;
    if (a[0] <= b[1] && b[0] <= a[1]) return Math.max(a[0], b[0]);
    if (a[0] <= b[0]) i++;
    else j++;
  }
}
