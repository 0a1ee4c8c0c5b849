import { parseTime } from '@oarlock/api/time';
import type { Lease } from '@oarlock/api/types/coordination-v1';
import type { LeaseCandidate } from '@oarlock/api/types/coordination-v1beta1';

/** Candidates that said nothing for so long are there no more. */
export const candidateValidMs = 30 * 60_000;
/** So long candidates have to answer, and so long an answer counts. */
export const electionMs = 5000;

export const saidAt = ({ spec }: LeaseCandidate): number => parseTime(spec.renewTime ?? '') ?? 0;
export const askedAt = ({ spec }: LeaseCandidate): number | undefined => parseTime(spec.pingTime ?? '');
export const isOver = (candidate: LeaseCandidate, nowMs: number): boolean => saidAt(candidate) + candidateValidMs < nowMs;

export function isExpired({ spec }: Lease, nowMs: number): boolean {
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
const bornAt = ({ metadata }: LeaseCandidate): number => parseTime(metadata?.creationTimestamp ?? '') ?? 0;

/** The strategy of the newest program; undefined when programs of that version want different ones. */
export function strategyOf(candidates: readonly LeaseCandidate[]): string | undefined {
  const newest = candidates.toSorted((a, b) => byVersion(b.spec.binaryVersion, a.spec.binaryVersion));
  const [first] = newest;
  const wanted = newest
    .filter(({ spec }) => byVersion(spec.binaryVersion, first?.spec.binaryVersion) === 0)
    .map(({ spec }) => spec.strategy);
  return new Set(wanted).size === 1 ? wanted[0] : undefined;
}

/** OldestEmulationVersion: who emulates the oldest version, of those the oldest program, of those who stood first. */
export function elect(candidates: readonly LeaseCandidate[]): LeaseCandidate | undefined {
  return candidates.toSorted(
    (a, b) =>
      byVersion(a.spec.emulationVersion, b.spec.emulationVersion) ||
      byVersion(a.spec.binaryVersion, b.spec.binaryVersion) ||
      bornAt(a) - bornAt(b) ||
      ((a.metadata?.name ?? '') < (b.metadata?.name ?? '') ? -1 : 1),
  )[0];
}
