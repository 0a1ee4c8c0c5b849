import type { Pod } from '@oarlock/api/types/core-v1';

/**
 * Name of the index of pods by the PersistentVolumeClaims that they use, including claims of ephemeral volumes. All controllers register the
 * same index function on the shared informer.
 */
export const podsByClaimIndex = 'claim-of-pod';
/** Returns the name of the PersistentVolumeClaim that is created for an ephemeral volume of a pod. */
export const ephemeralClaimName = (pod: Pod, volume: string): string => `${pod.metadata?.name}-${volume}`;
export const claimKeysOfPod = (pod: Pod): readonly string[] =>
  (pod.spec?.volumes ?? []).flatMap(({ name, persistentVolumeClaim, ephemeral }) => {
    const claim = persistentVolumeClaim?.claimName ?? (ephemeral === undefined ? undefined : ephemeralClaimName(pod, name));
    return claim === undefined ? [] : [`${pod.metadata?.namespace}/${claim}`];
  });
