import { objectKey, splitKey, type ObjectKey } from '@oarlock/api/object';
import { persistentVolumeClaims } from '@oarlock/api/resources';
import type { PersistentVolume, PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import type { Client, Lister } from '@oarlock/spi/client';
import type { CsiDriver } from '../../driver/csi-driver.ts';
import { setFinalizers } from '../../snapshot-api/snapshot-names.ts';
import { isHere } from '../../volume/provisioned-volume.ts';

/** The finalizer of a PersistentVolumeClaim that is being cloned. */
export const cloneFinalizer = 'provisioner.storage.kubernetes.io/cloning-protection';

/** Returns the key of the claim that a claim is cloned from; undefined if it is not a clone. */
export function cloneSourceOf({ metadata, spec }: PersistentVolumeClaim): ObjectKey | undefined {
  const source = spec?.dataSource ?? spec?.dataSourceRef;
  if (source?.kind !== 'PersistentVolumeClaim' || (source.apiGroup ?? '') !== '') return undefined;
  return objectKey({ metadata: { namespace: metadata?.namespace ?? '', name: source.name } });
}

/** Keeps a claim from deletion until it is cloned. @throws Error if the claim is being deleted already */
export async function protectCloneSource(client: Client, key: ObjectKey): Promise<void> {
  const { namespace = '', name } = splitKey(key);
  const source = await client.get(persistentVolumeClaims, { namespace, name });
  if (source.metadata?.deletionTimestamp !== undefined) throw new Error(`the PVC DataSource ${name} is currently being deleted`);
  await setFinalizers(client, { resource: persistentVolumeClaims, object: source }, { add: [cloneFinalizer] });
}

/** What `releaseCloneSource` reads. */
export interface CloneCaches {
  readonly driver: CsiDriver;
  readonly claims: Lister<PersistentVolumeClaim>;
  readonly volumes: Lister<PersistentVolume>;
}

/** Removes the finalizer of a claim when no claim that waits for its volume is a clone of it. */
export async function releaseCloneSource(client: Client, key: ObjectKey, { driver, claims, volumes }: CloneCaches): Promise<void> {
  const source = claims.get(key);
  if (source?.metadata?.finalizers?.includes(cloneFinalizer) !== true) return;
  const volume = volumes.get(source.spec?.volumeName ?? '');
  if (volume?.spec?.csi?.driver !== driver.name || !isHere(volume, driver)) return;
  const { namespace = '' } = splitKey(key);
  const isPending = (claim: PersistentVolumeClaim) => (claim.status?.phase ?? 'Pending') === 'Pending' && cloneSourceOf(claim) === key;
  if (claims.list(namespace).some(isPending)) return;
  await setFinalizers(client, { resource: persistentVolumeClaims, object: source }, { remove: [cloneFinalizer] });
}
