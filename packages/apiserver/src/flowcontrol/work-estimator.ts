import { nameFromFieldSelector } from '../authorization/authorization.ts';

/** The minimum and maximum number of seats of a priority level, and the number that it demands. */
export interface ConcurrencyClaim {
  readonly lowerBound: number;
  readonly upperBound: number;
  readonly target: number;
}

/**
 * Returns the seats of each claim: in proportion to its target, within its bounds (computeConcurrencyAllocation upstream; KEP-1040,
 * borrowing). The common factor is found by bisection.
 */
export function fairAllocation(total: number, claims: readonly ConcurrencyClaim[]): readonly number[] {
  const at = (factor: number) =>
    claims.map(({ lowerBound, upperBound, target }) => Math.min(upperBound, Math.max(lowerBound, factor * Math.max(target, 0.01))));
  const sum = (values: readonly number[]) => values.reduce((all, value) => all + value, 0);
  if (sum(at(0)) >= total) return at(0).map(Math.round);
  let [low, high] = [0, 1];
  while (sum(at(high)) < total && high < 2 ** 40) high *= 2;
  for (let i = 0; i < 60; i += 1) {
    const middle = (low + high) / 2;
    if (sum(at(middle)) < total) low = middle;
    else high = middle;
  }
  return at(high).map(Math.round);
}

const objectsPerSeat = 100;
const maxSeats = 10;

/**
 * Returns the estimated seats of a list, or of a watch that sends initial events, which also a watch without a resourceVersion or from 0 does
 * (listWorkEstimator upstream). A selector for one name reads one object.
 */
export function estimateListWork(
  verb: 'list' | 'watch',
  query: Readonly<Record<string, string | undefined>>,
  stored: () => number,
): number {
  const version = query['resourceVersion'] ?? '';
  const isPlainWatch = verb === 'watch' && query['sendInitialEvents'] !== 'true' && version !== '' && version !== '0';
  if (isPlainWatch || nameFromFieldSelector(query['fieldSelector']) !== '') return 1;
  const limit = Number(query['limit'] ?? 0);
  const count = stored();
  return Math.min(maxSeats, Math.max(1, Math.ceil((limit > 0 ? Math.min(limit, count) : count) / objectsPerSeat)));
}
