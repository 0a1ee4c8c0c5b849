import type { PersistentVolumeClaimCondition } from '@oarlock/api/types/core-v1';

/**
 * Returns a strategic merge patch of a claim's conditions that removes the given types and may add one condition. Several controllers write
 * conditions concurrently, so each patches only its own conditions.
 */
export const conditionsPatch = (removed: readonly string[], added?: PersistentVolumeClaimCondition): readonly object[] => [
  ...removed.filter((type) => type !== added?.type).map((type) => ({ $patch: 'delete', type })),
  ...(added === undefined ? [] : [added]),
];
