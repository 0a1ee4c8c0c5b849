import { objectKey, splitKey } from '@oarlock/api/object';
import { compareQuantity, value } from '@oarlock/api/quantity';
import { persistentVolumeClaims, persistentVolumes } from '@oarlock/api/resources';
import { formatTime } from '@oarlock/api/time';
import type { PersistentVolume, PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import { GrpcError } from '@oarlock/grpc/grpc-error';
import type { Informer } from '@oarlock/spi/client';
import { capability } from './capability.ts';
import { changedConditions } from './claim-conditions.ts';
import { nodeResize, ofGrowing, waitsForNode, type NodeExpansion } from './node-expansion.ts';
import { isHere, quantityOf } from './provisioned-volume.ts';
import { readSecrets } from './secrets.ts';
import type { Sidecar, SidecarOptions } from './sidecar.ts';
import type { Staging } from './staging.ts';
import { WorkLoop } from './work-loop.ts';

export interface ResizerOptions extends SidecarOptions {
  readonly staging: Staging;
  readonly expansion: NodeExpansion;
}

/** Does what an external resizer beside a driver would: gives claims that ask for more what they ask for. Then the node, if the driver wants that. */
export class Resizer implements Sidecar {
  readonly #options: ResizerOptions;
  readonly #claims: Informer<PersistentVolumeClaim>;
  readonly #volumes: Informer<PersistentVolume>;
  readonly #loop: WorkLoop;

  constructor(options: ResizerOptions) {
    const { informers, clock, log, driver } = options;
    this.#options = options;
    this.#claims = informers.of(persistentVolumeClaims);
    this.#volumes = informers.of(persistentVolumes);
    this.#loop = new WorkLoop({
      name: `resizer-${driver.name}`,
      clock,
      log,
      caches: [this.#claims, this.#volumes],
      work: (key) => this.#grow(key),
    });
  }

  start(): void {
    const see = (claim: PersistentVolumeClaim) => {
      if (claim.status?.phase === 'Bound' && (wantsMore(claim) || waitsForNode(claim))) this.#loop.add(objectKey(claim));
    };
    this.#loop.start(
      this.#claims.on({
        added: see,
        // what is said here of how it goes is no reason to try again
        updated: (claim, old) => {
          if (claim === old || stageOf(claim) !== stageOf(old)) see(claim);
        },
      }),
    );
  }
  stop(): Promise<void> {
    return this.#loop.stop();
  }

  async #grow(key: string): Promise<void> {
    const { driver } = this.#options;
    const claim = this.#claims.get(key);
    const volume = this.#volumes.get(claim?.spec?.volumeName ?? '');
    if (claim === undefined || volume?.spec?.csi?.driver !== driver.name || claim.status?.phase !== 'Bound') return;
    if (!isHere(volume, driver)) return;
    if (waitsForNode(claim) && compareQuantity(volume.spec.capacity?.['storage'] ?? '0', requested(claim)) >= 0)
      await this.#onNode(claim, volume);
    else if (wantsMore(claim) && driver.controllerAbilities.has('CONTROLLER_EXPAND_VOLUME')) await this.#expand(claim, volume);
  }

  async #expand(claim: PersistentVolumeClaim, volume: PersistentVolume): Promise<void> {
    const { driver, client, recorder, clock } = this.#options;
    const volumeName = volume.metadata?.name ?? '';
    const { csi, accessModes, volumeMode, mountOptions } = volume.spec ?? {};
    const wanted = requested(claim);
    recorder.event(claim, 'Normal', 'Resizing', `External resizer is resizing volume ${volumeName}`);
    let bytes: number;
    let onNode: boolean;
    try {
      ({ capacityBytes: bytes, nodeExpansionRequired: onNode } = await driver.client.expand({
        volumeId: csi?.volumeHandle ?? '',
        capacityRange: { requiredBytes: value(wanted) },
        secrets: await readSecrets(client, csi?.controllerExpandSecretRef),
        volumeCapability: capability(
          { accessModes, volumeMode, mountOptions, fsType: csi?.fsType },
          driver.controllerAbilities.has('CONTROLLER_SINGLE_NODE_MULTI_WRITER'),
        ),
      }));
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      recorder.event(claim, 'Warning', 'VolumeResizeFailed', `resize volume "${volumeName}" by resizer "${driver.name}" failed: ${why}`);
      // what no time will heal: the claim may ask for less again
      if (error instanceof GrpcError && (error.code === 'INVALID_ARGUMENT' || error.code === 'OUT_OF_RANGE' || error.code === 'NOT_FOUND'))
        await this.#status(claim, {
          allocatedResourceStatuses: { storage: 'ControllerResizeInfeasible' },
          allocatedResources: { storage: wanted },
        });
      throw error;
    }
    const capacity = { storage: quantityOf(bytes) };
    await client.patch(persistentVolumes, { name: volumeName }, 'merge', { spec: { capacity } });
    if (onNode) {
      const condition = {
        type: 'FileSystemResizePending',
        status: 'True',
        lastTransitionTime: formatTime(clock.now()),
        message: 'Waiting for user to (re-)start a pod to finish file system resize of volume on node.',
      };
      await this.#status(claim, {
        conditions: changedConditions(ofGrowing, condition),
        allocatedResourceStatuses: { storage: nodeResize.pending },
        allocatedResources: capacity,
      });
      recorder.event(claim, 'Normal', 'FileSystemResizeRequired', 'Require file system resize of volume on node');
      return;
    }
    const conditions = changedConditions(ofGrowing);
    await this.#status(claim, { capacity, conditions, allocatedResourceStatuses: null, allocatedResources: capacity });
    recorder.event(claim, 'Normal', 'VolumeResizeSuccessful', 'Resize volume succeeded');
  }

  /** A volume that is in use on this node grows while it is; one that is not waits for its next pod. */
  async #onNode(claim: PersistentVolumeClaim, volume: PersistentVolume): Promise<void> {
    const { driver, staging, expansion } = this.#options;
    const { csi, accessModes, volumeMode, mountOptions } = volume.spec ?? {};
    const staged = staging.of(driver.name, csi?.volumeHandle ?? '');
    if ((await staging.about(staged)) === undefined) return;
    const volumeCapability = capability(
      { accessModes, volumeMode, mountOptions, fsType: csi?.fsType },
      driver.nodeAbilities.has('NODE_SINGLE_NODE_MULTI_WRITER'),
    );
    await staging.turn(staged, () =>
      expansion.finish(driver, volume, claim, { volumePath: staging.target(staged), staged, volumeCapability }, {}),
    );
  }

  async #status(claim: PersistentVolumeClaim, status: object): Promise<void> {
    const { namespace = '', name } = splitKey(objectKey(claim));
    await this.#options.client.patch(persistentVolumeClaims, { namespace, name }, 'strategic', { status }, { subresource: 'status' });
  }
}

/** What makes a claim worth another look. */
const stageOf = (claim: PersistentVolumeClaim) =>
  `${requested(claim)} ${claim.status?.capacity?.['storage']} ${claim.status?.phase} ${claim.spec?.volumeName} ${waitsForNode(claim)}`;
const requested = ({ spec }: PersistentVolumeClaim) => spec?.resources?.requests?.['storage'] ?? '0';
const wantsMore = (claim: PersistentVolumeClaim) => compareQuantity(requested(claim), claim.status?.capacity?.['storage'] ?? '0') > 0;
