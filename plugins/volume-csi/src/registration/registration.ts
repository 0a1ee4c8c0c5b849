import { isForbiddenKubeletLabel } from '@oarlock/api/component-helpers/kubelet-labels';
import { own } from '@oarlock/api/json/json';
import { csiDrivers, csiNodes, nodes, storageClasses } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { CSINode, CSINodeDriver } from '@oarlock/api/types/storage-v1';
import type { Node } from '@oarlock/api/types/core-v1';
import type { KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import type { Client } from '@oarlock/spi/client';
import type { DriverConfig } from '../driver/config.ts';
import type { CsiDriver } from '../driver/csi-driver.ts';
import { snapshotClasses } from '../snapshot-api/snapshot-kinds.ts';
import { notes } from '../snapshot-api/snapshot-names.ts';

/** The Node annotation with the node ids of CSI drivers, as JSON keyed by driver name. Attachers read it if there is no CSINode. */
const nodeIdAnnotation = 'csi.volume.kubernetes.io/nodeid';

const ignoreExisting = (error: unknown) => {
  if (!isStatus(error, 'AlreadyExists')) throw error;
};
/**
 * Creates a cluster-scoped object, unless it exists. A node that joined may not create it: the plugin in the control plane does. If the object is
 * missing then, reports the remedy, because volumes would wait for it without a cause.
 */
async function createOrExpect<T extends KubeObject>(
  { client, onMissing }: RegistrationContext,
  resource: Resource<T>,
  object: T,
): Promise<void> {
  const name = object.metadata?.name ?? '';
  try {
    await client.create(resource, object);
  } catch (error) {
    if (isStatus(error, 'AlreadyExists')) return;
    if (!isStatus(error, 'Forbidden')) throw error;
    const exists = await client.get(resource, { name }).then(
      () => true,
      (cause: unknown) => (isStatus(cause, 'NotFound') ? false : undefined),
    );
    if (exists === true) return;
    onMissing(
      exists === false
        ? `the ${resource.kind} ${name} does not exist and this node may not create it: create it, or add the driver with its name and storageClass to volume-csi in the cluster file of the control plane`
        : `this node may neither create nor read the ${resource.kind} ${name}: make sure that the cluster file of the control plane has volume-csi`,
    );
  }
}

export interface RegistrationContext {
  readonly client: Client;
  /** Called with a sentence for the user if an object of the cluster is missing that this process may not create. */
  readonly onMissing: (message: string) => void;
}

/** The objects of a CSI driver that are created if they are missing. */
export interface DriverObjects {
  readonly driverConfig: DriverConfig;
  readonly allowVolumeExpansion: boolean;
  readonly context: RegistrationContext;
}

/** Creates the configured CSIDriver and StorageClass, unless they exist. */
export async function createDriverObjects(
  name: string,
  { driverConfig: { csiDriver, storageClass }, allowVolumeExpansion, context }: DriverObjects,
): Promise<void> {
  if (csiDriver !== undefined) {
    const { tokenRequests, ...rest } = csiDriver;
    const tokens = tokenRequests.map(({ audience, expirationSeconds }) => ({
      audience,
      ...(expirationSeconds !== undefined && { expirationSeconds }),
    }));
    const spec = { ...rest, ...(tokens.length > 0 && { tokenRequests: tokens }) };
    await createOrExpect(context, csiDrivers, { metadata: { name }, spec });
  }
  if (storageClass !== undefined)
    await createOrExpect(context, storageClasses, {
      metadata: {
        name: storageClass.name,
        ...(storageClass.default && { annotations: { 'storageclass.kubernetes.io/is-default-class': 'true' } }),
      },
      provisioner: name,
      reclaimPolicy: storageClass.reclaimPolicy,
      volumeBindingMode: storageClass.bindingMode,
      allowVolumeExpansion: storageClass.allowVolumeExpansion ?? allowVolumeExpansion,
    });
}

/** Creates the default VolumeSnapshotClass of a driver whose StorageClass is the default StorageClass. */
export async function createSnapshotClass(name: string, { storageClass }: DriverConfig, context: RegistrationContext): Promise<void> {
  if (storageClass?.default !== true) return;
  await createOrExpect(context, snapshotClasses, {
    apiVersion: 'snapshot.storage.k8s.io/v1',
    kind: 'VolumeSnapshotClass',
    metadata: { name: storageClass.name, annotations: { [notes.defaultClass]: 'true' } },
    driver: name,
    deletionPolicy: 'Delete',
  });
}

/** The largest value of `allocatable.count`, an int32. Kubernetes' kubelet uses it for drivers with a greater limit. */
const maxCount = 2 ** 31 - 1;

/** Registers the driver on the node: in its CSINode and, if the driver has topology, in its labels. */
export async function installDriver({ name, node }: CsiDriver, nodeName: string, client: Client): Promise<void> {
  const segments = node.accessibleTopology?.segments ?? {};
  const changed = await changeNode(nodeName, client, (present) => {
    const ids = nodeIds(present);
    checkSegments(segments, present);
    const differs = Object.entries(segments).some(([key, value]) => present.metadata?.labels?.[key] !== value);
    if (!differs && ids[name] === node.nodeId) return undefined;
    return { labels: segments, annotations: { [nodeIdAnnotation]: JSON.stringify({ ...ids, [name]: node.nodeId }) } };
  });
  const entry: CSINodeDriver = {
    name,
    nodeID: node.nodeId,
    topologyKeys: Object.keys(segments).sort(),
    ...(node.maxVolumesPerNode > 0 && { allocatable: { count: Math.min(node.maxVolumesPerNode, maxCount) } }),
  };
  await changeDrivers(changed, client, async (present) => {
    const others = present.spec.drivers.filter((other) => other.name !== name);
    const before = present.spec.drivers.find((other) => other.name === name);
    if (before !== undefined && same(before, entry)) return;
    // node id and topology keys of an entry are immutable, so a changed entry is removed and added again
    const replaced = before !== undefined && (before.nodeID !== entry.nodeID || before.topologyKeys?.join() !== entry.topologyKeys?.join());
    const from = replaced ? await client.update(csiNodes, { ...present, spec: { drivers: others } }) : present;
    await client.update(csiNodes, { ...from, spec: { drivers: [...others, entry] } });
  });
}

/**
 * Checks the topology of a driver, which becomes labels of the node. A driver changes no labels of others.
 * @throws Error in upstream's words if a label has another value, or one with which administrators isolate nodes
 */
function checkSegments(segments: Readonly<Record<string, string>>, { metadata }: Node): void {
  for (const [key, value] of Object.entries(segments)) {
    const existing = own(metadata?.labels, key);
    if (existing !== undefined && existing !== value)
      throw new Error(
        `detected topology value collision: driver reported ${JSON.stringify(key)}:${JSON.stringify(value)} but existing label is ${JSON.stringify(key)}:${JSON.stringify(existing)}`,
      );
    if (existing === undefined && isForbiddenKubeletLabel(key))
      throw new Error(`the topology key ${JSON.stringify(key)} is a label that a node may not set`);
  }
}

/** Reverts `installDriver`, except for the labels, because volumes may still be on the node. */
export async function uninstallDriver(name: string, nodeName: string, client: Client): Promise<void> {
  const changed = await changeNode(nodeName, client, (present) => {
    const { [name]: before, ...ids } = nodeIds(present);
    if (before === undefined) return undefined;
    return { annotations: { [nodeIdAnnotation]: Object.keys(ids).length > 0 ? JSON.stringify(ids) : null } };
  });
  await changeDrivers(changed, client, async (present) => {
    const drivers = present.spec.drivers.filter((other) => other.name !== name);
    if (drivers.length < present.spec.drivers.length) await client.update(csiNodes, { ...present, spec: { drivers } });
  });
}

/** Changes the metadata of a Node, and retries on conflicts. */
async function changeNode(name: string, client: Client, change: (present: Node) => object | undefined): Promise<Node> {
  for (;;) {
    const present = await client.get(nodes, { name });
    const metadata = change(present);
    if (metadata === undefined) return present;
    try {
      return await client.patch(nodes, { name }, 'merge', {
        metadata: { ...metadata, resourceVersion: present.metadata?.resourceVersion },
      });
    } catch (error) {
      if (!isStatus(error, 'Conflict')) throw error;
    }
  }
}

/** Changes the node's CSINode, and retries on conflicts. Creates the CSINode if it does not exist. */
async function changeDrivers(node: Node, client: Client, change: (present: CSINode) => Promise<void>): Promise<void> {
  const name = node.metadata?.name ?? '';
  for (;;) {
    try {
      await change(await client.get(csiNodes, { name }));
      return;
    } catch (error) {
      if (isStatus(error, 'Conflict')) continue;
      if (!isStatus(error, 'NotFound')) throw error;
    }
    const owner = { apiVersion: 'v1', kind: 'Node', name, uid: node.metadata?.uid ?? '' };
    await client.create(csiNodes, { metadata: { name, ownerReferences: [owner] }, spec: { drivers: [] } }).catch(ignoreExisting);
  }
}

function nodeIds({ metadata }: Node): Readonly<Record<string, string>> {
  const text = metadata?.annotations?.[nodeIdAnnotation];
  return text === undefined ? {} : (JSON.parse(text) as Record<string, string>);
}
const same = (one: CSINodeDriver, other: CSINodeDriver) =>
  one.nodeID === other.nodeID &&
  one.topologyKeys?.join() === other.topologyKeys?.join() &&
  one.allocatable?.count === other.allocatable?.count;
