import { isStatus } from '@oarlock/api/status';
import type { OwnerReference } from '@oarlock/api/object';
import type { Client } from '@oarlock/spi/client';
import { ignoreNotFound } from '../../errors/ignore-not-found.ts';
import { foregroundFinalizer, orphanFinalizer, type GraphNode } from './dependency-graph.ts';

const nameOf = ({ name, namespace }: GraphNode) => ({ name, ...(namespace !== '' && { namespace }) });

export async function removeOwnerReferences(node: GraphNode, uids: readonly string[], client: Client): Promise<void> {
  await ignoreNotFound(async () => {
    const live = await client.get(node.resource, nameOf(node));
    if (live.metadata?.uid !== node.uid) return;
    const remaining = (live.metadata.ownerReferences ?? []).filter(({ uid }) => !uids.includes(uid));
    if (remaining.length !== (live.metadata.ownerReferences ?? []).length) {
      await client.patch(node.resource, nameOf(node), 'merge', {
        metadata: {
          uid: node.uid,
          resourceVersion: live.metadata.resourceVersion,
          ownerReferences: remaining.length > 0 ? remaining : null,
        },
      });
    }
  });
}

export async function removeFinalizer(node: GraphNode, finalizer: string, client: Client): Promise<void> {
  await ignoreNotFound(async () => {
    const live = await client.get(node.resource, nameOf(node));
    if (live.metadata?.uid !== node.uid || !live.metadata.finalizers?.includes(finalizer)) return;
    await client.patch(node.resource, nameOf(node), 'merge', {
      metadata: {
        uid: node.uid,
        resourceVersion: live.metadata.resourceVersion,
        finalizers: live.metadata.finalizers.filter((each) => each !== finalizer),
      },
    });
  });
}

export async function unblockOwnerReferences(node: GraphNode, client: Client): Promise<void> {
  await ignoreNotFound(async () => {
    const live = await client.get(node.resource, nameOf(node));
    const owners = live.metadata?.ownerReferences ?? [];
    if (live.metadata?.uid !== node.uid || !owners.some(({ blockOwnerDeletion }) => blockOwnerDeletion === true)) return;
    await client.patch(node.resource, nameOf(node), 'merge', {
      metadata: {
        uid: node.uid,
        resourceVersion: live.metadata.resourceVersion,
        ownerReferences: owners.map((owner) => ({ ...owner, blockOwnerDeletion: false })),
      },
    });
  });
}

/**
 * Reads an object again and deletes it. Does nothing if the owners of the object have changed. Without `policy`, the finalizers of the
 * object determine the propagation policy.
 */
export async function deleteObject(node: GraphNode, policy: 'Foreground' | undefined, client: Client): Promise<void> {
  await ignoreNotFound(async () => {
    const { metadata } = await client.get(node.resource, nameOf(node));
    if (metadata?.uid !== node.uid) return;
    const joinUids = (owners: readonly OwnerReference[] = []) => owners.map(({ uid }) => uid).join(' ');
    if (joinUids(metadata.ownerReferences) !== joinUids(node.owners)) return;
    const { finalizers = [] } = metadata;
    const requestedPolicy = finalizers.includes(orphanFinalizer)
      ? 'Orphan'
      : finalizers.includes(foregroundFinalizer)
        ? 'Foreground'
        : 'Background';
    try {
      await client.delete(node.resource, nameOf(node), {
        preconditions: { uid: node.uid, resourceVersion: metadata.resourceVersion ?? '' },
        propagationPolicy: policy ?? requestedPolicy,
      });
    } catch (error) {
      if (!isStatus(error, 'Conflict')) throw error;
      // an owner in foreground deletion may have deleted it meanwhile
      const current = await client.get(node.resource, nameOf(node));
      if (current.metadata?.uid === node.uid && current.metadata.deletionTimestamp === undefined) throw error;
    }
  });
}
