import type { Pod } from '@oarlock/api/types/core-v1';

/** The index of pods by the claims they use, ephemeral ones included: one function for all who share the informer. */
export const byClaim = 'claim-of-pod';
/** The claim made for an ephemeral volume of a pod is named after both. */
export const ephemeralClaim = (pod: Pod, volume: string): string => `${pod.metadata?.name}-${volume}`;
export const claimsOfPod = (pod: Pod): readonly string[] =>
  (pod.spec?.volumes ?? []).flatMap(({ name, persistentVolumeClaim, ephemeral }) => {
    const claim = persistentVolumeClaim?.claimName ?? (ephemeral === undefined ? undefined : ephemeralClaim(pod, name));
    return claim === undefined ? [] : [`${pod.metadata?.namespace}/${claim}`];
  });
