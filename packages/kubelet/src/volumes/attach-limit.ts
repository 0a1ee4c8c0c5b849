import type { VolumeMountError } from './volume-manager.ts';

export interface AttachLimitRejection {
  readonly reason: string;
  readonly message: string;
}

const list = (failures: readonly VolumeMountError[]) => `[${failures.map(({ podVolume }) => podVolume).join(' ')}]`;

/**
 * Returns the failure of a pod with a volume that the node has no capacity to attach (KEP-4876), or undefined. The pod's controller then creates a pod
 * that the scheduler may place on another node.
 */
export function attachLimitRejection(failures: readonly VolumeMountError[]): AttachLimitRejection | undefined {
  const unattached = failures.filter(({ code }) => code === 'ResourceExhausted');
  if (unattached.length === 0) return undefined;
  const volumes = `unmounted volumes=${list(failures)}, unattached volumes=${list(unattached)}, failed to process volumes=[]`;
  return {
    reason: 'VolumeAttachmentLimitExceeded',
    message: `Node has reached its volume attachment limit, rejecting pod. ${volumes}: context deadline exceeded`,
  };
}
