import { isDeepStrictEqual } from 'node:util';
import type { ClusterSpec, PlacementSpec } from '@oarlock/cluster/cluster-file/cluster-schema';
import { placementsOf, sections } from '@oarlock/cluster/cluster-file/sections';

/** Returns the keys whose values differ. */
export function changedKeys(before: object, after: object): readonly string[] {
  const values = new Map<string, unknown>(Object.entries(before));
  const others = new Map<string, unknown>(Object.entries(after));
  return [...new Set([...values.keys(), ...others.keys()])].filter((key) => !isDeepStrictEqual(values.get(key), others.get(key)));
}

/** Returns a spec with only the names of the plugins under development: the reloader compares the rest of their placements. */
export const withoutConfigs = (spec: ClusterSpec, isOwn: (placement: PlacementSpec) => boolean): object => ({
  ...spec,
  ...Object.fromEntries(
    sections.map((section) => [
      section.key,
      placementsOf(spec, section).map(({ placement }) => (isOwn(placement) ? [placement.use, placement.name] : placement)),
    ]),
  ),
});
