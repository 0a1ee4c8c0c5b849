import { persistentVolumeClaims, persistentVolumes } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimStatus } from '@oarlock/api/types/core-v1';
import type { Client } from '@oarlock/spi/client';
import { typed } from '../pod-template.ts';
import { annotations } from './volume-match.ts';

const yes = 'yes';

/** The four writes that bind a claim and a volume to each other, each left out when it is done already: the volume first. */
export async function bind(volume: PersistentVolume, claim: PersistentVolumeClaim, client: Client): Promise<void> {
  const taken = await setPhase(await takeVolume(volume, claim, client), 'Bound', client);
  if (taken === undefined) return;
  const named = await nameVolume(claim, taken, client);
  if (named !== undefined) await setClaimPhase(named, 'Bound', taken, client);
}

async function takeVolume(volume: PersistentVolume, claim: PersistentVolumeClaim, client: Client): Promise<PersistentVolume> {
  const { name = '', namespace = '', uid = '', resourceVersion = '' } = claim.metadata ?? {};
  const ref = volume.spec?.claimRef;
  if (ref?.uid === uid && ref.name === name && ref.namespace === namespace) return volume;
  const ours = ref === undefined || ref.name !== name || ref.namespace !== namespace;
  return client.update(persistentVolumes, {
    ...typed(persistentVolumes, volume),
    metadata: {
      ...volume.metadata,
      ...(ours && { annotations: { ...volume.metadata?.annotations, [annotations.boundByController]: yes } }),
    },
    spec: { ...volume.spec, claimRef: { apiVersion: 'v1', kind: 'PersistentVolumeClaim', namespace, name, uid, resourceVersion } },
  });
}

async function nameVolume(
  claim: PersistentVolumeClaim,
  volume: PersistentVolume,
  client: Client,
): Promise<PersistentVolumeClaim | undefined> {
  const volumeName = volume.metadata?.name ?? '';
  const notes: Record<string, string> = { ...claim.metadata?.annotations };
  if (claim.spec?.volumeName !== volumeName) notes[annotations.boundByController] = yes;
  if (claim.spec?.volumeName === volumeName && notes[annotations.bindCompleted] !== undefined) return claim;
  notes[annotations.bindCompleted] = yes;
  try {
    return await client.update(persistentVolumeClaims, {
      ...typed(persistentVolumeClaims, claim),
      metadata: { ...claim.metadata, annotations: notes },
      spec: { ...claim.spec, volumeName },
    });
  } catch (error) {
    if (isStatus(error, 'NotFound')) return undefined;
    throw error;
  }
}

/** What of a claim's status its volume settles. A claim that is bound keeps the capacity it has: a resize changes it. */
export async function setClaimPhase(
  claim: PersistentVolumeClaim,
  phase: 'Pending' | 'Bound' | 'Lost',
  volume: PersistentVolume | undefined,
  client: Client,
): Promise<boolean> {
  const { accessModes: _modes, capacity, ...rest } = claim.status ?? {};
  const storage = volume?.spec?.capacity?.['storage'];
  const attributes = volume?.spec?.volumeAttributesClassName;
  const fresh = claim.status?.phase !== 'Bound';
  const status: PersistentVolumeClaimStatus =
    volume === undefined
      ? { ...rest, phase }
      : {
          ...rest,
          phase,
          accessModes: volume.spec?.accessModes ?? [],
          ...((fresh || capacity === undefined) && storage !== undefined
            ? { capacity: { ...capacity, storage } }
            : capacity !== undefined && { capacity }),
          ...(fresh && attributes ? { currentVolumeAttributesClassName: attributes } : {}),
        };
  if (JSON.stringify(sorted(status)) === JSON.stringify(sorted(claim.status))) return false;
  try {
    await client.update(persistentVolumeClaims, { ...typed(persistentVolumeClaims, claim), status }, { subresource: 'status' });
  } catch (error) {
    if (!isStatus(error, 'NotFound')) throw error;
  }
  return true;
}
const sorted = (status: PersistentVolumeClaimStatus = {}) => Object.entries(status).sort(([a], [b]) => (a < b ? -1 : 1));

/** Returns the volume as it is then; undefined when it is gone. */
export async function setPhase(
  volume: PersistentVolume,
  phase: 'Available' | 'Bound' | 'Released' | 'Failed',
  client: Client,
  message = '',
): Promise<PersistentVolume | undefined> {
  if (volume.status?.phase === phase && (volume.status.message ?? '') === message) return volume;
  const { message: _old, ...rest } = volume.status ?? {};
  try {
    return await client.update(
      persistentVolumes,
      { ...typed(persistentVolumes, volume), status: { ...rest, phase, ...(message !== '' && { message }) } },
      { subresource: 'status' },
    );
  } catch (error) {
    if (isStatus(error, 'NotFound')) return undefined;
    throw error;
  }
}

/** Frees a volume of its claim. One that an administrator kept for a claim stays kept for the next of the name. */
export async function unbind(volume: PersistentVolume, client: Client): Promise<void> {
  const { claimRef, ...spec } = volume.spec ?? {};
  const { [annotations.boundByController]: byUs, ...notes } = volume.metadata?.annotations ?? {};
  const { uid: _uid, resourceVersion: _version, ...kept } = claimRef ?? {};
  const freed = await client.update(persistentVolumes, {
    ...typed(persistentVolumes, volume),
    metadata: { ...volume.metadata, annotations: notes },
    spec: byUs === undefined ? { ...spec, claimRef: kept } : spec,
  });
  await setPhase(freed, 'Available', client);
}
