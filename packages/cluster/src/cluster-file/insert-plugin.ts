import type { Plugin } from '@oarlock/kernel/plugin';
import type { ClusterSpec, PlacementSpec } from './cluster-schema.ts';
import { defaultPlacements, insertionPoints, sections, type Section } from './sections.ts';

/** Returns the section of a cluster file in which a plugin can be placed, or undefined if there is none. */
export const sectionOf = ({ provides }: Plugin): Section | undefined => sections.find(({ slot }) => slot.token === provides.token);

/** Adds a plugin to the spec of a cluster file, at its position in the section. Writes out the default list of the section first. */
export function insertPlugin(spec: ClusterSpec, { key }: Section, placement: PlacementSpec): ClusterSpec {
  const present = spec[key] ?? (defaultPlacements[key] ?? []).map((use): PlacementSpec => ({ use, config: {} }));
  const many = Array.isArray(present) || ['authn', 'authz', 'admission'].includes(key);
  if (!many) return { ...spec, [key]: placement };
  const list = present as readonly PlacementSpec[];
  const { after, before } = insertionPoints[key] ?? {};
  const afterIndex = list.findIndex(({ use }) => use === after);
  const beforeIndex = before === '' ? 0 : list.findIndex(({ use }) => use === before);
  const at = afterIndex >= 0 ? afterIndex + 1 : beforeIndex >= 0 ? beforeIndex : list.length;
  return { ...spec, [key]: list.toSpliced(at, 0, placement) };
}
