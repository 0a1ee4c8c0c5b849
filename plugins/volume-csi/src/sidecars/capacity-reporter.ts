import { createHash } from 'node:crypto';
import { csiStorageCapacities, persistentVolumes, storageClasses } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { CSIStorageCapacity, StorageClass } from '@oarlock/api/types/storage-v1';
import type { Informer } from '@oarlock/spi/client';
import { quantityOf } from '../volume/provisioned-volume.ts';
import { driverParameters } from '../volume/secrets.ts';
import type { Sidecar, SidecarOptions } from './sidecar.ts';
import { WorkqueueController } from './workqueue-controller.ts';

/** The namespace of the CSIStorageCapacity objects, which are namespaced but belong to no other object. */
const namespace = 'kube-system';
const labels = { manager: 'csi.storage.k8s.io/managed-by', driver: 'csi.storage.k8s.io/drivername' };
const manager = 'oarlock-volume-csi';
/** How often the capacity is queried without an event. Milliseconds. */
const pollPeriodMs = 60_000;
/** The delay of the query after a volume event, so that a burst of events causes one query. Milliseconds. */
const batchDelayMs = 200;

/**
 * Publishes the driver's capacity on this node for each StorageClass (CSIStorageCapacity, KEP-1472), so that pods are scheduled to nodes with enough
 * capacity.
 */
export class CapacityReporter implements Sidecar {
  readonly #options: SidecarOptions;
  readonly #classes: Informer<StorageClass>;
  readonly #controller: WorkqueueController;

  constructor(options: SidecarOptions) {
    const { informers, clock, log, driver } = options;
    this.#options = options;
    this.#classes = informers.forResource(storageClasses);
    this.#controller = new WorkqueueController({
      name: `capacity-${driver.name}`,
      clock,
      log,
      caches: [this.#classes],
      reconcile: (key) => this.#report(key),
    });
  }

  start(): void {
    const { informers, driver } = this.#options;
    const add = ({ metadata, provisioner }: StorageClass) => {
      if (provisioner === driver.name) this.#controller.add(metadata?.name ?? '');
    };
    const addAll = () => {
      for (const { metadata, provisioner } of this.#classes.list())
        if (provisioner === driver.name) this.#controller.addAfter(metadata?.name ?? '', batchDelayMs);
    };
    this.#controller.start(
      this.#classes.addEventHandler({ onAdd: add, onUpdate: add, onDelete: ({ metadata }) => this.#controller.add(metadata?.name ?? '') }),
      informers.forResource(persistentVolumes).addEventHandler({ onAdd: addAll, onDelete: addAll }),
    );
  }
  stop(): Promise<void> {
    return this.#controller.stop();
  }

  async #report(className: string): Promise<void> {
    const { driver, client } = this.#options;
    const name = this.#nameOf(className);
    const storageClass = this.#classes.get(className);
    const segments = driver.node.accessibleTopology?.segments;
    if (storageClass === undefined || storageClass.provisioner !== driver.name) {
      await client.delete(csiStorageCapacities, { namespace, name }).catch(ignoreNotFound);
      return;
    }
    const { availableCapacity, maximumVolumeSize } = await driver.client.getCapacity({
      parameters: driverParameters(storageClass.parameters),
      ...(segments && { accessibleTopology: { segments } }),
    });
    const desired: CSIStorageCapacity = {
      metadata: { namespace, name, labels: { [labels.manager]: manager, [labels.driver]: driver.name } },
      storageClassName: className,
      nodeTopology: { ...(segments && { matchLabels: segments }) },
      capacity: quantityOf(availableCapacity),
      ...(maximumVolumeSize && { maximumVolumeSize: quantityOf(maximumVolumeSize.value) }),
    };
    const existing = await client.get(csiStorageCapacities, { namespace, name }).catch(ignoreNotFound);
    if (existing === undefined) await client.create(csiStorageCapacities, desired);
    else if (existing.capacity !== desired.capacity || existing.maximumVolumeSize !== desired.maximumVolumeSize)
      await client.update(csiStorageCapacities, {
        ...existing,
        capacity: desired.capacity ?? '0',
        ...(desired.maximumVolumeSize && { maximumVolumeSize: desired.maximumVolumeSize }),
      });
    this.#controller.addAfter(className, pollPeriodMs);
  }

  /** Returns the name of the object, which is the same in every process on this node. */
  #nameOf(className: string): string {
    const { driver, nodeName } = this.#options;
    const segment = driver.node.accessibleTopology === undefined ? '' : nodeName;
    return `csisc-${createHash('sha256').update(`${driver.name}\0${className}\0${segment}`).digest('hex').slice(0, 20)}`;
  }
}

const ignoreNotFound = (error: unknown): undefined => {
  if (!isStatus(error, 'NotFound')) throw error;
};
