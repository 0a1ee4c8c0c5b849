import { compareQuantity } from '@oarlock/api/values/quantity';
import type { PersistentVolume, PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import { selectorOf } from '../../ownership/selector-owners.ts';

export const annotations = {
  bindCompleted: 'pv.kubernetes.io/bind-completed',
  boundByController: 'pv.kubernetes.io/bound-by-controller',
  provisionedBy: 'pv.kubernetes.io/provisioned-by',
  selectedNode: 'volume.kubernetes.io/selected-node',
  provisioner: 'volume.kubernetes.io/storage-provisioner',
  betaProvisioner: 'volume.beta.kubernetes.io/storage-provisioner',
  betaClass: 'volume.beta.kubernetes.io/storage-class',
} as const;

/** Returns the name of the StorageClass of a claim or volume, from the beta annotation or the spec; '' if there is none. */
export const classOf = ({ metadata, spec }: PersistentVolume | PersistentVolumeClaim): string =>
  metadata?.annotations?.[annotations.betaClass] ?? spec?.storageClassName ?? '';
export const modeOf = ({ spec }: PersistentVolume | PersistentVolumeClaim): string => spec?.volumeMode ?? 'Filesystem';
const sizeOf = ({ spec }: PersistentVolume) => spec?.capacity?.['storage'] ?? '0';
const requestOf = ({ spec }: PersistentVolumeClaim) => spec?.resources?.requests?.['storage'] ?? '0';
const isLargeEnough = (volume: PersistentVolume, claim: PersistentVolumeClaim) => compareQuantity(sizeOf(volume), requestOf(claim)) >= 0;
const hasModes = (volume: PersistentVolume, claim: PersistentVolumeClaim) =>
  (claim.spec?.accessModes ?? []).every((mode) => volume.spec?.accessModes?.includes(mode));
const sameAttributes = (volume: PersistentVolume, claim: PersistentVolumeClaim) =>
  (volume.spec?.volumeAttributesClassName ?? '') === (claim.spec?.volumeAttributesClassName ?? '');

/** Returns true if the volume's claimRef names this claim, with the claim's uid or without a uid (pre-bound). */
export function isBoundTo({ spec }: PersistentVolume, { metadata }: PersistentVolumeClaim): boolean {
  const ref = spec?.claimRef;
  return (
    ref !== undefined && ref.name === metadata?.name && ref.namespace === metadata?.namespace && (!ref.uid || ref.uid === metadata?.uid)
  );
}

/** Returns why a claim cannot be bound to the volume in its `volumeName`, or undefined if it can. */
export function mismatch(volume: PersistentVolume, claim: PersistentVolumeClaim): string | undefined {
  if (!isLargeEnough(volume, claim)) return 'requested PV is too small';
  if (classOf(volume) !== classOf(claim)) return 'storageClassName does not match';
  if (!sameAttributes(volume, claim)) return 'VolumeAttributesClassName does not match';
  if (modeOf(volume) !== modeOf(claim)) return 'incompatible volumeMode';
  if (!hasModes(volume, claim)) return 'incompatible accessMode';
  return undefined;
}

/** Volumes that may be bound to a claim, and whether binding waits for a consumer. */
export interface VolumeCandidates {
  readonly prebound: readonly PersistentVolume[];
  readonly free: readonly PersistentVolume[];
  readonly delayed: boolean;
}

const modeCount = ({ spec }: PersistentVolume): number => new Set(spec?.accessModes).size;

/** Orders volumes: fewer access modes first, as they are closest to the claim's, then the smallest. Ties are ordered by name, to be deterministic. */
const byFit = (a: PersistentVolume, b: PersistentVolume): number =>
  modeCount(a) - modeCount(b) || compareQuantity(sizeOf(a), sizeOf(b)) || ((a.metadata?.name ?? '') < (b.metadata?.name ?? '') ? -1 : 1);

/**
 * Returns the volume to bind to a claim, or undefined: a volume that is bound or pre-bound to the claim, otherwise the best available volume
 * that is large enough. For a claim with delayed binding, only a volume that the scheduler has pre-bound is eligible.
 */
export function bestVolume(claim: PersistentVolumeClaim, { prebound, free, delayed }: VolumeCandidates): PersistentVolume | undefined {
  const boundVolume = prebound.find(
    (volume) =>
      isBoundTo(volume, claim) &&
      volume.metadata?.deletionTimestamp === undefined &&
      isLargeEnough(volume, claim) &&
      modeOf(volume) === modeOf(claim) &&
      sameAttributes(volume, claim),
  );
  if (boundVolume !== undefined || delayed) return boundVolume;
  const selector = claim.spec?.selector === undefined ? undefined : selectorOf(claim);
  const isCandidate = (volume: PersistentVolume) =>
    volume.spec?.claimRef === undefined &&
    volume.metadata?.deletionTimestamp === undefined &&
    volume.status?.phase === 'Available' &&
    (selector === undefined || selector.matches(volume.metadata?.labels)) &&
    mismatch(volume, claim) === undefined;
  let best: PersistentVolume | undefined;
  for (const volume of free) if (isCandidate(volume) && (best === undefined || byFit(volume, best) < 0)) best = volume;
  return best;
}
