import type { PersistentVolumeClaimCondition } from '@oarlock/api/types/core-v1';

/**
 * Returns a strategic merge patch of a claim's conditions: removes these types, and may add one. Several controllers write conditions
 * at the same time, so each patches only its own.
 */
export const conditionsPatch = (removed: readonly string[], added?: PersistentVolumeClaimCondition): readonly object[] => [
  ...removed.filter((type) => type !== added?.type).map((type) => ({ $patch: 'delete', type })),
  ...(added === undefined ? [] : [added]),
];
