import { objectKey, splitKey } from '@oarlock/api/object';
import { persistentVolumeClaims, persistentVolumes, volumeAttributesClasses } from '@oarlock/api/resources';
import { formatTime } from '@oarlock/api/time';
import type { PersistentVolume, PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import type { VolumeAttributesClass } from '@oarlock/api/types/storage-v1';
import { GrpcError } from '@oarlock/grpc/grpc-error';
import type { Informer } from '@oarlock/spi/client';
import { changedConditions } from './claim-conditions.ts';
import { isHere } from './provisioned-volume.ts';
import { readSecrets } from './secrets.ts';
import type { Sidecar, SidecarOptions } from './sidecar.ts';
import { WorkLoop } from './work-loop.ts';

const ofModifying = ['ModifyingVolume', 'ModifyVolumeError'];
/** Codes after which a claim may be given another class: no time heals them. */
const infeasible = new Set(['INVALID_ARGUMENT', 'OUT_OF_RANGE', 'NOT_FOUND', 'FAILED_PRECONDITION', 'UNIMPLEMENTED']);

/** Brings volumes to the VolumeAttributesClass that their claims ask for (KEP-3751), as an external resizer would. */
export class Modifier implements Sidecar {
  readonly #options: SidecarOptions;
  readonly #claims: Informer<PersistentVolumeClaim>;
  readonly #volumes: Informer<PersistentVolume>;
  readonly #classes: Informer<VolumeAttributesClass>;
  readonly #loop: WorkLoop;

  constructor(options: SidecarOptions) {
    const { informers, clock, log, driver } = options;
    this.#options = options;
    this.#claims = informers.of(persistentVolumeClaims);
    this.#volumes = informers.of(persistentVolumes);
    this.#classes = informers.of(volumeAttributesClasses);
    this.#loop = new WorkLoop({
      name: `modifier-${driver.name}`,
      clock,
      log,
      caches: [this.#claims, this.#volumes, this.#classes],
      work: (key) => this.#look(key),
    });
  }

  start(): void {
    const see = (claim: PersistentVolumeClaim) => {
      if (wantsOther(claim)) this.#loop.add(objectKey(claim));
    };
    this.#loop.start(
      this.#claims.on({
        added: see,
        // what is said here of how it goes is no reason to try again
        updated: (claim, old) => {
          if (claim === old || targetOf(claim) !== targetOf(old)) see(claim);
        },
      }),
      this.#classes.on({
        added: ({ metadata }) => {
          for (const claim of this.#claims.list()) if (claim.spec?.volumeAttributesClassName === metadata?.name) see(claim);
        },
      }),
    );
  }
  stop(): Promise<void> {
    return this.#loop.stop();
  }

  async #look(key: string): Promise<void> {
    const { driver, client, recorder } = this.#options;
    const claim = this.#claims.get(key);
    const volume = this.#volumes.get(claim?.spec?.volumeName ?? '');
    const csi = volume?.spec?.csi;
    if (claim === undefined || volume === undefined || csi?.driver !== driver.name || !wantsOther(claim)) return;
    if (!isHere(volume, driver)) return;
    const target = claim.spec?.volumeAttributesClassName ?? '';
    const wanted = this.#classes.get(target);
    if (wanted === undefined) {
      if (modifying(claim, target) !== 'Pending') await this.#say(claim, target, 'Pending');
      recorder.event(claim, 'Warning', 'VolumeModifyFailed', `VAC ${target} does not exist`);
      return;
    }
    if (wanted.driverName !== driver.name) {
      await this.#say(claim, target, 'Infeasible');
      recorder.event(
        claim,
        'Warning',
        'VolumeModifyFailed',
        `VAC ${target} is of the driver ${wanted.driverName}, and the volume of ${driver.name}`,
      );
      return;
    }
    // one that was found to be impossible stays so in its status, as long as nobody asks for another
    const impossible = modifying(claim, target) === 'Infeasible';
    if (!impossible) await this.#say(claim, target, 'InProgress');
    recorder.event(claim, 'Normal', 'VolumeModify', `external resizer is modifying volume ${key} with vac ${target}`);
    try {
      await driver.client.modify({
        volumeId: csi.volumeHandle,
        secrets: await readSecrets(client, csi.controllerExpandSecretRef),
        mutableParameters: wanted.parameters ?? {},
      });
    } catch (error) {
      const status = error instanceof GrpcError && infeasible.has(error.code) ? 'Infeasible' : 'InProgress';
      if (!impossible || status !== 'Infeasible') await this.#say(claim, target, status);
      recorder.event(claim, 'Warning', 'VolumeModifyFailed', error instanceof Error ? error.message : String(error));
      throw error;
    }
    await client.patch(persistentVolumes, { name: volume.metadata?.name ?? '' }, 'merge', { spec: { volumeAttributesClassName: target } });
    await this.#patch(claim, {
      currentVolumeAttributesClassName: target,
      modifyVolumeStatus: null,
      conditions: changedConditions(ofModifying),
    });
    recorder.event(claim, 'Normal', 'VolumeModifySuccessful', `external resizer modified volume ${key} with vac ${target} successfully`);
  }

  async #say(claim: PersistentVolumeClaim, target: string, status: 'Pending' | 'InProgress' | 'Infeasible'): Promise<void> {
    const condition = {
      type: 'ModifyingVolume',
      status: 'True',
      lastTransitionTime: formatTime(this.#options.clock.now()),
      message: 'ModifyVolume operation in progress.',
    };
    await this.#patch(claim, {
      modifyVolumeStatus: { status, targetVolumeAttributesClassName: target },
      conditions: changedConditions(['ModifyingVolume'], status === 'InProgress' ? condition : undefined),
    });
  }

  async #patch(claim: PersistentVolumeClaim, status: object): Promise<void> {
    const { namespace = '', name } = splitKey(objectKey(claim));
    await this.#options.client.patch(persistentVolumeClaims, { namespace, name }, 'strategic', { status }, { subresource: 'status' });
  }
}

/** What makes a claim worth another look. */
const targetOf = ({ spec, status }: PersistentVolumeClaim) =>
  `${spec?.volumeAttributesClassName} ${spec?.volumeName} ${status?.phase} ${status?.currentVolumeAttributesClassName}`;
const modifying = ({ status }: PersistentVolumeClaim, target: string) =>
  status?.modifyVolumeStatus?.targetVolumeAttributesClassName === target ? status.modifyVolumeStatus.status : undefined;

function wantsOther({ spec, status }: PersistentVolumeClaim): boolean {
  const wanted = spec?.volumeAttributesClassName;
  if (status?.phase !== 'Bound' || wanted === undefined || wanted === '') return false;
  // somebody may have thought better of it: what was begun is undone
  const begun = status.modifyVolumeStatus?.targetVolumeAttributesClassName;
  return wanted !== status.currentVolumeAttributesClassName || (begun !== undefined && begun !== wanted);
}
