import type { Fault } from '@oarlock/kernel/errors';

/** Sorts faults by their position in the file; faults without a position come last. */
export function sortFaults(faults: readonly Fault[]): readonly Fault[] {
  const rank = ({ at }: Fault) => (at === undefined ? Number.POSITIVE_INFINITY : at.line * 10_000 + at.column);
  return faults.toSorted((a, b) => (rank(a) === rank(b) ? 0 : rank(a) - rank(b)));
}
