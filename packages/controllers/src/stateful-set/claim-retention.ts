import { controllerRef, type KubeObject, type OwnerReference } from '@oarlock/api/object';
import { pods, statefulSets } from '@oarlock/api/resources';
import type { StatefulSet } from '@oarlock/api/types/apps-v1';
import type { PersistentVolumeClaim, Pod } from '@oarlock/api/types/core-v1';
import { typed } from '../pod-template.ts';

const isRef = (ref: OwnerReference, object: KubeObject) => ref.uid === object.metadata?.uid;

/**
 * Who a claim goes with, by `persistentVolumeClaimRetentionPolicy` (KEP-1847): the set when it is deleted with the set, the pod once that is
 * scaled away. Returns the owners the claim should have, or undefined when it has them. A claim that somebody else controls is left alone.
 */
export function ownersFor(
  set: StatefulSet,
  pod: Pod,
  claim: PersistentVolumeClaim,
  condemned: boolean,
): readonly OwnerReference[] | undefined {
  const present = claim.metadata?.ownerReferences ?? [];
  const foreign = present.some((ref) => ref.controller === true && !isRef(ref, set) && ref.kind !== 'StatefulSet' && ref.kind !== 'Pod');
  if (foreign) return undefined;
  const { whenDeleted = 'Retain', whenScaled = 'Retain' } = set.spec?.persistentVolumeClaimRetentionPolicy ?? {};
  const byPod = whenScaled === 'Delete' && condemned;
  const bySet = whenDeleted === 'Delete' && !byPod;
  const hasSet = present.some((ref) => isRef(ref, set));
  const hasPod = present.some((ref) => isRef(ref, pod));
  if (bySet === hasSet && byPod === hasPod) return undefined;
  return [
    ...present.filter((ref) => !isRef(ref, set) && !isRef(ref, pod)),
    ...(bySet ? [controllerRef(typed(statefulSets, set))] : []),
    ...(byPod ? [controllerRef(typed(pods, pod))] : []),
  ];
}

/** The claim belongs to a former pod of the same name and goes with it: a new pod must not take it into use. */
export const isStale = (claim: PersistentVolumeClaim, pod: Pod): boolean =>
  claim.metadata?.ownerReferences?.some(
    ({ kind, name, uid }) => kind === 'Pod' && name === pod.metadata?.name && uid !== pod.metadata?.uid,
  ) ?? false;
