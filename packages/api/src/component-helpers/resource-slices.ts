import type { ResourceSlice } from '../generated/types/resource-v1.ts';

/**
 * Returns the current ones of the ResourceSlices of a pool that concern a node: those of the newest generation. The caller omits slices that are local to
 * other nodes, because each node may publish slices of any pool for itself: otherwise a driver of one node could withdraw, taint or untaint the devices of
 * another node with a newer generation of its pool (`GatherPools` of k8s.io/dynamic-resource-allocation).
 */
export function currentSlices(concerning: readonly ResourceSlice[]): readonly ResourceSlice[] {
  const newest = concerning.reduce((max, { spec }) => Math.max(max, spec.pool.generation), Number.NEGATIVE_INFINITY);
  return concerning.filter(({ spec }) => spec.pool.generation === newest);
}
