import { formatTime } from '@oarlock/api/time';
import type { TellingVolume } from '../volumes/volume-usages.ts';

/** A volume as the summary tells of it (stats/v1alpha1 VolumeStats). What a driver does not tell is 0, as upstream's. */
export function volumeStats({ volume: { name, claimed }, usage, at }: TellingVolume) {
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
