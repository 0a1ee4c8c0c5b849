import { createHash } from 'node:crypto';
import { csiDrivers, csiNodes, csiStorageCapacities, nodes, persistentVolumes, storageClasses } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { Node } from '@oarlock/api/types/core-v1';
import type { CSIDriver, CSINode, CSIStorageCapacity, StorageClass } from '@oarlock/api/types/storage-v1';
import type { Strings } from '@oarlock/csi/csi-types';
import type { Informer } from '@oarlock/spi/client';
import { quantityOf } from '../volume/provisioned-volume.ts';
import { driverParameters } from '../volume/secrets.ts';
import type { Sidecar, SidecarOptions } from './sidecar.ts';
import { topologiesOf, topologyText } from './internal/topology.ts';
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
 * Publishes the driver's capacity for each StorageClass that waits for the first consumer (CSIStorageCapacity, KEP-1472), so that pods are scheduled
 * to nodes with enough capacity. A driver with a controller per node reports the capacity of its node; a driver with one controller for all nodes
 * that of each topology. Does nothing while the CSIDriver does not have `storageCapacity`.
 */
export class CapacityReporter implements Sidecar {
  readonly #options: SidecarOptions;
  readonly #classes: Informer<StorageClass>;
  readonly #drivers: Informer<CSIDriver>;
  readonly #places: { readonly nodes: Informer<Node>; readonly csiNodes: Informer<CSINode> };
  readonly #controller: WorkqueueController;
  /** The names of the objects that this process has published, keyed by StorageClass. */
  readonly #published = new Map<string, ReadonlySet<string>>();

  constructor(options: SidecarOptions) {
    const { informers, clock, log, driver } = options;
    this.#options = options;
    this.#classes = informers.forResource(storageClasses);
    this.#drivers = informers.forResource(csiDrivers);
    this.#places = { nodes: informers.forResource(nodes), csiNodes: informers.forResource(csiNodes) };
    this.#controller = new WorkqueueController({
      name: `capacity-${driver.name}`,
      clock,
      log,
      caches: [this.#classes, this.#drivers, ...(driver.config.central ? Object.values(this.#places) : [])],
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
    const driverChanged = ({ metadata }: CSIDriver) => {
      if (metadata?.name === driver.name) addAll();
    };
    this.#controller.start(
      this.#classes.addEventHandler({ onAdd: add, onUpdate: add, onDelete: ({ metadata }) => this.#controller.add(metadata?.name ?? '') }),
      this.#drivers.addEventHandler({ onAdd: driverChanged, onUpdate: driverChanged, onDelete: driverChanged }),
      informers.forResource(persistentVolumes).addEventHandler({ onAdd: addAll, onDelete: addAll }),
      ...(driver.config.central ? [this.#places.csiNodes.addEventHandler({ onAdd: addAll, onUpdate: addAll, onDelete: addAll })] : []),
    );
  }
  stop(): Promise<void> {
    return this.#controller.stop();
  }

  async #report(className: string): Promise<void> {
    const { driver } = this.#options;
    const storageClass = this.#classes.get(className);
    const reports =
      storageClass?.provisioner === driver.name &&
      storageClass.volumeBindingMode === 'WaitForFirstConsumer' &&
      this.#drivers.get(driver.name)?.spec.storageCapacity === true;
    const segments = reports ? this.#segments() : [];
    const names = await Promise.all(segments.map((each) => this.#publish(className, storageClass?.parameters, each)));
    await this.#removeOthers(className, new Set(names));
    if (reports) this.#controller.addAfter(className, pollPeriodMs);
  }

  /** Returns the segments of each topology that this process reports for; one undefined if the driver has no topology. */
  #segments(): readonly (Strings | undefined)[] {
    const { driver } = this.#options;
    const own = driver.node.accessibleTopology?.segments;
    if (own === undefined || !driver.config.central) return [own];
    return [...topologiesOf(driver.name, this.#places).values()].map(({ segments }) => segments);
  }

  /** Creates or updates the object of a class and a topology. Returns the name of the object. */
  async #publish(className: string, parameters: Strings | undefined, segments: Strings | undefined): Promise<string> {
    const { driver, client } = this.#options;
    const name = this.#nameOf(className, segments);
    const { availableCapacity, maximumVolumeSize } = await driver.client.getCapacity({
      parameters: driverParameters(parameters),
      ...(segments && { accessibleTopology: { segments } }),
    });
    const capacity = quantityOf(availableCapacity);
    const largest = maximumVolumeSize && quantityOf(maximumVolumeSize.value);
    const existing = await client.get(csiStorageCapacities, { namespace, name }).catch(ignoreNotFound);
    if (existing?.capacity === capacity && existing.maximumVolumeSize === largest) return name;
    const { maximumVolumeSize: _previous, ...kept } = existing ?? {
      metadata: { namespace, name, labels: this.#labels },
      storageClassName: className,
      nodeTopology: { ...(segments && { matchLabels: segments }) },
    };
    const desired: CSIStorageCapacity = { ...kept, capacity, ...(largest !== undefined && { maximumVolumeSize: largest }) };
    await (existing === undefined ? client.create(csiStorageCapacities, desired) : client.update(csiStorageCapacities, desired));
    return name;
  }

  /** Deletes the objects of a class that are not in `names`: those that this process published, and with a central driver those of all processes. */
  async #removeOthers(className: string, names: ReadonlySet<string>): Promise<void> {
    const { driver, client } = this.#options;
    const stale = new Set(this.#published.get(className));
    if (driver.config.central && names.size > 0) {
      const labelSelector = Object.entries(this.#labels)
        .map(([key, value]) => `${key}=${value}`)
        .join();
      const { items } = await client.list(csiStorageCapacities, { namespace, labelSelector });
      for (const { metadata, storageClassName } of items) if (storageClassName === className) stale.add(metadata?.name ?? '');
    }
    for (const name of stale) if (!names.has(name)) await client.delete(csiStorageCapacities, { namespace, name }).catch(ignoreNotFound);
    this.#published.set(className, names);
    if (names.size === 0) this.#published.delete(className);
  }

  get #labels(): Strings {
    return { [labels.manager]: manager, [labels.driver]: this.#options.driver.name };
  }

  /** Returns the name of the object, which is the same in every process that reports for the topology. */
  #nameOf(className: string, segments: Strings | undefined): string {
    const { driver, nodeName } = this.#options;
    const own = driver.config.central ? segments && topologyText({ segments }) : segments && nodeName;
    return `csisc-${createHash('sha256')
      .update(`${driver.name}\0${className}\0${own ?? ''}`)
      .digest('hex')
      .slice(0, 20)}`;
  }
}

const ignoreNotFound = (error: unknown): undefined => {
  if (!isStatus(error, 'NotFound')) throw error;
};
