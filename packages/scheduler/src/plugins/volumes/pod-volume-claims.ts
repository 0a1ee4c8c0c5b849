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
  /** True for a generic ephemeral volume, whose claim is created for the pod. */
  readonly ephemeral: boolean;
}

const none: readonly PodVolumeClaim[] = [];

/** Returns the claim that a volume of a pod refers to; undefined for other volumes. */
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

/** Returns the storage class of a claim or volume, from the beta annotation or the spec; '' for none. */
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

/** Returns the claims of a pod, or a rejection with upstream's message if one of them cannot be used. */
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

/** Requeues a pod on changes of the claims that it uses. */
export const claimHint = (pod: Pod, old: unknown, now: unknown): 'queue' | 'skip' => {
  const { metadata } = (now ?? old) as PersistentVolumeClaim;
  return metadata?.namespace === pod.metadata?.namespace && claimsOf(pod).some(({ name }) => name === metadata?.name) ? 'queue' : 'skip';
};
