import { formatTime } from '@oarlock/api/values/time';
import type { VolumeStat } from '../../stats/volume-stat-calculator.ts';

/** Converts the usage of a volume to VolumeStats of stats/v1alpha1. As upstream, values that the volume driver does not report are 0. */
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
