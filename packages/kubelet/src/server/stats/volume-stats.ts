import { formatTime } from '@oarlock/api/values/time';
import type { VolumeStat } from '../../stats/volume-stat-calculator.ts';

/** Converts a volume to stats/v1alpha1 VolumeStats. As upstream, values that a driver does not report are 0. */
export function volumeStats({ volume: { name, claimed }, usage, at }: VolumeStat) {
  const { availableBytes = 0, capacityBytes = 0, usedBytes = 0, inodesFree = 0, inodes = 0, inodesUsed = 0, condition } = usage;
  const { claim } = claimed;
  return {
    time: formatTime(at),
    availableBytes,
    capacityBytes,
    usedBytes,
    inodesFree,
    inodes,
    inodesUsed,
    name,
    ...(claim && { pvcRef: { name: claim.metadata?.name, namespace: claim.metadata?.namespace } }),
    ...(condition && { volumeHealthStats: { abnormal: condition.abnormal } }),
  };
}
