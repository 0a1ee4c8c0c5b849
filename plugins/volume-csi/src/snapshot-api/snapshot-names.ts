import type { KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import { isStatus } from '@oarlock/api/status';
import type { Client } from '@oarlock/spi/client';

const group = 'snapshot.storage.kubernetes.io';

/** The annotations of the snapshot API. */
export const notes = {
  defaultClass: `${group}/is-default-class`,
  beingDeleted: `${group}/volumesnapshot-being-deleted`,
  deletionSecretName: `${group}/deletion-secret-name`,
  deletionSecretNamespace: `${group}/deletion-secret-namespace`,
  managedBy: `${group}/managed-by`,
};
export const finalizers = {
  source: `${group}/volumesnapshot-as-source-protection`,
  bound: `${group}/volumesnapshot-bound-protection`,
  content: `${group}/volumesnapshotcontent-bound-protection`,
  claim: `${group}/pvc-as-source-protection`,
};

export const ignoreNotFound = (error: unknown): undefined => {
  if (!isStatus(error, 'NotFound')) throw error;
};
const nameOf = ({ metadata }: KubeObject) => ({
  name: metadata?.name ?? '',
  ...(metadata?.namespace !== undefined && { namespace: metadata.namespace }),
});

/**
 * Adds and removes finalizers of an object; writes only if they change. Returns undefined if the object does not exist.
 * @throws StatusError `Conflict` if another client has changed the object
 */
export async function setFinalizers<T extends KubeObject>(
  client: Client,
  { resource, object }: { readonly resource: Resource<T>; readonly object: T },
  { add = [], remove = [] }: { readonly add?: readonly string[]; readonly remove?: readonly string[] },
): Promise<T | undefined> {
  const before = object.metadata?.finalizers ?? [];
  const after = [...before.filter((each) => !remove.includes(each)), ...add.filter((each) => !before.includes(each))];
  if (after.length === before.length && after.every((each, at) => each === before[at])) return object;
  return client
    .patch(resource, nameOf(object), 'merge', {
      metadata: {
        uid: object.metadata?.uid,
        resourceVersion: object.metadata?.resourceVersion,
        finalizers: after.length > 0 ? after : null,
      },
    })
    .catch(ignoreNotFound);
}
