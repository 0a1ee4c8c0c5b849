import type { PersistentVolumeClaimCondition } from '@oarlock/api/types/core-v1';

/**
 * The conditions of a claim as a strategic merge patch changes them: those of these types go, and one may come. Several write them at the same
 * time, so nobody writes those of others.
 */
export const changedConditions = (gone: readonly string[], come?: PersistentVolumeClaimCondition): readonly object[] => [
  ...gone.filter((type) => type !== come?.type).map((type) => ({ $patch: 'delete', type })),
  ...(come === undefined ? [] : [come]),
];
