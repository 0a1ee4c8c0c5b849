import { compareQuantity } from '@oarlock/api/values/quantity';
import { persistentVolumeClaims } from '@oarlock/api/resources';
import type { PersistentVolume, PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import type { VolumeContentSource } from '@oarlock/csi/csi-types';
import type { Client, Lister } from '@oarlock/spi/client';
import type { CsiDriver } from '../../driver/csi-driver.ts';
import { snapshotContents, snapshotGroup, volumeSnapshots } from '../../snapshot-api/snapshot-kinds.ts';

/** The source from which the volume of a claim is filled, and the minimum size of the volume. */
export interface Filling {
  readonly source: VolumeContentSource;
  readonly leastBytes: number;
}

/** How the source of a volume is looked up. */
export interface ContentSourceLookup {
  readonly driver: CsiDriver;
  readonly client: Client;
  readonly volumes: Lister<PersistentVolume>;
}

/**
 * Returns the source of a claim's content; undefined if the claim has none, `foreign` if a volume populator fills the claim.
 * @throws Error if the source does not exist, is not ready or cannot be used
 */
export async function fillingOf(
  { metadata, spec }: PersistentVolumeClaim,
  { driver: { name: driver, controllerCapabilities }, client, volumes }: ContentSourceLookup,
): Promise<Filling | 'foreign' | undefined> {
  const source = spec?.dataSource ?? spec?.dataSourceRef;
  if (source === undefined) return undefined;
  const namespace = metadata?.namespace ?? '';
  const { kind, name, apiGroup = '' } = source;
  if (kind === 'PersistentVolumeClaim' && apiGroup === '') {
    if (!controllerCapabilities.has('CLONE_VOLUME'))
      throw new Error('CSI driver does not support clone operations: controller CLONE_VOLUME capability is not reported');
    const from = await client.get(persistentVolumeClaims, { namespace, name });
    if (from.status?.phase !== 'Bound')
      throw new Error(`the PVC ${name} is in ${from.status?.phase ?? 'no'} phase and cannot be a data source`);
    const volume = volumes.get(from.spec?.volumeName ?? '');
    if (volume?.spec?.csi?.driver !== driver) throw new Error(`the claim ${name} has no volume of ${driver}`);
    if ((volume.spec.volumeMode ?? 'Filesystem') !== (spec?.volumeMode ?? 'Filesystem'))
      throw new Error(`the source PVC and destination PVCs shouldn't have different volume modes for PVC ${namespace}/${metadata?.name}`);
    const has = volume.spec.capacity?.['storage'] ?? '0';
    const requested = spec?.resources?.requests?.['storage'] ?? '0';
    if (compareQuantity(requested, has) < 0)
      throw new Error(
        `new PVC request must be greater than or equal in size to the specified PVC data source, requested ${requested} but source is ${has}`,
      );
    return { source: { volume: { volumeId: volume.spec.csi.volumeHandle } }, leastBytes: 0 };
  }
  if (kind !== 'VolumeSnapshot' || apiGroup !== snapshotGroup) return 'foreign';
  if (!controllerCapabilities.has('CREATE_DELETE_SNAPSHOT'))
    throw new Error('CSI driver does not support snapshot restore: controller CREATE_DELETE_SNAPSHOT capability is not reported');
  const snapshot = await client.get(volumeSnapshots, { namespace, name });
  const { readyToUse, boundVolumeSnapshotContentName } = snapshot.status ?? {};
  if (snapshot.metadata?.deletionTimestamp !== undefined) throw new Error(`snapshot ${name} is being deleted`);
  if (readyToUse !== true || boundVolumeSnapshotContentName === undefined) throw new Error(`snapshot ${name} is not Ready`);
  const content = await client.get(snapshotContents, { name: boundVolumeSnapshotContentName });
  const { volumeSnapshotRef: ref } = content.spec;
  if (ref.uid !== snapshot.metadata?.uid || ref.name !== name || ref.namespace !== namespace)
    throw new Error(`snapshot ${name} is not bound to its content ${boundVolumeSnapshotContentName}`);
  if (content.spec.driver !== driver) throw new Error(`snapshot ${name} is one of the driver ${content.spec.driver}, and not of ${driver}`);
  const handle = content.status?.snapshotHandle;
  if (handle === undefined) throw new Error(`snapshot handle ${name} is not available`);
  const mode = content.spec.sourceVolumeMode;
  const change = content.metadata?.annotations?.['snapshot.storage.kubernetes.io/allow-volume-mode-change'] === 'true';
  if (mode !== undefined && !change && mode !== (spec?.volumeMode ?? 'Filesystem'))
    throw new Error(
      `requested volume ${namespace}/${metadata?.name} modifies the mode of the source volume but does not have permission to do so`,
    );
  return { source: { snapshot: { snapshotId: handle } }, leastBytes: content.status?.restoreSize ?? 0 };
}
