import { isStatus } from '@oarlock/api/status';
import type { OwnerReference } from '@oarlock/api/object';
import type { Client } from '@oarlock/spi/client';
import { unlessGone } from '../unless-gone.ts';
import { foreground, orphan, type GraphNode } from './owner-graph.ts';

const nameOf = ({ name, namespace }: GraphNode) => ({ name, ...(namespace !== '' && { namespace }) });

export async function dropOwners(node: GraphNode, uids: readonly string[], client: Client): Promise<void> {
  await unlessGone(async () => {
    const live = await client.get(node.resource, nameOf(node));
    if (live.metadata?.uid !== node.uid) return;
    const left = (live.metadata.ownerReferences ?? []).filter(({ uid }) => !uids.includes(uid));
    if (left.length !== (live.metadata.ownerReferences ?? []).length) {
      await client.patch(node.resource, nameOf(node), 'merge', {
        metadata: { uid: node.uid, resourceVersion: live.metadata.resourceVersion, ownerReferences: left.length > 0 ? left : null },
      });
    }
  });
}

export async function removeFinalizer(node: GraphNode, finalizer: string, client: Client): Promise<void> {
  await unlessGone(async () => {
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

export async function unblock(node: GraphNode, client: Client): Promise<void> {
  await unlessGone(async () => {
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

/** What is deleted is looked at once more: somebody may have taken it over since. How it goes it may have said itself. */
export async function deleteNode(node: GraphNode, policy: 'Foreground' | undefined, client: Client): Promise<void> {
  await unlessGone(async () => {
    const { metadata } = await client.get(node.resource, nameOf(node));
    if (metadata?.uid !== node.uid) return;
    const text = (owners: readonly OwnerReference[] = []) => owners.map(({ uid }) => uid).join(' ');
    if (text(metadata.ownerReferences) !== text(node.owners)) return;
    const { finalizers = [] } = metadata;
    const own = finalizers.includes(orphan) ? 'Orphan' : finalizers.includes(foreground) ? 'Foreground' : 'Background';
    try {
      await client.delete(node.resource, nameOf(node), {
        preconditions: { uid: node.uid, resourceVersion: metadata.resourceVersion ?? '' },
        propagationPolicy: policy ?? own,
      });
    } catch (error) {
      if (!isStatus(error, 'Conflict')) throw error;
      // its owner, which waits for it, may have deleted it meanwhile
      const again = await client.get(node.resource, nameOf(node));
      if (again.metadata?.uid === node.uid && again.metadata.deletionTimestamp === undefined) throw error;
    }
  });
}
