import type { Plugin } from '@oarlock/kernel/plugin';
import type { ClusterSpec, PlacementSpec } from './cluster-schema.ts';
import { defaultPlacements, sections, type Section } from './sections.ts';

/** The section of a cluster file that takes a plugin; undefined where a cluster file cannot name it. */
export const sectionOf = ({ provides }: Plugin): Section | undefined => sections.find(({ slot }) => slot.token === provides.token);

/** Behind whom or before whom a plugin that nobody gave a place stands: it decides before the rules that allow, and before quotas are charged. */
const places: Partial<Record<Section['key'], { readonly after?: string; readonly before?: string }>> = {
  authn: { before: '' },
  authz: { after: 'authz-masters', before: '' },
  admission: { before: 'admission-resource-quota' },
};

/** A file's spec with one more plugin, where it belongs in its section; the list that a section has by default is written out. */
export function withPlugin(spec: ClusterSpec, { key }: Section, placement: PlacementSpec): ClusterSpec {
  const present = spec[key] ?? (defaultPlacements[key] ?? []).map((use): PlacementSpec => ({ use, config: {} }));
  const many = Array.isArray(present) || ['authn', 'authz', 'admission'].includes(key);
  if (!many) return { ...spec, [key]: placement };
  const list = present as readonly PlacementSpec[];
  const { after, before } = places[key] ?? {};
  const behind = list.findIndex(({ use }) => use === after);
  const ahead = before === '' ? 0 : list.findIndex(({ use }) => use === before);
  const at = behind >= 0 ? behind + 1 : ahead >= 0 ? ahead : list.length;
  return { ...spec, [key]: list.toSpliced(at, 0, placement) };
}
