import { persistentVolumeClaims, persistentVolumes } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { ignoreNotFound } from '../../errors/ignore-not-found.ts';
import type { PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimStatus } from '@oarlock/api/types/core-v1';
import type { Client } from '@oarlock/spi/client';
import { withTypeMeta } from '../../objects/object-identity.ts';
import { annotations } from './volume-match.ts';

const yes = 'yes';

/** Binds a PersistentVolumeClaim and a PersistentVolume with up to four writes, the volume first. Skips writes that are already done. */
export async function bind(volume: PersistentVolume, claim: PersistentVolumeClaim, client: Client): Promise<void> {
  const boundVolume = await setPhase(await bindVolumeToClaim(volume, claim, client), { phase: 'Bound', client });
  if (boundVolume === undefined) return;
  const boundClaim = await bindClaimToVolume(claim, boundVolume, client);
  if (boundClaim !== undefined) await setClaimPhase(boundClaim, { phase: 'Bound', volume: boundVolume, client });
}

async function bindVolumeToClaim(volume: PersistentVolume, claim: PersistentVolumeClaim, client: Client): Promise<PersistentVolume> {
  const { name = '', namespace = '', uid = '', resourceVersion = '' } = claim.metadata ?? {};
  const ref = volume.spec?.claimRef;
  if (ref?.uid === uid && ref.name === name && ref.namespace === namespace) return volume;
  const boundByController = ref === undefined || ref.name !== name || ref.namespace !== namespace;
  return client.update(persistentVolumes, {
    ...withTypeMeta(persistentVolumes, volume),
    metadata: {
      ...volume.metadata,
      ...(boundByController && { annotations: { ...volume.metadata?.annotations, [annotations.boundByController]: yes } }),
    },
    spec: { ...volume.spec, claimRef: { apiVersion: 'v1', kind: 'PersistentVolumeClaim', namespace, name, uid, resourceVersion } },
  });
}

async function bindClaimToVolume(
  claim: PersistentVolumeClaim,
  volume: PersistentVolume,
  client: Client,
): Promise<PersistentVolumeClaim | undefined> {
  const volumeName = volume.metadata?.name ?? '';
  const newAnnotations: Record<string, string> = { ...claim.metadata?.annotations };
  if (claim.spec?.volumeName !== volumeName) newAnnotations[annotations.boundByController] = yes;
  if (claim.spec?.volumeName === volumeName && newAnnotations[annotations.bindCompleted] !== undefined) return claim;
  newAnnotations[annotations.bindCompleted] = yes;
  try {
    return await client.update(persistentVolumeClaims, {
      ...withTypeMeta(persistentVolumeClaims, claim),
      metadata: { ...claim.metadata, annotations: newAnnotations },
      spec: { ...claim.spec, volumeName },
    });
  } catch (error) {
    if (isStatus(error, 'NotFound')) return undefined;
    throw error;
  }
}

/** The phase of a claim, and the volume that is bound to it. */
export interface ClaimPhase {
  readonly phase: 'Pending' | 'Bound' | 'Lost';
  readonly volume: PersistentVolume | undefined;
  readonly client: Client;
}

/** Writes the phase and the volume's properties to the status of a claim. A bound claim keeps the capacity in its status, which a resize changes. */
export async function setClaimPhase(claim: PersistentVolumeClaim, { phase, volume, client }: ClaimPhase): Promise<boolean> {
  const { accessModes: _modes, capacity, ...rest } = claim.status ?? {};
  const storage = volume?.spec?.capacity?.['storage'];
  const attributes = volume?.spec?.volumeAttributesClassName;
  const isNewlyBound = claim.status?.phase !== 'Bound';
  const status: PersistentVolumeClaimStatus =
    volume === undefined
      ? { ...rest, phase }
      : {
          ...rest,
          phase,
          accessModes: volume.spec?.accessModes ?? [],
          ...((isNewlyBound || capacity === undefined) && storage !== undefined
            ? { capacity: { ...capacity, storage } }
            : capacity !== undefined && { capacity }),
          ...(isNewlyBound && attributes ? { currentVolumeAttributesClassName: attributes } : {}),
        };
  if (JSON.stringify(sorted(status)) === JSON.stringify(sorted(claim.status))) return false;
  await ignoreNotFound(() =>
    client.update(persistentVolumeClaims, { ...withTypeMeta(persistentVolumeClaims, claim), status }, { subresource: 'status' }),
  );
  return true;
}
const sorted = (status: PersistentVolumeClaimStatus = {}) => Object.entries(status).sort(([a], [b]) => (a < b ? -1 : 1));

/** The phase of a volume with a message. */
export interface VolumePhase {
  readonly phase: 'Available' | 'Bound' | 'Released' | 'Failed';
  readonly client: Client;
  readonly message?: string | undefined;
}

/** Writes the phase of a volume. Returns the updated volume, or undefined if the volume is deleted. */
export async function setPhase(
  volume: PersistentVolume,
  { phase, client, message = '' }: VolumePhase,
): Promise<PersistentVolume | undefined> {
  if (volume.status?.phase === phase && (volume.status.message ?? '') === message) return volume;
  const { message: _old, ...rest } = volume.status ?? {};
  try {
    return await client.update(
      persistentVolumes,
      { ...withTypeMeta(persistentVolumes, volume), status: { ...rest, phase, ...(message !== '' && { message }) } },
      { subresource: 'status' },
    );
  } catch (error) {
    if (isStatus(error, 'NotFound')) return undefined;
    throw error;
  }
}

/** Removes the claimRef of a volume. A volume that an administrator pre-bound keeps the name of the claim, without the uid. */
export async function unbind(volume: PersistentVolume, client: Client): Promise<void> {
  const { claimRef, ...spec } = volume.spec ?? {};
  const { [annotations.boundByController]: boundByController, ...otherAnnotations } = volume.metadata?.annotations ?? {};
  const { uid: _uid, resourceVersion: _version, ...preboundRef } = claimRef ?? {};
  const released = await client.update(persistentVolumes, {
    ...withTypeMeta(persistentVolumes, volume),
    metadata: { ...volume.metadata, annotations: otherAnnotations },
    spec: boundByController === undefined ? { ...spec, claimRef: preboundRef } : spec,
  });
  await setPhase(released, { phase: 'Available', client });
}
