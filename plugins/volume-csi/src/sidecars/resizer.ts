import { objectKey, splitKey } from '@oarlock/api/object';
import { compareQuantity, quantityValue } from '@oarlock/api/values/quantity';
import { persistentVolumeClaims, persistentVolumes } from '@oarlock/api/resources';
import { formatTime } from '@oarlock/api/values/time';
import type { PersistentVolume, PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import { GrpcError } from '@oarlock/grpc/grpc-error';
import type { Informer } from '@oarlock/spi/client';
import { capability } from '../volume/capability.ts';
import { conditionsPatch } from '../volume/claim-conditions.ts';
import { needsNodeExpansion, nodeResize, resizeConditions, type NodeExpansion } from '../node/node-expansion.ts';
import { isHere, quantityOf } from '../volume/provisioned-volume.ts';
import { callErrorText } from '../volume/call-error-text.ts';
import { readSecrets } from '../volume/secrets.ts';
import type { Sidecar, SidecarOptions } from './sidecar.ts';
import type { Staging } from '../node/staging.ts';
import { WorkqueueController } from './workqueue-controller.ts';

export interface ResizerOptions extends SidecarOptions {
  readonly staging: Staging;
  readonly expansion: NodeExpansion;
}

/**
 * Does the work of external-resizer: expands the volumes of claims that request more capacity, first in the driver's controller service and then, if
 * the driver requires it, on the node.
 */
export class Resizer implements Sidecar {
  readonly #options: ResizerOptions;
  readonly #claims: Informer<PersistentVolumeClaim>;
  readonly #volumes: Informer<PersistentVolume>;
  readonly #controller: WorkqueueController;

  constructor(options: ResizerOptions) {
    const { informers, clock, log, driver } = options;
    this.#options = options;
    this.#claims = informers.forResource(persistentVolumeClaims);
    this.#volumes = informers.forResource(persistentVolumes);
    this.#controller = new WorkqueueController({
      name: `resizer-${driver.name}`,
      clock,
      log,
      caches: [this.#claims, this.#volumes],
      reconcile: (key) => this.#reconcile(key),
    });
  }

  start(): void {
    const add = (claim: PersistentVolumeClaim) => {
      if (claim.status?.phase === 'Bound' && (needsExpansion(claim) || needsNodeExpansion(claim))) this.#controller.add(objectKey(claim));
    };
    this.#controller.start(
      this.#claims.addEventHandler({
        onAdd: add,
        // a status update of this controller is no reason to retry
        onUpdate: (claim, old) => {
          if (claim === old || stageOf(claim) !== stageOf(old)) add(claim);
        },
      }),
    );
  }
  stop(): Promise<void> {
    return this.#controller.stop();
  }

  async #reconcile(key: string): Promise<void> {
    const { driver } = this.#options;
    const claim = this.#claims.get(key);
    const volume = this.#volumes.get(claim?.spec?.volumeName ?? '');
    if (claim === undefined || volume?.spec?.csi?.driver !== driver.name || claim.status?.phase !== 'Bound') return;
    if (!isHere(volume, driver)) return;
    if (needsNodeExpansion(claim) && compareQuantity(volume.spec.capacity?.['storage'] ?? '0', requestedStorage(claim)) >= 0)
      await this.#expandOnNode(claim, volume);
    else if (needsExpansion(claim) && this.#canExpand) await this.#expand(claim, volume);
  }

  get #canExpand(): boolean {
    const { controllerCapabilities, nodeCapabilities } = this.#options.driver;
    return controllerCapabilities.has('CONTROLLER_EXPAND_VOLUME') || nodeCapabilities.has('NODE_EXPAND_VOLUME');
  }

  /** Expands a volume in the driver's controller service. A driver that expands volumes on nodes only has nothing to do there. */
  async #expandInController(
    { spec = {} }: PersistentVolume,
    requiredBytes: number,
  ): Promise<{ readonly capacityBytes: number; readonly nodeExpansionRequired: boolean }> {
    const { driver, client } = this.#options;
    const { csi, accessModes, volumeMode, mountOptions } = spec;
    if (!driver.controllerCapabilities.has('CONTROLLER_EXPAND_VOLUME'))
      return { capacityBytes: requiredBytes, nodeExpansionRequired: true };
    return driver.client.controllerExpandVolume({
      volumeId: csi?.volumeHandle ?? '',
      capacityRange: { requiredBytes },
      secrets: await readSecrets(client, { ref: csi?.controllerExpandSecretRef, reader: 'sidecar' }),
      volumeCapability: capability(
        { accessModes, volumeMode, mountOptions, fsType: csi?.fsType },
        driver.controllerCapabilities.has('CONTROLLER_SINGLE_NODE_MULTI_WRITER'),
      ),
    });
  }

  async #expand(claim: PersistentVolumeClaim, volume: PersistentVolume): Promise<void> {
    const { driver, client, recorder, clock } = this.#options;
    const volumeName = volume.metadata?.name ?? '';
    const size = requestedStorage(claim);
    recorder.event(claim, 'Normal', 'Resizing', `External resizer is resizing volume ${volumeName}`);
    let bytes: number;
    let nodeExpansionRequired: boolean;
    try {
      ({ capacityBytes: bytes, nodeExpansionRequired } = await this.#expandInController(volume, quantityValue(size)));
    } catch (error) {
      const message = callErrorText(error);
      recorder.event(
        claim,
        'Warning',
        'VolumeResizeFailed',
        `resize volume "${volumeName}" by resizer "${driver.name}" failed: ${message}`,
      );
      // a retry does not resolve these: the claim may request less again (KEP-1790)
      if (error instanceof GrpcError && (error.code === 'INVALID_ARGUMENT' || error.code === 'OUT_OF_RANGE' || error.code === 'NOT_FOUND'))
        await this.#patchStatus(claim, {
          allocatedResourceStatuses: { storage: 'ControllerResizeInfeasible' },
          allocatedResources: { storage: size },
        });
      throw error;
    }
    const capacity = { storage: quantityOf(bytes) };
    await client.patch(persistentVolumes, { name: volumeName }, 'merge', { spec: { capacity } });
    if (nodeExpansionRequired) {
      const condition = {
        type: 'FileSystemResizePending',
        status: 'True',
        lastTransitionTime: formatTime(clock.now()),
        message: 'Waiting for user to (re-)start a pod to finish file system resize of volume on node.',
      };
      await this.#patchStatus(claim, {
        conditions: conditionsPatch(resizeConditions, condition),
        allocatedResourceStatuses: { storage: nodeResize.pending },
        allocatedResources: capacity,
      });
      recorder.event(claim, 'Normal', 'FileSystemResizeRequired', 'Require file system resize of volume on node');
      return;
    }
    const conditions = conditionsPatch(resizeConditions);
    await this.#patchStatus(claim, { capacity, conditions, allocatedResourceStatuses: null, allocatedResources: capacity });
    recorder.event(claim, 'Normal', 'VolumeResizeSuccessful', 'Resize volume succeeded');
  }

  /** Expands a volume that is in use on this node. A volume that is not in use is expanded when its next pod starts. */
  async #expandOnNode(claim: PersistentVolumeClaim, volume: PersistentVolume): Promise<void> {
    const { driver, staging, expansion } = this.#options;
    const { csi, accessModes, volumeMode, mountOptions } = volume.spec ?? {};
    const staged = staging.directoryOf(driver.name, csi?.volumeHandle ?? '');
    if ((await staging.read(staged)) === undefined) return;
    const volumeCapability = capability(
      { accessModes, volumeMode, mountOptions, fsType: csi?.fsType },
      driver.nodeCapabilities.has('NODE_SINGLE_NODE_MULTI_WRITER'),
    );
    await staging.runExclusive(staged, () =>
      expansion.finish(driver, { volume, claim, expansionTarget: { volumePath: staging.target(staged), staged, volumeCapability } }, {}),
    );
  }

  async #patchStatus(claim: PersistentVolumeClaim, status: object): Promise<void> {
    const { namespace = '', name } = splitKey(objectKey(claim));
    await this.#options.client.patch(persistentVolumeClaims, { namespace, name }, 'strategic', { status }, { subresource: 'status' });
  }
}

/** Returns the fields of a PersistentVolumeClaim. If one of them changes, the controller reconciles the claim again. */
const stageOf = (claim: PersistentVolumeClaim) =>
  `${requestedStorage(claim)} ${claim.status?.capacity?.['storage']} ${claim.status?.phase} ${claim.spec?.volumeName} ${needsNodeExpansion(claim)}`;
const requestedStorage = ({ spec }: PersistentVolumeClaim) => spec?.resources?.requests?.['storage'] ?? '0';
const needsExpansion = (claim: PersistentVolumeClaim) =>
  compareQuantity(requestedStorage(claim), claim.status?.capacity?.['storage'] ?? '0') > 0;
