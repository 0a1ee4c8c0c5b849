import { isControlledBy } from '@oarlock/api/object';
import type { PersistentVolumeClaim, Pod, Volume } from '@oarlock/api/types/core-v1';
import type { Lister } from '@oarlock/spi/client';
import { unschedulableAndUnresolvable, type Status } from '@oarlock/spi/scheduling';

export const annotations = {
  bindCompleted: 'pv.kubernetes.io/bind-completed',
  boundByController: 'pv.kubernetes.io/bound-by-controller',
  selectedNode: 'volume.kubernetes.io/selected-node',
  betaClass: 'volume.beta.kubernetes.io/storage-class',
} as const;

export interface PodVolumeClaim {
  readonly name: string;
  /** True for a generic ephemeral volume, for which a PersistentVolumeClaim is created with the pod. */
  readonly ephemeral: boolean;
}

const none: readonly PodVolumeClaim[] = [];

/** Returns the name of the PersistentVolumeClaim that a pod's volume refers to, or undefined for other volumes. */
export function claimOf({ metadata }: Pod, { name, persistentVolumeClaim, ephemeral }: Volume): PodVolumeClaim | undefined {
  if (persistentVolumeClaim !== undefined) return { name: persistentVolumeClaim.claimName, ephemeral: false };
  return ephemeral === undefined ? undefined : { name: `${metadata?.name}-${name}`, ephemeral: true };
}

export function claimsOf(pod: Pod): readonly PodVolumeClaim[] {
  let found: PodVolumeClaim[] | undefined;
  for (const volume of pod.spec?.volumes ?? []) {
    const use = claimOf(pod, volume);
    if (use !== undefined) (found ??= []).push(use);
  }
  return found ?? none;
}

/** Returns the StorageClass name of a claim or volume, from the beta annotation or the spec; '' if there is none. */
export const classNameOf = ({
  metadata,
  spec,
}: {
  readonly metadata?: PersistentVolumeClaim['metadata'];
  readonly spec?: { readonly storageClassName?: string };
}): string => metadata?.annotations?.[annotations.betaClass] ?? spec?.storageClassName ?? '';

/** Returns true if the claim has a volume and the PersistentVolume controller has completed the binding. */
export const isFullyBound = ({ metadata, spec }: PersistentVolumeClaim): boolean =>
  Boolean(spec?.volumeName) && metadata?.annotations?.[annotations.bindCompleted] !== undefined;

export const claimNotFound = (name: string): Status =>
  unschedulableAndUnresolvable(`persistentvolumeclaim ${JSON.stringify(name)} not found`);

/** Returns the PersistentVolumeClaims of a pod, or a rejection with upstream's message if a claim cannot be used. */
export function lookUpClaims(
  pod: Pod,
  lister: Pick<Lister<PersistentVolumeClaim>, 'get'>,
): { readonly claims: readonly PersistentVolumeClaim[] } | { readonly rejection: Status } {
  const namespace = pod.metadata?.namespace ?? '';
  const claims: PersistentVolumeClaim[] = [];
  for (const { name, ephemeral } of claimsOf(pod)) {
    const claim = lister.get(`${namespace}/${name}`);
    if (claim === undefined)
      return {
        rejection: ephemeral
          ? unschedulableAndUnresolvable(
              `waiting for ephemeral volume controller to create the persistentvolumeclaim ${JSON.stringify(name)}`,
            )
          : claimNotFound(name),
      };
    if (claim.status?.phase === 'Lost')
      return {
        rejection: unschedulableAndUnresolvable(
          `persistentvolumeclaim ${JSON.stringify(name)} bound to non-existent persistentvolume ${JSON.stringify(claim.spec?.volumeName ?? '')}`,
        ),
      };
    if (claim.metadata?.deletionTimestamp !== undefined)
      return { rejection: unschedulableAndUnresolvable(`persistentvolumeclaim ${JSON.stringify(name)} is being deleted`) };
    if (ephemeral && !isControlledBy(claim, pod))
      return {
        rejection: unschedulableAndUnresolvable(
          `PVC ${namespace}/${name} was not created for pod ${namespace}/${pod.metadata?.name} (pod is not owner)`,
        ),
      };
    claims.push(claim);
  }
  return { claims };
}

/** A queueing hint: requeues a pod on changes of the PersistentVolumeClaims that the pod uses. */
export const claimHint = (pod: Pod, old: unknown, now: unknown): 'queue' | 'skip' => {
  const { metadata } = (now ?? old) as PersistentVolumeClaim;
  return metadata?.namespace === pod.metadata?.namespace && claimsOf(pod).some(({ name }) => name === metadata?.name) ? 'queue' : 'skip';
};
