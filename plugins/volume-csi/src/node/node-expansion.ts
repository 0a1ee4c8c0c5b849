import { compareQuantity, quantityValue } from '@oarlock/api/values/quantity';
import { persistentVolumeClaims } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { PersistentVolume, PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import type { VolumeCapability } from '@oarlock/csi/csi-types';
import { GrpcError } from '@oarlock/grpc/grpc-error';
import type { Client, EventRecorder } from '@oarlock/spi/client';
import type { VolumeCallOptions } from '@oarlock/spi/volume';
import { conditionsPatch } from '../volume/claim-conditions.ts';
import type { CsiDriver } from '../driver/csi-driver.ts';
import { readSecrets } from '../volume/secrets.ts';
import type { Staging } from './staging.ts';

/** The values of a claim's `allocatedResourceStatuses` while the node expands the volume (KEP-1790). */
export const nodeResize = { pending: 'NodeResizePending', inProgress: 'NodeResizeInProgress', infeasible: 'NodeResizeInfeasible' };

/** The conditions that are removed when a volume has been expanded. */
export const resizeConditions: readonly string[] = ['FileSystemResizePending', 'Resizing', 'NodeResizeError', 'ControllerResizeError'];
const infeasible: ReadonlySet<string> = new Set(['INVALID_ARGUMENT', 'OUT_OF_RANGE', 'NOT_FOUND']);

/** Returns true if the PersistentVolumeClaim waits for NodeExpandVolume. */
export const needsNodeExpansion = ({ status }: PersistentVolumeClaim): boolean => {
  const resizeStatus = status?.allocatedResourceStatuses?.['storage'];
  return (
    resizeStatus === nodeResize.pending ||
    resizeStatus === nodeResize.inProgress ||
    status?.conditions?.some(({ type }) => type === 'FileSystemResizePending') === true
  );
};

export interface ExpansionTarget {
  readonly volumePath: string;
  readonly staged: string;
  readonly volumeCapability: VolumeCapability;
}

/** The volume that a node expansion has grown. */
export interface ExpansionResult {
  readonly volume: PersistentVolume;
  readonly claim: PersistentVolumeClaim | undefined;
  readonly expansionTarget: ExpansionTarget;
}

/** Calls NodeExpandVolume after the driver's controller service has expanded a volume, before or while a pod uses the volume. */
export class NodeExpansion {
  readonly #client: Client;
  readonly #staging: Staging;
  readonly #recorder: EventRecorder;

  constructor(client: Client, staging: Staging, recorder: EventRecorder) {
    this.#client = client;
    this.#staging = staging;
    this.#recorder = recorder;
  }

  /**
   * Finishes a pending expansion of a claim's volume and updates the claim. Does nothing if no expansion is pending.
   * @throws GrpcError if NodeExpandVolume fails, StatusError if the claim cannot be updated
   */
  async finish(
    driver: CsiDriver,
    { volume, claim, expansionTarget: { volumePath, staged, volumeCapability } }: ExpansionResult,
    { signal }: VolumeCallOptions,
  ): Promise<void> {
    if (claim === undefined || !needsNodeExpansion(claim)) return;
    const size = volume.spec?.capacity?.['storage'] ?? '0';
    const csi = volume.spec?.csi;
    if (csi === undefined || compareQuantity(size, claim.status?.capacity?.['storage'] ?? '0') <= 0) return;
    if (driver.nodeCapabilities.has('NODE_EXPAND_VOLUME')) {
      try {
        await driver.client.nodeExpandVolume(
          {
            volumeId: csi.volumeHandle,
            volumePath,
            stagingTargetPath: this.#staging.target(staged),
            capacityRange: { requiredBytes: quantityValue(size) },
            volumeCapability,
            secrets: await readSecrets(this.#client, { ref: csi.nodeExpandSecretRef, reader: 'nodeExpandSecretRef', signal }),
          },
          { signal },
        );
      } catch (error) {
        if (error instanceof GrpcError) await this.#recordFailure(volume, { claim, error, signal });
        throw error;
      }
    }
    const { storage: _done, ...statuses } = claim.status?.allocatedResourceStatuses ?? {};
    const status = {
      capacity: { storage: size },
      allocatedResourceStatuses: Object.keys(statuses).length > 0 ? { ...statuses, storage: null } : null,
      conditions: conditionsPatch(resizeConditions),
    };
    await this.#patchStatus(claim, status, signal);
    this.#recorder.event(
      claim,
      'Normal',
      'FileSystemResizeSuccessful',
      `MountVolume.NodeExpandVolume succeeded for volume "${volume.metadata?.name}"`,
    );
  }

  /** Records an event about a failed expansion. An infeasible expansion is also recorded in the claim, which may then request less (KEP-1790). */
  async #recordFailure(
    volume: PersistentVolume,
    {
      claim,
      error,
      signal,
    }: { readonly claim: PersistentVolumeClaim; readonly error: GrpcError; readonly signal: AbortSignal | undefined },
  ): Promise<void> {
    const message = `NodeExpandVolume failed for volume "${volume.metadata?.name}" : ${error.rpcText}`;
    this.#recorder.event(claim, 'Warning', 'VolumeResizeFailed', message);
    if (!infeasible.has(error.code)) return;
    await this.#patchStatus(claim, { allocatedResourceStatuses: { storage: nodeResize.infeasible } }, signal);
  }

  async #patchStatus({ metadata }: PersistentVolumeClaim, status: object, signal: AbortSignal | undefined): Promise<void> {
    const { namespace = '', name = '', uid } = metadata ?? {};
    const body = { metadata: { uid }, status };
    const options = { subresource: 'status', ...(signal && { signal }) } as const;
    await this.#client.patch(persistentVolumeClaims, { namespace, name }, 'strategic', body, options).catch((error: unknown) => {
      if (!isStatus(error, 'NotFound')) throw error;
    });
  }
}
