import type { VolumeStatistics, VolumeUsage as Statistic } from '@oarlock/csi/csi-types';
import { GrpcError } from '@oarlock/grpc/grpc-error';
import { VolumeError, type MountedTarget, type VolumeCall, type VolumeUsage } from '@oarlock/spi/volume';
import type { CsiDriver } from './csi-driver.ts';
import { readPublished } from './published.ts';

/**
 * What the driver of a published volume says that it holds; undefined: it is not published, or its driver cannot say (GET_VOLUME_STATS).
 * Waits for no other call about the volume. @throws VolumeError; the signal's reason when it aborts
 */
export async function volumeUsage(
  { path, hostPath }: Pick<MountedTarget, 'path' | 'hostPath'>,
  drivers: ReadonlyMap<string, CsiDriver>,
  call: VolumeCall = {},
): Promise<VolumeUsage | undefined> {
  const published = await readPublished(path);
  if (published === undefined) return undefined;
  const { driver: name, volumeHandle } = published;
  const driver = drivers.get(name);
  if (driver === undefined) throw new VolumeError('NotReady', `driver name ${name} not found in the list of registered CSI drivers`);
  if (!driver.nodeAbilities.has('GET_VOLUME_STATS')) return undefined;
  try {
    const told = await driver.client.nodeStatistics({ volumeId: volumeHandle, volumePath: hostPath }, call);
    return usageOf(told, driver.nodeAbilities.has('NODE_VOLUME_CONDITION'));
  } catch (error) {
    if (!(error instanceof GrpcError)) throw error;
    throw new VolumeError(
      'Failed',
      `NodeGetVolumeStats failed for volume "${volumeHandle}" : rpc error: code = ${error.code} desc = ${error.message}`,
      {
        cause: error,
      },
    );
  }
}

/** `conditions`: whether the driver says that it tells of them. @throws VolumeError for what no volume can hold */
export function usageOf({ usage, volumeCondition }: VolumeStatistics, conditions: boolean): VolumeUsage {
  const bytes = checked(usage.find(({ unit }) => unit === 'BYTES'));
  const inodes = checked(usage.find(({ unit }) => unit === 'INODES'));
  return {
    ...(bytes && { capacityBytes: bytes.total, usedBytes: bytes.used, availableBytes: bytes.available }),
    ...(inodes && { inodes: inodes.total, inodesUsed: inodes.used, inodesFree: inodes.available }),
    ...(conditions && volumeCondition && { condition: volumeCondition }),
  };
}

function checked(told: Statistic | undefined): Statistic | undefined {
  for (const field of ['total', 'used', 'available'] as const) {
    const amount = told?.[field] ?? 0;
    if (amount < 0) throw new VolumeError('Failed', `the driver says that ${field} of a volume's ${told?.unit} is ${amount}`);
  }
  return told;
}
