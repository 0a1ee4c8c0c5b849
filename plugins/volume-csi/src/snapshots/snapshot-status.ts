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
