const minShares = 2;
const maxShares = 262_144;
const maxWeight = 10_000;

/**
 * Converts CPU shares to the CPU weight of cgroup v2: 2 to 1, 1024 to 100, 262,144 to 10,000.
 * https://kubernetes.io/docs/concepts/architecture/cgroups/
 */
export function cpuWeight(shares: number): number {
  if (shares <= minShares) return 1;
  if (shares >= maxShares) return maxWeight;
  const l = Math.log2(shares);
  return Math.min(maxWeight, Math.ceil(10 ** ((l * l + 125 * l) / 612 - 7 / 34)));
}
