import { objectKey, splitKey } from '@oarlock/api/object';
import { persistentVolumeClaims, persistentVolumes, volumeAttributesClasses } from '@oarlock/api/resources';
import { formatTime } from '@oarlock/api/values/time';
import type { PersistentVolume, PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import type { VolumeAttributesClass } from '@oarlock/api/types/storage-v1';
import { GrpcError } from '@oarlock/grpc/grpc-error';
import type { Informer } from '@oarlock/spi/client';
import { conditionsPatch } from '../volume/claim-conditions.ts';
import { isHere } from '../volume/provisioned-volume.ts';
import { callErrorText } from '../volume/call-error-text.ts';
import { readSecrets } from '../volume/secrets.ts';
import type { Sidecar, SidecarOptions } from './sidecar.ts';
import { WorkqueueController } from './workqueue-controller.ts';

const modifyConditions = ['ModifyingVolume', 'ModifyVolumeError'];
/** The codes of errors that a retry does not resolve. The claim may then name another VolumeAttributesClass. */
const infeasible = new Set(['INVALID_ARGUMENT', 'OUT_OF_RANGE', 'NOT_FOUND', 'FAILED_PRECONDITION', 'UNIMPLEMENTED']);

/** Does the part of external-resizer's work that modifies volumes according to the VolumeAttributesClass of their claims (KEP-3751). */
export class Modifier implements Sidecar {
  readonly #options: SidecarOptions;
  readonly #claims: Informer<PersistentVolumeClaim>;
  readonly #volumes: Informer<PersistentVolume>;
  readonly #classes: Informer<VolumeAttributesClass>;
  readonly #controller: WorkqueueController;

  constructor(options: SidecarOptions) {
    const { informers, clock, log, driver } = options;
    this.#options = options;
    this.#claims = informers.forResource(persistentVolumeClaims);
    this.#volumes = informers.forResource(persistentVolumes);
    this.#classes = informers.forResource(volumeAttributesClasses);
    this.#controller = new WorkqueueController({
      name: `modifier-${driver.name}`,
      clock,
      log,
      caches: [this.#claims, this.#volumes, this.#classes],
      reconcile: (key) => this.#reconcile(key),
    });
  }

  start(): void {
    const add = (claim: PersistentVolumeClaim) => {
      if (needsModification(claim)) this.#controller.add(objectKey(claim));
    };
    this.#controller.start(
      this.#claims.addEventHandler({
        onAdd: add,
        // a status update of this controller is no reason to retry
        onUpdate: (claim, old) => {
          if (claim === old || targetOf(claim) !== targetOf(old)) add(claim);
        },
      }),
      this.#classes.addEventHandler({
        onAdd: ({ metadata }) => {
          for (const claim of this.#claims.list()) if (claim.spec?.volumeAttributesClassName === metadata?.name) add(claim);
        },
      }),
    );
  }
  stop(): Promise<void> {
    return this.#controller.stop();
  }

  async #reconcile(key: string): Promise<void> {
    const { driver, client, recorder } = this.#options;
    const claim = this.#claims.get(key);
    const volume = this.#volumes.get(claim?.spec?.volumeName ?? '');
    const csi = volume?.spec?.csi;
    if (claim === undefined || volume === undefined || csi?.driver !== driver.name || !needsModification(claim)) return;
    if (!isHere(volume, driver)) return;
    const target = claim.spec?.volumeAttributesClassName ?? '';
    const attributesClass = this.#classes.get(target);
    if (attributesClass === undefined) {
      if (modifyStatus(claim, target) !== 'Pending') await this.#recordStatus(claim, target, 'Pending');
      recorder.event(claim, 'Warning', 'VolumeModifyFailed', `VAC ${target} does not exist`);
      return;
    }
    if (attributesClass.driverName !== driver.name) {
      await this.#recordStatus(claim, target, 'Infeasible');
      recorder.event(
        claim,
        'Warning',
        'VolumeModifyFailed',
        `VAC ${target} is of the driver ${attributesClass.driverName}, and the volume of ${driver.name}`,
      );
      return;
    }
    // an infeasible modification keeps that status until the claim names another class
    const wasInfeasible = modifyStatus(claim, target) === 'Infeasible';
    if (!wasInfeasible) await this.#recordStatus(claim, target, 'InProgress');
    recorder.event(claim, 'Normal', 'VolumeModify', `external resizer is modifying volume ${key} with vac ${target}`);
    try {
      await driver.client.controllerModifyVolume({
        volumeId: csi.volumeHandle,
        secrets: await readSecrets(client, { ref: csi.controllerExpandSecretRef, reader: 'sidecar' }),
        mutableParameters: attributesClass.parameters ?? {},
      });
    } catch (error) {
      const status = error instanceof GrpcError && infeasible.has(error.code) ? 'Infeasible' : 'InProgress';
      if (!wasInfeasible || status !== 'Infeasible') await this.#recordStatus(claim, target, status);
      recorder.event(claim, 'Warning', 'VolumeModifyFailed', callErrorText(error));
      throw error;
    }
    await client.patch(persistentVolumes, { name: volume.metadata?.name ?? '' }, 'merge', { spec: { volumeAttributesClassName: target } });
    await this.#patch(claim, {
      currentVolumeAttributesClassName: target,
      modifyVolumeStatus: null,
      conditions: conditionsPatch(modifyConditions),
    });
    recorder.event(claim, 'Normal', 'VolumeModifySuccessful', `external resizer modified volume ${key} with vac ${target} successfully`);
  }

  async #recordStatus(claim: PersistentVolumeClaim, target: string, status: 'Pending' | 'InProgress' | 'Infeasible'): Promise<void> {
    const condition = {
      type: 'ModifyingVolume',
      status: 'True',
      lastTransitionTime: formatTime(this.#options.clock.now()),
      message: 'ModifyVolume operation in progress.',
    };
    await this.#patch(claim, {
      modifyVolumeStatus: { status, targetVolumeAttributesClassName: target },
      conditions: conditionsPatch(['ModifyingVolume'], status === 'InProgress' ? condition : undefined),
    });
  }

  async #patch(claim: PersistentVolumeClaim, status: object): Promise<void> {
    const { namespace = '', name } = splitKey(objectKey(claim));
    await this.#options.client.patch(persistentVolumeClaims, { namespace, name }, 'strategic', { status }, { subresource: 'status' });
  }
}

/** Returns the fields of a PersistentVolumeClaim. If one of them changes, the controller reconciles the claim again. */
const targetOf = ({ spec, status }: PersistentVolumeClaim) =>
  `${spec?.volumeAttributesClassName} ${spec?.volumeName} ${status?.phase} ${status?.currentVolumeAttributesClassName}`;
const modifyStatus = ({ status }: PersistentVolumeClaim, target: string) =>
  status?.modifyVolumeStatus?.targetVolumeAttributesClassName === target ? status.modifyVolumeStatus.status : undefined;

function needsModification({ spec, status }: PersistentVolumeClaim): boolean {
  const target = spec?.volumeAttributesClassName;
  if (status?.phase !== 'Bound' || target === undefined || target === '') return false;
  // the claim may have returned to its current class: a modification that was started has to be reverted
  const started = status.modifyVolumeStatus?.targetVolumeAttributesClassName;
  return target !== status.currentVolumeAttributesClassName || (started !== undefined && started !== target);
}
