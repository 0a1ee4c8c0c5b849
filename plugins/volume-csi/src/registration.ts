import { csiDrivers, csiNodes, nodes, storageClasses } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { CSINode } from '@oarlock/api/types/storage-v1';
import type { Client } from '@oarlock/spi/client';
import type { DriverConfig } from './config.ts';
import type { CsiDriver } from './csi-driver.ts';

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
  if (csiDriver !== undefined)
    await client
      .create(csiDrivers, { metadata: { name }, spec: { ...csiDriver, volumeLifecycleModes: ['Persistent'] } })
      .catch(existsOrElsewhere);
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

/** Says in the API that this node has the driver: in its CSINode, and by its labels where volumes are not everywhere. */
export async function register({ name, node }: CsiDriver, nodeName: string, client: Client): Promise<void> {
  const segments = node.accessibleTopology?.segments ?? {};
  const own = await client.get(nodes, { name: nodeName });
  if (Object.entries(segments).some(([key, value]) => own.metadata?.labels?.[key] !== value))
    await client.patch(nodes, { name: nodeName }, 'merge', { metadata: { labels: segments } });
  const entry = {
    name,
    nodeID: node.nodeId,
    topologyKeys: Object.keys(segments).sort(),
    ...(node.maxVolumesPerNode > 0 && { allocatable: { count: node.maxVolumesPerNode } }),
  };
  for (;;) {
    try {
      const present: CSINode = await client.get(csiNodes, { name: nodeName });
      const others = present.spec.drivers.filter((other) => other.name !== name);
      // a driver's entry cannot be changed, only taken away and written anew
      if (present.spec.drivers.some((other) => other.name === name && other.nodeID === entry.nodeID)) return;
      if (others.length < present.spec.drivers.length) {
        const without = await client.update(csiNodes, { ...present, spec: { drivers: others } });
        await client.update(csiNodes, { ...without, spec: { drivers: [...others, entry] } });
      } else await client.update(csiNodes, { ...present, spec: { drivers: [...others, entry] } });
      return;
    } catch (error) {
      if (isStatus(error, 'Conflict')) continue;
      if (!isStatus(error, 'NotFound')) throw error;
    }
    const owner = { apiVersion: 'v1', kind: 'Node', name: nodeName, uid: own.metadata?.uid ?? '' };
    await client.create(csiNodes, { metadata: { name: nodeName, ownerReferences: [owner] }, spec: { drivers: [entry] } }).catch(exists);
  }
}
