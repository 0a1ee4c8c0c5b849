import { claimTokens, secretReference } from '@oarlock/api/component-helpers/class-secrets';
import { objectKey, splitKey, type ObjectKey } from '@oarlock/api/object';
import { quantityValue } from '@oarlock/api/values/quantity';
import {
  csiNodes,
  nodes,
  persistentVolumeClaims,
  persistentVolumes,
  storageClasses,
  volumeAttachments,
  volumeAttributesClasses,
} from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { Node, PersistentVolume, PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import type { CSINode, StorageClass, VolumeAttachment, VolumeAttributesClass } from '@oarlock/api/types/storage-v1';
import type { CsiVolume, Strings } from '@oarlock/csi/csi-types';
import { GrpcError } from '@oarlock/grpc/grpc-error';
import type { Informer } from '@oarlock/spi/client';
import { callErrorText } from '../volume/call-error-text.ts';
import { cloneFinalizer, cloneSourceOf, protectCloneSource, releaseCloneSource } from './internal/clone-protection.ts';
import { fillingOf } from './internal/content-source.ts';
import { annotations, capabilityOf, finalizer, isHere, provisionerOf, volumeFor } from '../volume/provisioned-volume.ts';
import { driverParameters, readSecrets } from '../volume/secrets.ts';
import type { Sidecar, SidecarOptions } from './sidecar.ts';
import { requirementOf } from './internal/topology.ts';
import { WorkqueueController } from './workqueue-controller.ts';

/**
 * Does the work of external-provisioner for a driver: creates volumes for PersistentVolumeClaims, and deletes the volumes when their claims are
 * deleted. If volumes belong to a node, each node handles its own volumes.
 */
export class Provisioner implements Sidecar {
  readonly #options: SidecarOptions;
  readonly #claims: Informer<PersistentVolumeClaim>;
  readonly #volumes: Informer<PersistentVolume>;
  readonly #classes: Informer<StorageClass>;
  readonly #attributes: Informer<VolumeAttributesClass>;
  readonly #attachments: Informer<VolumeAttachment>;
  readonly #places: { readonly nodes: Informer<Node>; readonly csiNodes: Informer<CSINode> };
  /** The workqueue, with the keys `claim NAMESPACE/NAME`, `source NAMESPACE/NAME` (of a clone) and `volume NAME`. */
  readonly #loop: WorkqueueController;

  constructor(options: SidecarOptions) {
    const { informers, clock, log, driver } = options;
    this.#options = options;
    this.#claims = informers.forResource(persistentVolumeClaims);
    this.#volumes = informers.forResource(persistentVolumes);
    this.#classes = informers.forResource(storageClasses);
    this.#attributes = informers.forResource(volumeAttributesClasses);
    this.#attachments = informers.forResource(volumeAttachments);
    this.#places = { nodes: informers.forResource(nodes), csiNodes: informers.forResource(csiNodes) };
    this.#loop = new WorkqueueController({
      name: `provisioner-${driver.name}`,
      clock,
      log,
      caches: [
        this.#claims,
        this.#volumes,
        this.#classes,
        this.#attachments,
        ...(driver.config.central ? [this.#places.nodes, this.#places.csiNodes] : []),
        ...(driver.controllerCapabilities.has('MODIFY_VOLUME') ? [this.#attributes] : []),
      ],
      reconcile: (key) => {
        const [kind, name = ''] = key.split(' ');
        if (kind === 'source') return releaseCloneSource(options.client, name, { driver, claims: this.#claims, volumes: this.#volumes });
        return kind === 'claim' ? this.#claim(name) : this.#volume(name);
      },
    });
  }

  start(): void {
    const source = (object: PersistentVolumeClaim) => {
      const key = object.metadata?.finalizers?.includes(cloneFinalizer) === true ? objectKey(object) : cloneSourceOf(object);
      if (key !== undefined) this.#loop.add(`source ${key}`);
    };
    const claim = (object: PersistentVolumeClaim) => {
      this.#loop.add(`claim ${objectKey(object)}`);
      source(object);
    };
    const volume = (object: PersistentVolume) => this.#loop.add(`volume ${object.metadata?.name}`);
    this.#loop.start(
      this.#claims.addEventHandler({ onAdd: claim, onUpdate: claim, onDelete: source }),
      this.#volumes.addEventHandler({ onAdd: volume, onUpdate: volume }),
      // a class may be created after the claims that name it
      this.#classes.addEventHandler({
        onAdd: ({ metadata }) => {
          for (const object of this.#claims.list()) if (object.spec?.storageClassName === metadata?.name) claim(object);
        },
      }),
    );
  }
  stop(): Promise<void> {
    return this.#loop.stop();
  }

  async #claim(key: ObjectKey): Promise<void> {
    const claim = this.#claims.get(key);
    if (claim === undefined || claim.metadata?.deletionTimestamp !== undefined) return;
    if (!claim.spec?.volumeName && this.#isOurs(claim)) await this.#provision(claim);
  }

  #isOurs(claim: PersistentVolumeClaim): boolean {
    const { metadata, spec } = claim;
    const { driver, nodeName } = this.#options;
    if (provisionerOf(claim) !== driver.name) return false;
    const waits = this.#classes.get(spec?.storageClassName ?? '')?.volumeBindingMode === 'WaitForFirstConsumer';
    const selected = metadata?.annotations?.[annotations.selectedNode];
    if (selected === undefined) return !waits;
    return selected === nodeName || driver.node.accessibleTopology === undefined || driver.config.central;
  }

  async #provision(claim: PersistentVolumeClaim): Promise<void> {
    const { driver, client, recorder } = this.#options;
    const { metadata = {}, spec = {} } = claim;
    const name = `pvc-${metadata.uid}`;
    const storageClass = this.#classes.get(spec.storageClassName ?? '');
    if (storageClass === undefined || this.#volumes.get(name) !== undefined) return;
    let volume: CsiVolume | undefined;
    try {
      volume = await this.#make(claim, storageClass, name);
    } catch (error) {
      await this.#failed(claim, error);
      throw error;
    }
    if (volume === undefined) return;
    try {
      await client.create(persistentVolumes, volumeFor(claim, { storageClass, csiVolume: volume, driver: driver.name }));
    } catch (error) {
      if (!isStatus(error, 'AlreadyExists')) throw error;
      // another node created it first; which node does is arbitrary here
      const existing = await client.get(persistentVolumes, { name });
      if (existing.spec?.csi?.volumeHandle !== volume.volumeId) await driver.client.deleteVolume(volume.volumeId, {});
      return;
    }
    recorder.event(claim, 'Normal', 'ProvisioningSucceeded', `Successfully provisioned volume ${name}`);
  }

  /**
   * Creates the volume of a claim. Returns undefined if a volume populator fills the claim.
   * @throws GrpcError if CreateVolume fails, Error if the claim's source or topology cannot be used
   */
  async #make(claim: PersistentVolumeClaim, storageClass: StorageClass, name: string): Promise<CsiVolume | undefined> {
    const { driver, client, recorder } = this.#options;
    const { metadata, spec } = claim;
    const filling = await fillingOf(claim, { driver, client, volumes: this.#volumes });
    if (filling === 'foreign') {
      recorder.event(claim, 'Normal', 'Provisioning', 'Assuming an external populator will provision the volume');
      return undefined;
    }
    recorder.event(claim, 'Normal', 'Provisioning', `External provisioner is provisioning volume for claim "${objectKey(claim)}"`);
    const requiredBytes = quantityValue(spec?.resources?.requests?.['storage'] ?? '0');
    if (filling !== undefined && requiredBytes < filling.leastBytes)
      throw new Error(`requested volume size ${requiredBytes} is less than the size ${filling.leastBytes} for the source snapshot`);
    const cloned = cloneSourceOf(claim);
    if (cloned !== undefined) await protectCloneSource(client, cloned);
    const limit = spec?.resources?.limits?.['storage'];
    const selected = metadata?.annotations?.[annotations.selectedNode];
    const accessibilityRequirements = requirementOf(claim, {
      storageClass,
      selectedNode: selected,
      csiDriver: driver,
      sources: this.#places,
    });
    const secret = secretReference(storageClass.parameters, 'provisioner', claimTokens(name, claim));
    const secrets = await readSecrets(client, { ref: secret, reader: 'sidecar' });
    const volume = await driver.client.createVolume({
      name,
      capacityRange: { requiredBytes, ...(limit !== undefined && { limitBytes: quantityValue(limit) }) },
      volumeCapabilities: [capabilityOf(claim, storageClass, driver)],
      parameters: driverParameters(storageClass.parameters),
      secrets,
      ...this.#mutable(claim),
      ...(filling && { volumeContentSource: filling.source }),
      ...(accessibilityRequirements && { accessibilityRequirements }),
    });
    const problem = problemOf(volume, { requiredBytes, fromSource: filling !== undefined });
    if (problem === undefined) return volume;
    throw new Error(await this.#removeUnusable(volume, { name, problem, secrets }));
  }

  /**
   * Deletes a volume that is not what was requested. A volume with a PersistentVolume is kept: the driver answers a repeated call with less than the
   * first, and claims use the volume. Returns the problem, and why the volume could not be deleted.
   */
  async #removeUnusable(
    { volumeId }: CsiVolume,
    { name, problem, secrets }: { readonly name: string; readonly problem: string; readonly secrets: Strings },
  ): Promise<string> {
    const { driver, client } = this.#options;
    try {
      const used = await client.get(persistentVolumes, { name }).catch(ignoreNotFound);
      if (used === undefined) await driver.client.deleteVolume(volumeId, secrets);
      return problem;
    } catch (error) {
      return `${problem}. Cleanup of volume ${name} failed, volume is orphaned: ${callErrorText(error)}`;
    }
  }

  /** Returns the parameters of the claim's VolumeAttributesClass. @throws Error if the class does not exist or belongs to another driver */
  #mutable({ spec }: PersistentVolumeClaim): { readonly mutableParameters?: Strings } {
    const name = spec?.volumeAttributesClassName;
    const { driver } = this.#options;
    if (!name) return {};
    if (!driver.controllerCapabilities.has('MODIFY_VOLUME'))
      throw new Error('CSI driver does not support VolumeAttributesClass: controller MODIFY_VOLUME capability is not reported');
    const found = this.#attributes.get(name);
    if (found === undefined) throw new Error(`failed to get VolumeAttributesClass ${name}`);
    if (found.driverName !== driver.name) throw new Error(`VolumeAttributesClass ${name} is of the driver ${found.driverName}`);
    return { mutableParameters: found.parameters ?? {} };
  }

  async #failed(claim: PersistentVolumeClaim, error: unknown): Promise<void> {
    const { client, recorder, driver } = this.#options;
    recorder.event(
      claim,
      'Warning',
      'ProvisioningFailed',
      `failed to provision volume with StorageClass "${claim.spec?.storageClassName}": ${callErrorText(error)}`,
    );
    if (!(error instanceof GrpcError) || claim.metadata?.annotations?.[annotations.selectedNode] === undefined) return;
    // another node may have enough capacity, or the source of the content
    const elsewhere = error.code === 'RESOURCE_EXHAUSTED' || (error.code === 'NOT_FOUND' && driver.node.accessibleTopology !== undefined);
    if (elsewhere)
      await client.patch(persistentVolumeClaims, nameOf(claim), 'merge', {
        metadata: { annotations: { [annotations.selectedNode]: null } },
      });
  }

  async #volume(name: string): Promise<void> {
    const { driver, client, recorder } = this.#options;
    const volume = this.#volumes.get(name);
    if (volume?.spec?.csi?.driver !== driver.name || volume.metadata?.annotations?.[annotations.provisionedBy] !== driver.name) return;
    if (volume.spec.persistentVolumeReclaimPolicy !== 'Delete' || !isHere(volume, driver)) return;
    const released =
      volume.status?.phase === 'Released' || (volume.metadata.deletionTimestamp !== undefined && volume.status?.phase !== 'Bound');
    if (!released) return;
    const attached = this.#attachments.list().find(({ spec }) => spec.source.persistentVolumeName === name);
    if (attached !== undefined) throw new Error(`persistentvolume ${name} is still attached to node ${attached.spec.nodeName}`);
    try {
      const { [annotations.deletionSecretName]: secret, [annotations.deletionSecretNamespace]: namespace } = volume.metadata.annotations;
      const ref = secret && namespace ? { name: secret, namespace } : undefined;
      await driver.client.deleteVolume(volume.spec.csi.volumeHandle, await readSecrets(client, { ref, reader: 'sidecar' }));
    } catch (error) {
      recorder.event(volume, 'Warning', 'VolumeFailedDelete', callErrorText(error));
      throw error;
    }
    if (volume.metadata.deletionTimestamp === undefined) await client.delete(persistentVolumes, { name }).catch(ignoreNotFound);
    const left = await client.get(persistentVolumes, { name }).catch(ignoreNotFound);
    if (left?.metadata?.finalizers?.includes(finalizer) === true)
      await client.update(persistentVolumes, {
        ...left,
        metadata: { ...left.metadata, finalizers: left.metadata.finalizers.filter((each) => each !== finalizer) },
      });
  }
}

/** Returns why a created volume cannot be used, in external-provisioner's words; undefined if it can. */
function problemOf(
  { capacityBytes, contentSource }: CsiVolume,
  { requiredBytes, fromSource }: { readonly requiredBytes: number; readonly fromSource: boolean },
): string | undefined {
  if (capacityBytes > 0 && capacityBytes < requiredBytes)
    return `created volume capacity ${capacityBytes} less than requested capacity ${requiredBytes}`;
  return fromSource && contentSource === undefined ? 'volume content source missing' : undefined;
}

const nameOf = (claim: PersistentVolumeClaim) => {
  const { namespace = '', name } = splitKey(objectKey(claim));
  return { namespace, name };
};
const ignoreNotFound = (error: unknown): undefined => {
  if (!isStatus(error, 'NotFound')) throw error;
};
