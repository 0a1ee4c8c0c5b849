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
import type { Node } from '@oarlock/api/types/core-v1';
import type { Informer, Informers } from '@oarlock/spi/client';
import type { ClusterEventWithHint } from '@oarlock/spi/scheduling';
import type { SchedulerCache } from './cache/scheduler-cache.ts';
import { isResourceServed, type ResourceServedOptions } from './framework/resource-served.ts';
import type { SchedulingQueue } from './queue/scheduling-queue.ts';

/** The resources for the kinds in plugins' cluster events that do not name a resource. The scheduler itself watches pods and nodes. */
const resourceByKind: Readonly<Record<string, Resource>> = {
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

/** Returns the resources of the cluster events that plugins registered for, by kind. Omits resources that the API server does not serve. */
export async function findServedEventResources(
  events: Iterable<ClusterEventWithHint>,
  options: ResourceServedOptions,
): Promise<ReadonlyMap<string, Resource>> {
  const resources = new Map<string, Resource>();
  for (const { kind, resource = resourceByKind[kind] } of events) if (resource !== undefined) resources.set(kind, resource);
  const served = await Promise.all([...resources].map(async (entry) => ((await isResourceServed(options, entry[1])) ? [entry] : [])));
  return new Map(served.flat());
}

/** Passes events of these resources to the queue. Returns functions that remove the handlers. */
export function addEventHandlers(
  resources: ReadonlyMap<string, Resource>,
  informers: Informers,
  queue: SchedulingQueue,
): readonly (() => void)[] {
  return [...resources].map(([kind, resource]) =>
    informers.forResource(resource).addEventHandler({
      onAdd: (object, spanContext) =>
        queue.moveAllToActiveOrBackoffQueue({ kind, action: 'added', oldObject: undefined, newObject: object }, spanContext),
      onUpdate(object, old, spanContext) {
        if (object !== old)
          queue.moveAllToActiveOrBackoffQueue({ kind, action: 'updated', oldObject: old, newObject: object }, spanContext);
      },
      onDelete: (object, spanContext) =>
        queue.moveAllToActiveOrBackoffQueue({ kind, action: 'deleted', oldObject: object, newObject: undefined }, spanContext),
    }),
  );
}

/** Passes events of nodes to the cache, then to the queue. Returns a function that removes the handler. */
export function addNodeEventHandler(nodes: Informer<Node>, cache: SchedulerCache, queue: SchedulingQueue): () => void {
  return nodes.addEventHandler({
    onAdd: (node, spanContext) => {
      cache.setNode(node);
      queue.moveAllToActiveOrBackoffQueue({ kind: 'Node', action: 'added', oldObject: undefined, newObject: node }, spanContext);
    },
    onUpdate: (node, old, spanContext) => {
      cache.setNode(node);
      if (node !== old)
        queue.moveAllToActiveOrBackoffQueue({ kind: 'Node', action: 'updated', oldObject: old, newObject: node }, spanContext);
    },
    onDelete: (node, spanContext) => {
      cache.removeNode(node.metadata?.name ?? '');
      queue.moveAllToActiveOrBackoffQueue({ kind: 'Node', action: 'deleted', oldObject: node, newObject: undefined }, spanContext);
    },
  });
}
