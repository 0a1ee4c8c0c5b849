import type { ResourceClaim } from '@oarlock/api/types/resource-v1';

/** An index of claims by the uid of who has them reserved. */
export const byConsumer = 'claims-of-consumer';
export const consumersOf = ({ status }: ResourceClaim): readonly string[] => (status?.reservedFor ?? []).map(({ uid }) => uid);
