import { groupRows, kindRows, type KindRow } from './generated/kind-table.ts';

export interface GroupVersionKind {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
}
export interface GroupVersionResource {
  readonly group: string;
  readonly version: string;
  readonly resource: string;
}

/** A subresource with the kind of its requests: `pods/eviction` takes policy/v1 Eviction. */
export interface Subresource {
  readonly name: string;
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly verbs: readonly string[];
}

/** The discovery information of one resource of one group and version. */
export interface Kind {
  readonly group: string;
  readonly version: string;
  /** Plural, lower case. */
  readonly resource: string;
  readonly singular: string;
  readonly kind: string;
  readonly listKind: string;
  readonly namespaced: boolean;
  readonly verbs: readonly string[];
  readonly shortNames: readonly string[];
  readonly categories: readonly string[];
  readonly subresources: readonly Subresource[];
  /** True if a server with default flags serves it. */
  readonly servedByDefault: boolean;
  /** True if its version is the default preferred version of its group. */
  readonly preferred: boolean;
}

export interface Group {
  readonly name: string;
  /** All versions, most preferred first. */
  readonly versions: readonly string[];
  /** The versions that a server with default flags serves; empty for opt-in groups. */
  readonly defaultVersions: readonly string[];
  /** The most preferred version of those served by default, or of all if none is. */
  readonly preferredVersion: string;
}

const words = (text: string): readonly string[] => (text === '' ? [] : text.split(','));
const servedVersions = new Map<string, Set<string>>();
for (const [group, version, , , , served] of kindRows) {
  if (served === 1) servedVersions.set(group, (servedVersions.get(group) ?? new Set()).add(version));
}

/** API groups in discovery order, the core group (`''`) first. */
export const groups: readonly Group[] = groupRows.map(([name, versions]) => {
  const defaultVersions = versions.filter((version) => servedVersions.get(name)?.has(version) === true);
  return { name, versions, defaultVersions, preferredVersion: defaultVersions[0] ?? versions[0] ?? '' };
});
const groupByName = new Map(groups.map((group) => [group.name, group]));
export const groupOf = (name: string): Group | undefined => groupByName.get(name);

function toKind([group, version, resource, kind, namespaced, served, verbs, shortNames, categories, subresources]: KindRow): Kind {
  return {
    group,
    version,
    resource,
    singular: kind.toLowerCase(),
    kind,
    listKind: `${kind}List`,
    namespaced: namespaced === 1,
    verbs: words(verbs),
    shortNames: words(shortNames),
    categories: words(categories),
    servedByDefault: served === 1,
    preferred: groupOf(group)?.preferredVersion === version,
    subresources: subresources.map(([name, subKind, subGroup, subVersion, subVerbs]) => ({
      name,
      kind: subKind,
      group: subGroup,
      version: subVersion,
      verbs: words(subVerbs),
    })),
  };
}

/** Every built-in resource in discovery order: groups, then versions by preference, then resources by name. */
export const kinds: readonly Kind[] = kindRows.map(toKind);

const key = (group: string, version: string, name: string) => `${group}/${version}/${name}`;
const byResource = new Map(kinds.map((kind) => [key(kind.group, kind.version, kind.resource), kind]));
const byKind = new Map(kinds.map((kind) => [key(kind.group, kind.version, kind.kind), kind]));

export function kindOfResource({ group, version, resource }: GroupVersionResource): Kind | undefined {
  return byResource.get(key(group, version, resource));
}

export function kindOf({ group, version, kind }: GroupVersionKind): Kind | undefined {
  return byKind.get(key(group, version, kind));
}

/** Splits `apps/v1` into group and version; `v1` is in the core group. */
export function parseApiVersion(apiVersion: string): { readonly group: string; readonly version: string } {
  const slash = apiVersion.indexOf('/');
  return slash < 0 ? { group: '', version: apiVersion } : { group: apiVersion.slice(0, slash), version: apiVersion.slice(slash + 1) };
}

/** Returns the group, version and kind of an object; missing parts are ''. */
export function gvkOf(object: { readonly apiVersion?: string; readonly kind?: string }): GroupVersionKind {
  return { ...parseApiVersion(object.apiVersion ?? ''), kind: object.kind ?? '' };
}
