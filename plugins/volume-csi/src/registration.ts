import { csiDrivers, csiNodes, nodes, storageClasses } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { CSINode, CSINodeDriver } from '@oarlock/api/types/storage-v1';
import type { Node } from '@oarlock/api/types/core-v1';
import type { Client } from '@oarlock/spi/client';
import type { DriverConfig } from './config.ts';
import type { CsiDriver } from './csi-driver.ts';
import { snapshotClasses } from './snapshot-kinds.ts';
import { notes } from './snapshot-names.ts';

/** On the node: what drivers call it, as JSON by driver. Those who attach read it where there is no CSINode. */
const nodeIdNote = 'csi.volume.kubernetes.io/nodeid';

const exists = (error: unknown) => {
  if (!isStatus(error, 'AlreadyExists')) throw error;
};
/** A node that joined may not make what is the cluster's: the control plane's own driver does. */
const existsOrElsewhere = (error: unknown) => {
  if (!isStatus(error, 'AlreadyExists', 'Forbidden')) throw error;
};

/** Makes what the configuration wants of CSIDriver and StorageClass, where it is not there. */
export async function announce(
  name: string,
  { csiDriver, storageClass }: DriverConfig,
  allowVolumeExpansion: boolean,
  client: Client,
): Promise<void> {
  if (csiDriver !== undefined) {
    const { tokenRequests, ...rest } = csiDriver;
    const tokens = tokenRequests.map(({ audience, expirationSeconds }) => ({
      audience,
      ...(expirationSeconds !== undefined && { expirationSeconds }),
    }));
    const spec = { ...rest, ...(tokens.length > 0 && { tokenRequests: tokens }) };
    await client.create(csiDrivers, { metadata: { name }, spec }).catch(existsOrElsewhere);
  }
  if (storageClass !== undefined)
    await client
      .create(storageClasses, {
        metadata: {
          name: storageClass.name,
          ...(storageClass.default && { annotations: { 'storageclass.kubernetes.io/is-default-class': 'true' } }),
        },
        provisioner: name,
        reclaimPolicy: storageClass.reclaimPolicy,
        volumeBindingMode: storageClass.bindingMode,
        allowVolumeExpansion,
      })
      .catch(existsOrElsewhere);
}

/** The class that snapshots get which name none, for a driver that has a class for claims which name none. */
export async function announceSnapshots(name: string, { storageClass }: DriverConfig, client: Client): Promise<void> {
  if (storageClass?.default !== true) return;
  await client
    .create(snapshotClasses, {
      apiVersion: 'snapshot.storage.k8s.io/v1',
      kind: 'VolumeSnapshotClass',
      metadata: { name: storageClass.name, annotations: { [notes.defaultClass]: 'true' } },
      driver: name,
      deletionPolicy: 'Delete',
    })
    .catch(existsOrElsewhere);
}

/** Says in the API that this node has the driver: in its CSINode, and by its labels where volumes are not everywhere. */
export async function register({ name, node }: CsiDriver, nodeName: string, client: Client): Promise<void> {
  const segments = node.accessibleTopology?.segments ?? {};
  const own = await changeNode(nodeName, client, (present) => {
    const ids = nodeIds(present);
    const differs = Object.entries(segments).some(([key, value]) => present.metadata?.labels?.[key] !== value);
    if (!differs && ids[name] === node.nodeId) return undefined;
    return { labels: segments, annotations: { [nodeIdNote]: JSON.stringify({ ...ids, [name]: node.nodeId }) } };
  });
  const entry: CSINodeDriver = {
    name,
    nodeID: node.nodeId,
    topologyKeys: Object.keys(segments).sort(),
    ...(node.maxVolumesPerNode > 0 && { allocatable: { count: node.maxVolumesPerNode } }),
  };
  await changeDrivers(own, client, async (present) => {
    const others = present.spec.drivers.filter((other) => other.name !== name);
    const before = present.spec.drivers.find((other) => other.name === name);
    if (before !== undefined && same(before, entry)) return;
    // whose node has another name, or is elsewhere, has to be taken away and written anew
    const fixed = before !== undefined && (before.nodeID !== entry.nodeID || before.topologyKeys?.join() !== entry.topologyKeys?.join());
    const from = fixed ? await client.update(csiNodes, { ...present, spec: { drivers: others } }) : present;
    await client.update(csiNodes, { ...from, spec: { drivers: [...others, entry] } });
  });
}

/** Takes back what `register` said, but for labels: volumes may still be here. */
export async function unregister(name: string, nodeName: string, client: Client): Promise<void> {
  const own = await changeNode(nodeName, client, (present) => {
    const { [name]: before, ...ids } = nodeIds(present);
    if (before === undefined) return undefined;
    return { annotations: { [nodeIdNote]: Object.keys(ids).length > 0 ? JSON.stringify(ids) : null } };
  });
  await changeDrivers(own, client, async (present) => {
    const drivers = present.spec.drivers.filter((other) => other.name !== name);
    if (drivers.length < present.spec.drivers.length) await client.update(csiNodes, { ...present, spec: { drivers } });
  });
}

/** Changes the metadata of a node as long as somebody else does at the same time. */
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

/** Works on the node's CSINode, which is made where there is none, until nobody else does at the same time. */
async function changeDrivers(own: Node, client: Client, change: (present: CSINode) => Promise<void>): Promise<void> {
  const name = own.metadata?.name ?? '';
  for (;;) {
    try {
      await change(await client.get(csiNodes, { name }));
      return;
    } catch (error) {
      if (isStatus(error, 'Conflict')) continue;
      if (!isStatus(error, 'NotFound')) throw error;
    }
    const owner = { apiVersion: 'v1', kind: 'Node', name, uid: own.metadata?.uid ?? '' };
    await client.create(csiNodes, { metadata: { name, ownerReferences: [owner] }, spec: { drivers: [] } }).catch(exists);
  }
}

function nodeIds({ metadata }: Node): Readonly<Record<string, string>> {
  const text = metadata?.annotations?.[nodeIdNote];
  return text === undefined ? {} : (JSON.parse(text) as Record<string, string>);
}
const same = (one: CSINodeDriver, other: CSINodeDriver) =>
  one.nodeID === other.nodeID &&
  one.topologyKeys?.join() === other.topologyKeys?.join() &&
  one.allocatable?.count === other.allocatable?.count;
