import { controllerOf } from '@oarlock/api/object';
import type { PersistentVolumeClaim, Pod, Volume } from '@oarlock/api/types/core-v1';
import type { Lister } from '@oarlock/spi/client';
import { unresolvable, type Outcome } from '@oarlock/spi/scheduling';

export const annotations = {
  bindCompleted: 'pv.kubernetes.io/bind-completed',
  boundByController: 'pv.kubernetes.io/bound-by-controller',
  selectedNode: 'volume.kubernetes.io/selected-node',
  betaClass: 'volume.beta.kubernetes.io/storage-class',
} as const;

export interface ClaimUse {
  readonly name: string;
  /** Made for the pod from a template of its own. */
  readonly ephemeral: boolean;
}

const none: readonly ClaimUse[] = [];

/** The claim that a volume of a pod stands for. */
export function claimOf({ metadata }: Pod, { name, persistentVolumeClaim, ephemeral }: Volume): ClaimUse | undefined {
  if (persistentVolumeClaim !== undefined) return { name: persistentVolumeClaim.claimName, ephemeral: false };
  return ephemeral === undefined ? undefined : { name: `${metadata?.name}-${name}`, ephemeral: true };
}

export function claimsOf(pod: Pod): readonly ClaimUse[] {
  let found: ClaimUse[] | undefined;
  for (const volume of pod.spec?.volumes ?? []) {
    const use = claimOf(pod, volume);
    if (use !== undefined) (found ??= []).push(use);
  }
  return found ?? none;
}

/** The class of a claim or volume by the old annotation or its spec; '' for none. */
export const classNameOf = ({
  metadata,
  spec,
}: {
  readonly metadata?: PersistentVolumeClaim['metadata'];
  readonly spec?: { readonly storageClassName?: string };
}): string => metadata?.annotations?.[annotations.betaClass] ?? spec?.storageClassName ?? '';

/** Bound for good: its controller has said so, too. */
export const isBound = ({ metadata, spec }: PersistentVolumeClaim): boolean =>
  Boolean(spec?.volumeName) && metadata?.annotations?.[annotations.bindCompleted] !== undefined;

export const notFound = (name: string): Outcome => unresolvable(`persistentvolumeclaim ${JSON.stringify(name)} not found`);

/** The claims of a pod; or why they are not to be had, in upstream's words. */
export function lookUp(
  pod: Pod,
  claims: Pick<Lister<PersistentVolumeClaim>, 'get'>,
): { readonly found: readonly PersistentVolumeClaim[] } | { readonly refused: Outcome } {
  const namespace = pod.metadata?.namespace ?? '';
  const found: PersistentVolumeClaim[] = [];
  for (const { name, ephemeral } of claimsOf(pod)) {
    const claim = claims.get(`${namespace}/${name}`);
    if (claim === undefined)
      return {
        refused: ephemeral
          ? unresolvable(`waiting for ephemeral volume controller to create the persistentvolumeclaim ${JSON.stringify(name)}`)
          : notFound(name),
      };
    if (claim.status?.phase === 'Lost')
      return {
        refused: unresolvable(
          `persistentvolumeclaim ${JSON.stringify(name)} bound to non-existent persistentvolume ${JSON.stringify(claim.spec?.volumeName ?? '')}`,
        ),
      };
    if (claim.metadata?.deletionTimestamp !== undefined)
      return { refused: unresolvable(`persistentvolumeclaim ${JSON.stringify(name)} is being deleted`) };
    if (ephemeral && controllerOf(claim)?.uid !== pod.metadata?.uid)
      return {
        refused: unresolvable(`PVC ${namespace}/${name} was not created for pod ${namespace}/${pod.metadata?.name} (pod is not owner)`),
      };
    found.push(claim);
  }
  return { found };
}

/** A change of a claim that the pod uses may help it. */
export const claimHint = (pod: Pod, old: unknown, now: unknown): 'queue' | 'skip' => {
  const { metadata } = (now ?? old) as PersistentVolumeClaim;
  return metadata?.namespace === pod.metadata?.namespace && claimsOf(pod).some(({ name }) => name === metadata?.name) ? 'queue' : 'skip';
};
