import type { Selector } from '@oarlock/api/label-selector';
import { controllerOf, controllerRef, type KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import { isStatus } from '@oarlock/api/status';
import type { Client, Informer } from '@oarlock/spi/client';

const byController = 'controller-uid';
const orphansOf = 'orphans';

// the same functions every time: several controllers share an informer
const controllerUid = (object: KubeObject) => [controllerOf(object)?.uid ?? ''];
const orphanNamespace = (object: KubeObject) => (controllerOf(object) === undefined ? [object.metadata?.namespace ?? ''] : []);

/** Indexes by the uid of the managing controller, and of those without one by namespace. May be called again for the same informer. */
export function indexByOwner<T extends KubeObject>(informer: Informer<T>): Informer<T> {
  informer.addIndex(byController, controllerUid);
  informer.addIndex(orphansOf, orphanNamespace);
  return informer;
}

export const ownedBy = <T extends KubeObject>(informer: Informer<T>, uid: string): readonly T[] => informer.byIndex(byController, uid);

/** Of a namespace: what has no controller and is not being deleted. */
export const orphansIn = <T extends KubeObject>(informer: Informer<T>, namespace: string): readonly T[] =>
  informer.byIndex(orphansOf, namespace).filter(({ metadata }) => metadata?.deletionTimestamp === undefined);

interface Claim<T extends KubeObject> {
  readonly client: Client;
  readonly informer: Informer<T>;
  readonly resource: Resource<T>;
  readonly owner: KubeObject;
  readonly selector: Selector;
  /** A further condition, such as the form of a name. */
  readonly accepts?: (object: T) => boolean;
  /** Comes with adoption and goes with release. */
  readonly finalizer?: string;
  /** Reads the owner from the server: a deleted or replaced owner adopts nothing. */
  confirm(): Promise<boolean>;
}

/**
 * The dependents of an owner: adopts orphans that match its selector, lets go of its own that no longer do. An owner that is
 * being deleted does neither.
 */
export async function claim<T extends KubeObject>({
  client,
  informer,
  resource,
  owner,
  selector,
  accepts = () => true,
  finalizer,
  confirm,
}: Claim<T>): Promise<readonly T[]> {
  const uid = owner.metadata?.uid ?? '';
  const owned = ownedBy(informer, uid);
  const leaving = owner.metadata?.deletionTimestamp !== undefined;
  const kept: T[] = [];
  for (const object of owned) {
    if ((selector.matches(object.metadata?.labels) && accepts(object)) || leaving) kept.push(object);
    else await release(client, resource, object, uid, finalizer);
  }
  const orphans = leaving
    ? []
    : orphansIn(informer, owner.metadata?.namespace ?? '').filter((object) => selector.matches(object.metadata?.labels) && accepts(object));
  if (orphans.length > 0 && (await confirm())) {
    for (const object of orphans) {
      const adopted = await adopt(client, resource, object, owner, finalizer);
      if (adopted !== undefined) kept.push(adopted);
    }
  }
  return kept;
}

const nameOf = (object: KubeObject) => ({
  name: object.metadata?.name ?? '',
  ...(object.metadata?.namespace !== undefined && { namespace: object.metadata.namespace }),
});

/** The uid in the patch makes it fail on an object that only has the same name. */
async function adopt<T extends KubeObject>(
  client: Client,
  resource: Resource<T>,
  object: T,
  owner: KubeObject,
  finalizer: string | undefined,
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
  object: T,
  uid: string,
  finalizer: string | undefined,
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
    // gone, or another object by now: nothing is left to let go of
    if (!isStatus(error, 'NotFound', 'Invalid')) throw error;
  }
}
