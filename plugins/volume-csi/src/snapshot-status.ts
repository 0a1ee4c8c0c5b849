import type { VolumeSnapshot } from './snapshot-kinds.ts';

/** Why a snapshot cannot be made; `reason` is that of its event. */
export class SnapshotProblem extends Error {
  readonly reason: string;
  constructor(reason: string, message: string) {
    super(message);
    this.reason = reason;
  }
}

/** Whether a snapshot says already what it is to say. */
export function same(one: VolumeSnapshot['status'], other: NonNullable<VolumeSnapshot['status']>): boolean {
  return (
    one?.boundVolumeSnapshotContentName === other.boundVolumeSnapshotContentName &&
    one?.readyToUse === other.readyToUse &&
    one?.creationTime === other.creationTime &&
    one?.restoreSize === other.restoreSize &&
    one?.error?.message === other.error?.message
  );
}
