import type { KubeObject } from '../../../api/client.ts';

type OwnerReference = NonNullable<KubeObject['metadata']['ownerReferences']>[number];

/** The maximum number of owners above an object; owner references could form a cycle. */
const maxOwners = 5;

/**
 * Returns the owner whose change changes a pod: the Deployment of its ReplicaSet, the CronJob of its Job. An owner that cannot be read is the last one. Undefined
 * for an object without a controller.
 */
export async function topOwner(
  object: KubeObject,
  read: (owner: OwnerReference) => Promise<KubeObject | undefined>,
): Promise<OwnerReference | undefined> {
  const controllerOf = ({ metadata }: KubeObject) => metadata.ownerReferences?.find(({ controller }) => controller === true);
  let owner = controllerOf(object);
  for (let count = 1; owner !== undefined && count < maxOwners; count += 1) {
    const parent = await read(owner);
    const above = parent && controllerOf(parent);
    if (above === undefined) break;
    owner = above;
  }
  return owner;
}
