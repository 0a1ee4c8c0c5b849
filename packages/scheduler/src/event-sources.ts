import {
  csiDrivers,
  csiNodes,
  csiStorageCapacities,
  deviceClasses,
  persistentVolumeClaims,
  persistentVolumes,
  resourceClaims,
  resourceSlices,
  services,
  storageClasses,
  volumeAttachments,
} from '@oarlock/api/resources';
import type { Resource } from '@oarlock/api/resource';
import type { Informers } from '@oarlock/spi/client';
import type { RequeueOn } from '@oarlock/spi/scheduling';
import { isServed, type Asking } from './served.ts';
import type { SchedulingQueue } from './scheduling-queue.ts';

/** Where the changes come from that plugins name by kind alone. Pods and nodes are the scheduler's own. */
const resourceOf: Readonly<Record<string, Resource>> = {
  PersistentVolumeClaim: persistentVolumeClaims,
  PersistentVolume: persistentVolumes,
  StorageClass: storageClasses,
  CSINode: csiNodes,
  CSIDriver: csiDrivers,
  CSIStorageCapacity: csiStorageCapacities,
  VolumeAttachment: volumeAttachments,
  ResourceClaim: resourceClaims,
  ResourceSlice: resourceSlices,
  DeviceClass: deviceClasses,
  Service: services,
};

/** Where the changes come from that plugins wait for, as far as the server has such things. */
export async function sourcesOf(wanted: Iterable<RequeueOn>, asking: Asking): Promise<ReadonlyMap<string, Resource>> {
  const kinds = new Map<string, Resource>();
  for (const { kind, resource = resourceOf[kind] } of wanted) if (resource !== undefined) kinds.set(kind, resource);
  const served = await Promise.all([...kinds].map(async (entry) => ((await isServed(asking, entry[1])) ? [entry] : [])));
  return new Map(served.flat());
}

/** Tells the queue of these changes. Returns what ends it. */
export function watchFor(sources: ReadonlyMap<string, Resource>, informers: Informers, queue: SchedulingQueue): readonly (() => void)[] {
  return [...sources].map(([kind, resource]) =>
    informers.of(resource).on({
      added: (now, cause) => queue.moved(kind, 'added', undefined, now, cause),
      updated(now, old, cause) {
        if (now !== old) queue.moved(kind, 'updated', old, now, cause);
      },
      deleted: (old, cause) => queue.moved(kind, 'deleted', old, undefined, cause),
    }),
  );
}
