import { objectKey, splitKey, type ObjectKey } from '@oarlock/api/object';
import { compareQuantity, value } from '@oarlock/api/quantity';
import { persistentVolumeClaims, persistentVolumes, storageClasses } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { PersistentVolume, PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import type { StorageClass } from '@oarlock/api/types/storage-v1';
import { Workqueue } from '@oarlock/client/workqueue';
import type { ContentSource, CsiVolume } from '@oarlock/csi/csi-types';
import { GrpcError } from '@oarlock/grpc/grpc-error';
import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import type { Client, EventRecorder, Informer, Informers } from '@oarlock/spi/client';
import type { CsiDriver } from './csi-driver.ts';
import { annotations, capabilityOf, finalizer, isHere, provisionerOf, quantityOf, volumeFor } from './provisioned-volume.ts';

export interface ProvisionerOptions {
  readonly driver: CsiDriver;
  readonly nodeName: string;
  readonly client: Client;
  readonly informers: Informers;
  readonly recorder: EventRecorder;
  readonly clock: Clock;
  readonly log: Logger;
}

const workers = 8;

/**
 * Does for a driver on this node what an external provisioner and an external resizer beside it would: makes volumes for claims, grows them, and
 * deletes them when their claims are gone. Where volumes are bound to a node, each node looks after its own.
 */
export class Provisioner {
  readonly #options: ProvisionerOptions;
  readonly #claims: Informer<PersistentVolumeClaim>;
  readonly #volumes: Informer<PersistentVolume>;
  readonly #classes: Informer<StorageClass>;
  /** `claim NAMESPACE/NAME` and `volume NAME`. */
  readonly #queue: Workqueue<string>;
  readonly #off: (() => void)[] = [];
  #running: Promise<unknown> = Promise.resolve();

  constructor(options: ProvisionerOptions) {
    const { informers, clock } = options;
    this.#options = options;
    this.#claims = informers.of(persistentVolumeClaims);
    this.#volumes = informers.of(persistentVolumes);
    this.#classes = informers.of(storageClasses);
    this.#queue = new Workqueue({ name: `provisioner-${options.driver.name}`, clock, failureDelay: { firstMs: 500, longestMs: 60_000 } });
  }

  start(): void {
    const claim = (object: PersistentVolumeClaim) => this.#queue.add(`claim ${objectKey(object)}`);
    const volume = (object: PersistentVolume) => this.#queue.add(`volume ${object.metadata?.name}`);
    this.#off.push(
      this.#claims.on({ added: claim, updated: claim }),
      this.#volumes.on({ added: volume, updated: volume }),
      // a class may come after the claims that name it
      this.#classes.on({
        added: ({ metadata }) => {
          for (const object of this.#claims.list()) if (object.spec?.storageClassName === metadata?.name) claim(object);
        },
      }),
    );
    this.#running = Promise.all([this.#claims, this.#volumes, this.#classes].map((informer) => informer.whenSynced())).then(() =>
      Promise.all(Array.from({ length: workers }, () => this.#work())),
    );
  }

  async stop(): Promise<void> {
    for (const off of this.#off) off();
    this.#queue.shutDown();
    await this.#running;
  }

  async #work(): Promise<void> {
    for (let work = await this.#queue.next(); work !== undefined; work = await this.#queue.next()) {
      const { key } = work;
      try {
        const [kind, name = ''] = key.split(' ');
        await (kind === 'claim' ? this.#claim(name) : this.#volume(name));
        this.#queue.forget(key);
      } catch (error) {
        const retryMs = this.#queue.addRateLimited(key);
        if (!isStatus(error, 'Conflict'))
          this.#options.log.warn({ key, error: String(error), retryMs }, 'a volume is not as it should be yet');
      } finally {
        this.#queue.done(key);
      }
    }
  }

  async #claim(key: ObjectKey): Promise<void> {
    const claim = this.#claims.get(key);
    if (claim === undefined || claim.metadata?.deletionTimestamp !== undefined) return;
    if (claim.spec?.volumeName) await this.#grow(claim, claim.spec.volumeName);
    else if (this.#isOurs(claim)) await this.#provision(claim);
  }

  #isOurs(claim: PersistentVolumeClaim): boolean {
    const { metadata, spec } = claim;
    const { driver, nodeName } = this.#options;
    if (provisionerOf(claim) !== driver.name || !driver.controllerAbilities.has('CREATE_DELETE_VOLUME')) return false;
    const waits = this.#classes.get(spec?.storageClassName ?? '')?.volumeBindingMode === 'WaitForFirstConsumer';
    const selected = metadata?.annotations?.[annotations.selectedNode];
    return selected === undefined ? !waits : selected === nodeName || driver.node.accessibleTopology === undefined;
  }

  async #provision(claim: PersistentVolumeClaim): Promise<void> {
    const { driver, client, recorder } = this.#options;
    const { metadata = {}, spec = {} } = claim;
    const name = `pvc-${metadata.uid}`;
    const storageClass = this.#classes.get(spec.storageClassName ?? '');
    if (storageClass === undefined || this.#volumes.get(name) !== undefined) return;
    recorder.event(claim, 'Normal', 'Provisioning', `External provisioner is provisioning volume for claim "${objectKey(claim)}"`);
    let volume: CsiVolume;
    try {
      volume = await driver.client.createVolume({
        name,
        capacityRange: { requiredBytes: value(spec.resources?.requests?.['storage'] ?? '0') },
        volumeCapabilities: [capabilityOf(claim, storageClass, driver)],
        parameters: Object.fromEntries(
          Object.entries(storageClass.parameters ?? {}).filter(([key]) => !key.startsWith('csi.storage.k8s.io/')),
        ),
        ...(await this.#source(claim)),
        ...(driver.node.accessibleTopology && {
          accessibilityRequirements: { requisite: [driver.node.accessibleTopology], preferred: [driver.node.accessibleTopology] },
        }),
      });
    } catch (error) {
      const why = error instanceof GrpcError ? `rpc error: code = ${error.code} desc = ${error.message}` : String(error);
      recorder.event(
        claim,
        'Warning',
        'ProvisioningFailed',
        `failed to provision volume with StorageClass "${spec.storageClassName}": ${why}`,
      );
      // another node may have room
      if (
        error instanceof GrpcError &&
        error.code === 'RESOURCE_EXHAUSTED' &&
        metadata.annotations?.[annotations.selectedNode] !== undefined
      )
        await client.patch(persistentVolumeClaims, nameOf(claim), 'merge', {
          metadata: { annotations: { [annotations.selectedNode]: null } },
        });
      throw error;
    }
    try {
      await client.create(persistentVolumes, volumeFor(claim, storageClass, volume, driver.name));
    } catch (error) {
      if (!isStatus(error, 'AlreadyExists')) throw error;
      // another node was faster where it does not matter which one it is
      const there = await client.get(persistentVolumes, { name });
      if (there.spec?.csi?.volumeHandle !== volume.volumeId) await driver.client.deleteVolume(volume.volumeId, {});
      return;
    }
    recorder.event(claim, 'Normal', 'ProvisioningSucceeded', `Successfully provisioned volume ${name}`);
  }

  /** What a claim is to be filled from: another claim of the driver. */
  async #source({ metadata, spec }: PersistentVolumeClaim): Promise<{ readonly volumeContentSource?: ContentSource }> {
    const source = spec?.dataSource ?? spec?.dataSourceRef;
    if (source === undefined) return {};
    if (source.kind !== 'PersistentVolumeClaim') throw new Error(`a volume cannot be made from a ${source.kind}`);
    const from = await this.#options.client.get(persistentVolumeClaims, { namespace: metadata?.namespace ?? '', name: source.name });
    const volume = this.#volumes.get(from.spec?.volumeName ?? '');
    const handle = volume?.spec?.csi?.driver === this.#options.driver.name ? volume.spec.csi.volumeHandle : undefined;
    if (handle === undefined) throw new Error(`the claim ${source.name} has no volume of ${this.#options.driver.name}`);
    return { volumeContentSource: { volume: { volumeId: handle } } };
  }

  async #volume(name: string): Promise<void> {
    const { driver, client, recorder } = this.#options;
    const volume = this.#volumes.get(name);
    if (volume?.spec?.csi?.driver !== driver.name || volume.metadata?.annotations?.[annotations.provisionedBy] !== driver.name) return;
    if (volume.spec.persistentVolumeReclaimPolicy !== 'Delete' || !isHere(volume, driver.node.accessibleTopology)) return;
    const released =
      volume.status?.phase === 'Released' || (volume.metadata.deletionTimestamp !== undefined && volume.status?.phase !== 'Bound');
    if (!released) return;
    try {
      await driver.client.deleteVolume(volume.spec.csi.volumeHandle, {});
    } catch (error) {
      recorder.event(volume, 'Warning', 'VolumeFailedDelete', error instanceof Error ? error.message : String(error));
      throw error;
    }
    if (volume.metadata.deletionTimestamp === undefined) await client.delete(persistentVolumes, { name }).catch(gone);
    const left = await client.get(persistentVolumes, { name }).catch(gone);
    if (left?.metadata?.finalizers?.includes(finalizer) === true)
      await client.update(persistentVolumes, {
        ...left,
        metadata: { ...left.metadata, finalizers: left.metadata.finalizers.filter((each) => each !== finalizer) },
      });
  }

  /** More room for a claim that asks for it: in the driver, in the volume, and last in the claim. */
  async #grow(claim: PersistentVolumeClaim, volumeName: string): Promise<void> {
    const { driver, client, recorder } = this.#options;
    const volume = this.#volumes.get(volumeName);
    const csi = volume?.spec?.csi;
    const wanted = claim.spec?.resources?.requests?.['storage'] ?? '0';
    if (volume === undefined || csi?.driver !== driver.name || claim.status?.phase !== 'Bound') return;
    if (compareQuantity(wanted, claim.status.capacity?.['storage'] ?? '0') <= 0) return;
    if (!driver.controllerAbilities.has('CONTROLLER_EXPAND_VOLUME') || !isHere(volume, driver.node.accessibleTopology)) return;
    recorder.event(claim, 'Normal', 'Resizing', `External resizer is resizing volume ${volumeName}`);
    let bytes: number;
    try {
      ({ capacityBytes: bytes } = await driver.client.expand({
        volumeId: csi.volumeHandle,
        capacityRange: { requiredBytes: value(wanted) },
      }));
    } catch (error) {
      recorder.event(
        claim,
        'Warning',
        'VolumeResizeFailed',
        `resize volume "${volumeName}" by resizer "${driver.name}" failed: ${error instanceof Error ? error.message : String(error)}`,
      );
      throw error;
    }
    const capacity = { storage: quantityOf(bytes) };
    await client.patch(persistentVolumes, { name: volumeName }, 'merge', { spec: { capacity } });
    await client.patch(
      persistentVolumeClaims,
      nameOf(claim),
      'merge',
      {
        status: {
          capacity,
          conditions: (claim.status.conditions ?? []).filter(({ type }) => type !== 'Resizing' && type !== 'FileSystemResizePending'),
        },
      },
      { subresource: 'status' },
    );
    recorder.event(claim, 'Normal', 'VolumeResizeSuccessful', 'Resize volume succeeded');
  }
}

const nameOf = (claim: PersistentVolumeClaim) => {
  const { namespace = '', name } = splitKey(objectKey(claim));
  return { namespace, name };
};
const gone = (error: unknown): undefined => {
  if (!isStatus(error, 'NotFound')) throw error;
};
