import { controllerOf, objectKey } from '@oarlock/api/object';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { ResourceClaim } from '@oarlock/api/types/resource-v1';

const mostConsumers = 256;

/** Names of the claims of a pod: '' for one that is still to be made from its template, undefined for one that is not needed. */
export function claimNamesOf({ spec, status }: Pod): readonly string[] {
  return (spec?.resourceClaims ?? []).flatMap(({ name, resourceClaimName, resourceClaimTemplateName }) => {
    if (resourceClaimName !== undefined) return [resourceClaimName];
    if (resourceClaimTemplateName === undefined) return [''];
    const known = status?.resourceClaimStatuses?.find((each) => each.name === name);
    if (known === undefined) return [''];
    return known.resourceClaimName === undefined ? [] : [known.resourceClaimName];
  });
}

/** The claims of a pod, or why they are not all there, in upstream's words. */
export function claimsOf(pod: Pod, get: (key: string) => ResourceClaim | undefined): readonly ResourceClaim[] | string {
  const namespace = pod.metadata?.namespace ?? '';
  const found: ResourceClaim[] = [];
  for (const name of claimNamesOf(pod)) {
    if (name === '') return `pod ${JSON.stringify(objectKey(pod))}: ResourceClaim not created yet`;
    const claim = get(`${namespace}/${name}`);
    if (claim === undefined) return `resourceclaim.resource.k8s.io ${JSON.stringify(name)} not found`;
    if (claim.metadata?.deletionTimestamp !== undefined) return `resourceclaim ${JSON.stringify(name)} is being deleted`;
    const fromTemplate = pod.status?.resourceClaimStatuses?.some(({ resourceClaimName }) => resourceClaimName === name) === true;
    if (fromTemplate && controllerOf(claim)?.uid !== pod.metadata?.uid)
      return `ResourceClaim ${namespace}/${name} was not created for pod ${namespace}/${pod.metadata?.name} (pod is not owner)`;
    found.push(claim);
  }
  return found;
}

export const isReservedFor = ({ status }: ResourceClaim, { metadata }: Pod): boolean =>
  status?.reservedFor?.some(({ uid }) => uid === metadata?.uid) === true;
export const canBeReserved = ({ status }: ResourceClaim): boolean => (status?.reservedFor?.length ?? 0) < mostConsumers;
export const usesClaims = ({ spec }: Pod): boolean => (spec?.resourceClaims?.length ?? 0) > 0;
