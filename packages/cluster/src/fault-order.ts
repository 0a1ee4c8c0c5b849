import type { Fault } from '@oarlock/kernel/errors';

/** In the order of the file. */
export function inOrder(faults: readonly Fault[]): readonly Fault[] {
  const rank = ({ at }: Fault) => (at === undefined ? Number.POSITIVE_INFINITY : at.line * 10_000 + at.column);
  return faults.toSorted((a, b) => (rank(a) === rank(b) ? 0 : rank(a) - rank(b)));
}
