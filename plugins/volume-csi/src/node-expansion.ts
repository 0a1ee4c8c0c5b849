import { compareQuantity, value } from '@oarlock/api/quantity';
import { persistentVolumeClaims } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { PersistentVolume, PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import type { VolumeCapability } from '@oarlock/csi/csi-types';
import { GrpcError } from '@oarlock/grpc/grpc-error';
import type { Client, EventRecorder } from '@oarlock/spi/client';
import type { VolumeCall } from '@oarlock/spi/volume';
import { changedConditions } from './claim-conditions.ts';
import type { CsiDriver } from './csi-driver.ts';
import { readSecrets } from './secrets.ts';
import type { Staging } from './staging.ts';

/** Where the resizer leaves off because the node has to go on. */
export const nodeResize = { pending: 'NodeResizePending', underWay: 'NodeResizeInProgress', infeasible: 'NodeResizeInfeasible' };

/** Conditions that end when a volume has grown. */
export const ofGrowing: readonly string[] = ['FileSystemResizePending', 'Resizing', 'NodeResizeError', 'ControllerResizeError'];
const infeasible: ReadonlySet<string> = new Set(['INVALID_ARGUMENT', 'OUT_OF_RANGE', 'NOT_FOUND']);

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
        if (error instanceof GrpcError) await this.#failed(volume, claim, error, signal);
        throw error;
      }
    }
    const { storage: _done, ...statuses } = claim.status?.allocatedResourceStatuses ?? {};
    const status = {
      capacity: { storage: size },
      allocatedResourceStatuses: Object.keys(statuses).length > 0 ? { ...statuses, storage: null } : null,
      conditions: changedConditions(ofGrowing),
    };
    await this.#status(claim, status, signal);
    this.#recorder.event(
      claim,
      'Normal',
      'FileSystemResizeSuccessful',
      `MountVolume.NodeExpandVolume succeeded for volume "${volume.metadata?.name}"`,
    );
  }

  /** What no time will heal is said in the claim, which may then ask for less (KEP-1790). */
  async #failed(volume: PersistentVolume, claim: PersistentVolumeClaim, error: GrpcError, signal: AbortSignal | undefined): Promise<void> {
    const message = `NodeExpandVolume failed for volume "${volume.metadata?.name}" : ${error.message}`;
    this.#recorder.event(claim, 'Warning', 'VolumeResizeFailed', message);
    if (!infeasible.has(error.code)) return;
    await this.#status(claim, { allocatedResourceStatuses: { storage: nodeResize.infeasible } }, signal);
  }

  async #status({ metadata }: PersistentVolumeClaim, status: object, signal: AbortSignal | undefined): Promise<void> {
    const { namespace = '', name = '', uid } = metadata ?? {};
    const body = { metadata: { uid }, status };
    const options = { subresource: 'status', ...(signal && { signal }) } as const;
    await this.#client.patch(persistentVolumeClaims, { namespace, name }, 'strategic', body, options).catch((error: unknown) => {
      if (!isStatus(error, 'NotFound')) throw error;
    });
  }
}
