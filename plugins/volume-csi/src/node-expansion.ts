import { compareQuantity, value } from '@oarlock/api/quantity';
import { persistentVolumeClaims } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { PersistentVolume, PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import type { VolumeCapability } from '@oarlock/csi/csi-types';
import { GrpcError } from '@oarlock/grpc/grpc-error';
import type { Client, EventRecorder } from '@oarlock/spi/client';
import type { VolumeCall } from '@oarlock/spi/volume';
import type { CsiDriver } from './csi-driver.ts';
import { readSecrets } from './secrets.ts';
import type { Staging } from './staging.ts';

/** Where the resizer leaves off because the node has to go on. */
export const nodeResize = { pending: 'NodeResizePending', underWay: 'NodeResizeInProgress', infeasible: 'NodeResizeInfeasible' };

/** Whether a claim waits for the node that has its volume. */
export const waitsForNode = ({ status }: PersistentVolumeClaim): boolean => {
  const at = status?.allocatedResourceStatuses?.['storage'];
  return (
    at === nodeResize.pending ||
    at === nodeResize.underWay ||
    status?.conditions?.some(({ type }) => type === 'FileSystemResizePending') === true
  );
};

export interface ExpansionTarget {
  readonly volumePath: string;
  readonly staged: string;
  readonly volumeCapability: VolumeCapability;
}

/** The node's part of making a volume larger: after the driver's controller has, before or while it is used. */
export class NodeExpansion {
  readonly #client: Client;
  readonly #staging: Staging;
  readonly #recorder: EventRecorder;

  constructor(client: Client, staging: Staging, recorder: EventRecorder) {
    this.#client = client;
    this.#staging = staging;
    this.#recorder = recorder;
  }

  /** Does what is left to do for a claim, and says in the claim that it is done. @throws GrpcError; StatusError */
  async finish(
    driver: CsiDriver,
    volume: PersistentVolume,
    claim: PersistentVolumeClaim | undefined,
    { volumePath, staged, volumeCapability }: ExpansionTarget,
    { signal }: VolumeCall,
  ): Promise<void> {
    if (claim === undefined || !waitsForNode(claim)) return;
    const size = volume.spec?.capacity?.['storage'] ?? '0';
    const csi = volume.spec?.csi;
    if (csi === undefined || compareQuantity(size, claim.status?.capacity?.['storage'] ?? '0') <= 0) return;
    if (driver.nodeAbilities.has('NODE_EXPAND_VOLUME')) {
      try {
        await driver.client.nodeExpand(
          {
            volumeId: csi.volumeHandle,
            volumePath,
            stagingTargetPath: this.#staging.target(staged),
            capacityRange: { requiredBytes: value(size) },
            volumeCapability,
            secrets: await readSecrets(this.#client, csi.nodeExpandSecretRef, signal),
          },
          { signal },
        );
      } catch (error) {
        if (error instanceof GrpcError)
          this.#recorder.event(
            claim,
            'Warning',
            'VolumeResizeFailed',
            `NodeExpandVolume failed for volume "${volume.metadata?.name}" : ${error.message}`,
          );
        throw error;
      }
    }
    const { namespace = '', name = '', uid } = claim.metadata ?? {};
    const { storage: _done, ...statuses } = claim.status?.allocatedResourceStatuses ?? {};
    await this.#client
      .patch(
        persistentVolumeClaims,
        { namespace, name },
        'merge',
        {
          metadata: { uid },
          status: {
            capacity: { storage: size },
            allocatedResourceStatuses: Object.keys(statuses).length > 0 ? { ...statuses, storage: null } : null,
            conditions: (claim.status?.conditions ?? []).filter(({ type }) => type !== 'FileSystemResizePending' && type !== 'Resizing'),
          },
        },
        { subresource: 'status', ...(signal && { signal }) },
      )
      .catch((error: unknown) => {
        if (!isStatus(error, 'NotFound')) throw error;
      });
    this.#recorder.event(
      claim,
      'Normal',
      'FileSystemResizeSuccessful',
      `MountVolume.NodeExpandVolume succeeded for volume "${volume.metadata?.name}"`,
    );
  }
}
