/** What a level may have, and what it would need. */
export interface ConcurrencyClaim {
  readonly lowerBound: number;
  readonly upperBound: number;
  readonly target: number;
}

/**
 * Shares out seats in proportion to what each claim targets, within its bounds: the factor that makes the sum come out is found by
 * halving. KEP-1040, "Dispatching" and the borrowing extension.
 */
export function fairAllocation(total: number, claims: readonly ConcurrencyClaim[]): readonly number[] {
  const at = (factor: number) =>
    claims.map(({ lowerBound: least, upperBound: most, target }) => Math.min(most, Math.max(least, factor * Math.max(target, 0.01))));
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

/** How much work a list is, or the beginning of a watch that starts with all there is. Upstream's list work estimator. */
export function estimateListWork(
  verb: 'list' | 'watch',
  query: Readonly<Record<string, string | undefined>>,
  stored: () => number,
): number {
  if (verb === 'watch' && query['sendInitialEvents'] !== 'true') return 1;
  const limit = Number(query['limit'] ?? 0);
  const count = stored();
  return Math.min(maxSeats, Math.max(1, Math.ceil((limit > 0 ? Math.min(limit, count) : count) / objectsPerSeat)));
}
