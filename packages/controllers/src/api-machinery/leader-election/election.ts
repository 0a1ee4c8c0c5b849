import { parseTime } from '@oarlock/api/values/time';
import type { Lease } from '@oarlock/api/types/coordination-v1';
import type { LeaseCandidate } from '@oarlock/api/types/coordination-v1beta1';

/** Time in milliseconds without renewal after which a LeaseCandidate is expired. */
export const candidateValidMs = 30 * 60_000;
/** Time in milliseconds in which candidates must acknowledge a ping, and for which an acknowledgement is valid. */
export const electionMs = 5000;

export const renewTimeMs = ({ spec }: LeaseCandidate): number => parseTime(spec.renewTime ?? '') ?? 0;
export const pingTimeMs = ({ spec }: LeaseCandidate): number | undefined => parseTime(spec.pingTime ?? '');
export const isCandidateExpired = (candidate: LeaseCandidate, nowMs: number): boolean => renewTimeMs(candidate) + candidateValidMs < nowMs;

export function isLeaseExpired({ spec }: Lease, nowMs: number): boolean {
  const renewed = parseTime(spec?.renewTime ?? '');
  return renewed === undefined || spec?.leaseDurationSeconds === undefined || renewed + spec.leaseDurationSeconds * 1000 < nowMs;
}

const versionOf = (text: string | undefined): readonly number[] => {
  const parts = /^v?(\d+)\.(\d+)(?:\.(\d+))?/.exec(text ?? '');
  return parts === null ? [0, 0, 0] : parts.slice(1).map((part) => Number(part ?? 0));
};
function byVersion(a: string | undefined, b: string | undefined): number {
  const [x, y] = [versionOf(a), versionOf(b)];
  for (const [index, part] of x.entries()) if (part !== y[index]) return part - (y[index] ?? 0);
  return 0;
}
const creationTimeMs = ({ metadata }: LeaseCandidate): number => parseTime(metadata?.creationTimestamp ?? '') ?? 0;

/** Returns the strategy of the candidates with the newest binary version, or undefined if these candidates specify different strategies. */
export function pickBestStrategy(candidates: readonly LeaseCandidate[]): string | undefined {
  const newest = candidates.toSorted((a, b) => byVersion(b.spec.binaryVersion, a.spec.binaryVersion));
  const [first] = newest;
  const strategies = newest
    .filter(({ spec }) => byVersion(spec.binaryVersion, first?.spec.binaryVersion) === 0)
    .map(({ spec }) => spec.strategy);
  return new Set(strategies).size === 1 ? strategies[0] : undefined;
}

/**
 * Returns the best leader by the strategy OldestEmulationVersion, or undefined if there are no candidates: the candidate with the lowest
 * emulation version, then the lowest binary version, then the oldest candidate, then the first by name.
 */
export function pickBestLeader(candidates: readonly LeaseCandidate[]): LeaseCandidate | undefined {
  return candidates.toSorted(
    (a, b) =>
      byVersion(a.spec.emulationVersion, b.spec.emulationVersion) ||
      byVersion(a.spec.binaryVersion, b.spec.binaryVersion) ||
      creationTimeMs(a) - creationTimeMs(b) ||
      ((a.metadata?.name ?? '') < (b.metadata?.name ?? '') ? -1 : 1),
  )[0];
}
