import type { ResourceClaim } from '@oarlock/api/types/resource-v1';

/** Name of the index of ResourceClaims by the uids in `status.reservedFor`. */
export const claimsByConsumerIndex = 'claims-of-consumer';
export const consumerUids = ({ status }: ResourceClaim): readonly string[] => (status?.reservedFor ?? []).map(({ uid }) => uid);
