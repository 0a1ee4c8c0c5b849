import { createHash } from 'node:crypto';
import { csiStorageCapacities, persistentVolumes, storageClasses } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { CSIStorageCapacity, StorageClass } from '@oarlock/api/types/storage-v1';
import type { Informer } from '@oarlock/spi/client';
import { quantityOf } from './provisioned-volume.ts';
import { driverParameters } from './secrets.ts';
import type { Sidecar, SidecarOptions } from './sidecar.ts';
import { WorkLoop } from './work-loop.ts';

/** Where these objects are: they have a namespace, and nobody's. */
const namespace = 'kube-system';
const labels = { manager: 'csi.storage.k8s.io/managed-by', driver: 'csi.storage.k8s.io/drivername' };
const manager = 'oarlock-volume-csi';
/** How long what a driver had free is taken for true when nothing happens. Milliseconds. */
const againMs = 60_000;
/** Volumes come in bursts: they are asked about once. */
const gatherMs = 200;

/** Says for each class of a driver how much room there is where this node is (KEP-1472), so that pods go where their claims can be served. */
export class CapacityReporter implements Sidecar {
  readonly #options: SidecarOptions;
  readonly #classes: Informer<StorageClass>;
  readonly #loop: WorkLoop;

  constructor(options: SidecarOptions) {
    const { informers, clock, log, driver } = options;
    this.#options = options;
    this.#classes = informers.of(storageClasses);
    this.#loop = new WorkLoop({ name: `capacity-${driver.name}`, clock, log, caches: [this.#classes], work: (key) => this.#report(key) });
  }

  start(): void {
    const { informers, driver } = this.#options;
    const see = ({ metadata, provisioner }: StorageClass) => {
      if (provisioner === driver.name) this.#loop.add(metadata?.name ?? '');
    };
    const all = () => {
      for (const { metadata, provisioner } of this.#classes.list())
        if (provisioner === driver.name) this.#loop.addAfter(metadata?.name ?? '', gatherMs);
    };
    this.#loop.start(
      this.#classes.on({ added: see, updated: see, deleted: ({ metadata }) => this.#loop.add(metadata?.name ?? '') }),
      informers.of(persistentVolumes).on({ added: all, deleted: all }),
    );
  }
  stop(): Promise<void> {
    return this.#loop.stop();
  }

  async #report(className: string): Promise<void> {
    const { driver, client } = this.#options;
    const name = this.#nameOf(className);
    const storageClass = this.#classes.get(className);
    const segments = driver.node.accessibleTopology?.segments;
    if (storageClass === undefined || storageClass.provisioner !== driver.name) {
      await client.delete(csiStorageCapacities, { namespace, name }).catch(gone);
      return;
    }
    const { availableCapacity, maximumVolumeSize } = await driver.client.capacity({
      parameters: driverParameters(storageClass.parameters),
      ...(segments && { accessibleTopology: { segments } }),
    });
    const wanted: CSIStorageCapacity = {
      metadata: { namespace, name, labels: { [labels.manager]: manager, [labels.driver]: driver.name } },
      storageClassName: className,
      nodeTopology: { ...(segments && { matchLabels: segments }) },
      capacity: quantityOf(availableCapacity),
      ...(maximumVolumeSize && { maximumVolumeSize: quantityOf(maximumVolumeSize.value) }),
    };
    const there = await client.get(csiStorageCapacities, { namespace, name }).catch(gone);
    if (there === undefined) await client.create(csiStorageCapacities, wanted);
    else if (there.capacity !== wanted.capacity || there.maximumVolumeSize !== wanted.maximumVolumeSize)
      await client.update(csiStorageCapacities, {
        ...there,
        capacity: wanted.capacity ?? '0',
        ...(wanted.maximumVolumeSize && { maximumVolumeSize: wanted.maximumVolumeSize }),
      });
    this.#loop.addAfter(className, againMs);
  }

  /** The same in every process on this node. */
  #nameOf(className: string): string {
    const { driver, nodeName } = this.#options;
    const where = driver.node.accessibleTopology === undefined ? '' : nodeName;
    return `csisc-${createHash('sha256').update(`${driver.name}\0${className}\0${where}`).digest('hex').slice(0, 20)}`;
  }
}

const gone = (error: unknown): undefined => {
  if (!isStatus(error, 'NotFound')) throw error;
};
