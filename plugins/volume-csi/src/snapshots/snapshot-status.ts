import { exactInteger } from '@oarlock/api/json/exact-json';
import type { CsiSnapshot } from '@oarlock/csi/csi-types';
import type { VolumeSnapshot } from '../snapshot-api/snapshot-kinds.ts';

/** The reason why a snapshot cannot be created. `reason` is the reason of the event. */
export class SnapshotProblem extends Error {
  readonly reason: string;
  constructor(reason: string, message: string) {
    super(message);
    this.reason = reason;
  }
}

/** Returns true if the two snapshot statuses are equal. */
export function same(one: VolumeSnapshot['status'], other: NonNullable<VolumeSnapshot['status']>): boolean {
  return (
    one?.boundVolumeSnapshotContentName === other.boundVolumeSnapshotContentName &&
    one?.readyToUse === other.readyToUse &&
    one?.creationTime === other.creationTime &&
    one?.restoreSize === other.restoreSize &&
    one?.error?.message === other.error?.message
  );
}

/** Converts a time to nanoseconds without loss, because the value exceeds the precision of a double. */
export function nanosecondsOf({ seconds, nanos }: NonNullable<CsiSnapshot['creationTime']>): number | bigint {
  const sum = BigInt(seconds) * 1_000_000_000n + BigInt(nanos);
  return exactInteger(sum) ?? Number(sum);
}
