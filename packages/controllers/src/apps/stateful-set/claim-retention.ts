import { controllerRef, type KubeObject, type OwnerReference } from '@oarlock/api/object';
import { pods, statefulSets } from '@oarlock/api/resources';
import type { StatefulSet } from '@oarlock/api/types/apps-v1';
import type { PersistentVolumeClaim, Pod } from '@oarlock/api/types/core-v1';
import { withTypeMeta } from '../../objects/object-identity.ts';

const isRef = (ref: OwnerReference, object: KubeObject) => ref.uid === object.metadata?.uid;

/** The claim of a pod, and whether the pod is about to be deleted. */
export interface ClaimRetention {
  readonly pod: Pod;
  readonly claim: PersistentVolumeClaim;
  readonly condemned: boolean;
}

/**
 * Returns the owner references that a PersistentVolumeClaim must have by `persistentVolumeClaimRetentionPolicy` (KEP-1847), or undefined if
 * the claim already has them. The StatefulSet is an owner if `whenDeleted` is Delete; the pod is an owner if `whenScaled` is Delete and the
 * pod is condemned. With a policy other than Retain, does not change a claim that has another controller, or that belongs to a former StatefulSet or
 * pod of the same name.
 */
export function claimOwnerReferences(set: StatefulSet, { pod, claim, condemned }: ClaimRetention): readonly OwnerReference[] | undefined {
  const present = claim.metadata?.ownerReferences ?? [];
  const { whenDeleted = 'Retain', whenScaled = 'Retain' } = set.spec?.persistentVolumeClaimRetentionPolicy ?? {};
  const isFormerOwner = ({ kind, name }: OwnerReference) =>
    (kind === 'StatefulSet' && name === set.metadata?.name) || (kind === 'Pod' && name === pod.metadata?.name);
  const hasOtherController = present.some((ref) => !isRef(ref, set) && !isRef(ref, pod) && (isFormerOwner(ref) || ref.controller === true));
  if (hasOtherController && (whenDeleted === 'Delete' || whenScaled === 'Delete')) return undefined;
  const ownedByPod = whenScaled === 'Delete' && condemned;
  const ownedBySet = whenDeleted === 'Delete' && !ownedByPod;
  const hasSet = present.some((ref) => isRef(ref, set));
  const hasPod = present.some((ref) => isRef(ref, pod));
  if (ownedBySet === hasSet && ownedByPod === hasPod) return undefined;
  return [
    ...present.filter((ref) => !isRef(ref, set) && !isRef(ref, pod)),
    ...(ownedBySet ? [controllerRef(withTypeMeta(statefulSets, set))] : []),
    ...(ownedByPod ? [controllerRef(withTypeMeta(pods, pod))] : []),
  ];
}

/** Returns true if a former pod of the same name owns the claim: the garbage collector will delete the claim, so a new pod must not use it. */
export const isClaimStale = (claim: PersistentVolumeClaim, pod: Pod): boolean =>
  claim.metadata?.ownerReferences?.some(
    ({ kind, name, uid }) => kind === 'Pod' && name === pod.metadata?.name && uid !== pod.metadata?.uid,
  ) ?? false;
