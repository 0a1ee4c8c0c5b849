import { isControlledBy, objectKey } from '@oarlock/api/object';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { ResourceClaim } from '@oarlock/api/types/resource-v1';

/** Maximum number of entries in `status.reservedFor`, as the API limits it. */
const maxConsumers = 256;

/** Returns the names of a pod's claims, '' for a claim that is not created from its template yet. Omits claims that the pod does not need. */
export function claimNamesOf({ spec, status }: Pod): readonly string[] {
  return (spec?.resourceClaims ?? []).flatMap(({ name, resourceClaimName, resourceClaimTemplateName }) => {
    if (resourceClaimName !== undefined) return [resourceClaimName];
    if (resourceClaimTemplateName === undefined) return [''];
    const known = status?.resourceClaimStatuses?.find((each) => each.name === name);
    if (known === undefined) return [''];
    return known.resourceClaimName === undefined ? [] : [known.resourceClaimName];
  });
}

export const claimNotFound = (name: string): string => `resourceclaim.resource.k8s.io ${JSON.stringify(name)} not found`;

/** Returns the claims of a pod, or upstream's message if a claim cannot be used. */
export function claimsOf(pod: Pod, get: (key: string) => ResourceClaim | undefined): readonly ResourceClaim[] | string {
  const namespace = pod.metadata?.namespace ?? '';
  const found: ResourceClaim[] = [];
  for (const name of claimNamesOf(pod)) {
    if (name === '') return `pod ${JSON.stringify(objectKey(pod))}: ResourceClaim not created yet`;
    const claim = get(`${namespace}/${name}`);
    if (claim === undefined) return claimNotFound(name);
    if (claim.metadata?.deletionTimestamp !== undefined) return `resourceclaim ${JSON.stringify(name)} is being deleted`;
    const fromTemplate = pod.status?.resourceClaimStatuses?.some(({ resourceClaimName }) => resourceClaimName === name) === true;
    if (fromTemplate && !isControlledBy(claim, pod))
      return `ResourceClaim ${namespace}/${name} was not created for pod ${namespace}/${pod.metadata?.name} (pod is not owner)`;
    found.push(claim);
  }
  return found;
}

export const isReservedFor = ({ status }: ResourceClaim, { metadata }: Pod): boolean =>
  status?.reservedFor?.some(({ uid }) => uid === metadata?.uid) === true;
export const canBeReserved = ({ status }: ResourceClaim): boolean => (status?.reservedFor?.length ?? 0) < maxConsumers;
export const usesClaims = ({ spec }: Pod): boolean => (spec?.resourceClaims?.length ?? 0) > 0;
