import type { Pod } from '@oarlock/api/types/core-v1';

/** Index of pods by the claims they use, including ephemeral ones. All controllers register the same function on the shared informer. */
export const podsByClaimIndex = 'claim-of-pod';
/** Returns the name of the claim that is created for an ephemeral volume of a pod. */
export const ephemeralClaimName = (pod: Pod, volume: string): string => `${pod.metadata?.name}-${volume}`;
export const claimKeysOfPod = (pod: Pod): readonly string[] =>
  (pod.spec?.volumes ?? []).flatMap(({ name, persistentVolumeClaim, ephemeral }) => {
    const claim = persistentVolumeClaim?.claimName ?? (ephemeral === undefined ? undefined : ephemeralClaimName(pod, name));
    return claim === undefined ? [] : [`${pod.metadata?.namespace}/${claim}`];
  });
