import type { Selector } from '@oarlock/api/selectors/label-selector';
import { controllerOf, controllerRef, type KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import { isStatus } from '@oarlock/api/status';
import type { Client, Informer } from '@oarlock/spi/client';

const controllerUidIndex = 'controller-uid';
const orphansIndex = 'orphans';

// module-level functions: several controllers register the same index on a shared informer
const controllerUid = (object: KubeObject) => [controllerOf(object)?.uid ?? ''];
const orphanNamespace = (object: KubeObject) => (controllerOf(object) === undefined ? [object.metadata?.namespace ?? ''] : []);

/**
 * Adds two indexes to an informer: objects by the uid of their controller, and objects without a controller by namespace. Does nothing if the
 * informer already has the indexes.
 */
export function addOwnerIndexes<T extends KubeObject>(informer: Informer<T>): Informer<T> {
  informer.addIndexer(controllerUidIndex, controllerUid);
  informer.addIndexer(orphansIndex, orphanNamespace);
  return informer;
}

export const controlledBy = <T extends KubeObject>(informer: Informer<T>, uid: string): readonly T[] =>
  informer.byIndex(controllerUidIndex, uid);

/** Returns the objects of a namespace that have no controller and are not being deleted. */
export const orphansIn = <T extends KubeObject>(informer: Informer<T>, namespace: string): readonly T[] =>
  informer.byIndex(orphansIndex, namespace).filter(({ metadata }) => metadata?.deletionTimestamp === undefined);

interface ClaimOptions<T extends KubeObject> {
  readonly client: Client;
  readonly informer: Informer<T>;
  readonly resource: Resource<T>;
  readonly owner: KubeObject;
  readonly selector: Selector;
  /** Returns true if an orphan may be adopted; a condition in addition to the selector, such as the form of the name. */
  readonly accepts?: (object: T) => boolean;
  /** Finalizer that adoption adds and release removes. */
  readonly finalizer?: string;
  /** Reads the owner from the API server and returns whether it may adopt objects: a deleted or replaced owner must not. */
  canAdopt(): Promise<boolean>;
}

/**
 * Returns the dependents of an owner, after adopting orphans that match the owner's selector and releasing dependents that no longer match.
 * Does not adopt or release for an owner that is being deleted.
 */
export async function claimObjects<T extends KubeObject>({
  client,
  informer,
  resource,
  owner,
  selector,
  accepts = () => true,
  finalizer,
  canAdopt,
}: ClaimOptions<T>): Promise<readonly T[]> {
  const uid = owner.metadata?.uid ?? '';
  const owned = controlledBy(informer, uid);
  const isDeleting = owner.metadata?.deletionTimestamp !== undefined;
  const claimed: T[] = [];
  for (const object of owned) {
    if ((selector.matches(object.metadata?.labels) && accepts(object)) || isDeleting) claimed.push(object);
    else await release(client, resource, { object, uid, finalizer });
  }
  const orphans = isDeleting
    ? []
    : orphansIn(informer, owner.metadata?.namespace ?? '').filter((object) => selector.matches(object.metadata?.labels) && accepts(object));
  if (orphans.length > 0 && (await canAdopt())) {
    for (const object of orphans) {
      const adopted = await adopt(client, resource, { object, owner, finalizer });
      if (adopted !== undefined) claimed.push(adopted);
    }
  }
  return claimed;
}

const nameOf = (object: KubeObject) => ({
  name: object.metadata?.name ?? '',
  ...(object.metadata?.namespace !== undefined && { namespace: object.metadata.namespace }),
});

/** Adopts an object. The patch contains the object's uid, so that it fails if another object now has the name. */
async function adopt<T extends KubeObject>(
  client: Client,
  resource: Resource<T>,
  { object, owner, finalizer }: { readonly object: T; readonly owner: KubeObject; readonly finalizer: string | undefined },
): Promise<T | undefined> {
  try {
    return await client.patch(resource, nameOf(object), 'strategic', {
      metadata: {
        uid: object.metadata?.uid,
        ownerReferences: [controllerRef(owner)],
        ...(finalizer !== undefined && { finalizers: [finalizer] }),
      },
    });
  } catch (error) {
    if (isStatus(error, 'NotFound')) return undefined;
    throw error;
  }
}

async function release<T extends KubeObject>(
  client: Client,
  resource: Resource<T>,
  { object, uid, finalizer }: { readonly object: T; readonly uid: string; readonly finalizer: string | undefined },
): Promise<void> {
  try {
    await client.patch(resource, nameOf(object), 'strategic', {
      metadata: {
        uid: object.metadata?.uid,
        ownerReferences: [{ $patch: 'delete', uid }],
        ...(finalizer !== undefined && { '$deleteFromPrimitiveList/finalizers': [finalizer] }),
      },
    });
  } catch (error) {
    // deleted, or the name belongs to another object now: nothing to release
    if (!isStatus(error, 'NotFound', 'Invalid')) throw error;
  }
}
