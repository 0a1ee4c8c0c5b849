import type { NodeVolumeStats, VolumeUsage as Statistic } from '@oarlock/csi/csi-types';
import { GrpcError } from '@oarlock/grpc/grpc-error';
import { VolumeError, type MountedTarget, type VolumeCallOptions, type VolumeUsage } from '@oarlock/spi/volume';
import type { CsiDriver } from '../driver/csi-driver.ts';
import { readVolumeData } from './internal/volume-data-file.ts';

/**
 * Returns the usage of a published volume; undefined if the volume is not published or its driver lacks GET_VOLUME_STATS. Does not wait for other
 * calls for the volume. @throws VolumeError if the driver fails, the signal's reason if the signal aborts
 */
export async function volumeUsage(
  { path, hostPath }: Pick<MountedTarget, 'path' | 'hostPath'>,
  drivers: ReadonlyMap<string, CsiDriver>,
  call: VolumeCallOptions = {},
): Promise<VolumeUsage | undefined> {
  const published = await readVolumeData(path);
  if (published === undefined) return undefined;
  const { driver: name, volumeHandle } = published;
  const driver = drivers.get(name);
  if (driver === undefined) throw new VolumeError('NotReady', `driver name ${name} not found in the list of registered CSI drivers`);
  if (!driver.nodeCapabilities.has('GET_VOLUME_STATS')) return undefined;
  try {
    const stats = await driver.client.nodeGetVolumeStats({ volumeId: volumeHandle, volumePath: hostPath }, call);
    return usageOf(stats, driver.nodeCapabilities.has('NODE_VOLUME_CONDITION'));
  } catch (error) {
    if (!(error instanceof GrpcError)) throw error;
    throw new VolumeError('Failed', `NodeGetVolumeStats failed for volume "${volumeHandle}" : ${error.rpcText}`, {
      cause: error,
    });
  }
}

/** Converts the response of NodeGetVolumeStats. `conditions` is true if the driver reports conditions. @throws VolumeError for negative values */
export function usageOf({ usage, volumeCondition }: NodeVolumeStats, conditions: boolean): VolumeUsage {
  const bytes = checked(usage.find(({ unit }) => unit === 'BYTES'));
  const inodes = checked(usage.find(({ unit }) => unit === 'INODES'));
  return {
    ...(bytes && { capacityBytes: bytes.total, usedBytes: bytes.used, availableBytes: bytes.available }),
    ...(inodes && { inodes: inodes.total, inodesUsed: inodes.used, inodesFree: inodes.available }),
    ...(conditions && volumeCondition && { condition: volumeCondition }),
  };
}

function checked(statistic: Statistic | undefined): Statistic | undefined {
  for (const field of ['total', 'used', 'available'] as const) {
    const value = statistic?.[field] ?? 0;
    if (value < 0) throw new VolumeError('Failed', `the driver reports ${value} as ${field} ${statistic?.unit} of a volume`);
  }
  return statistic;
}
