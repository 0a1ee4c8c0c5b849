import { compareKubeAwareVersions } from '@oarlock/api/kube-aware-versions';

/** One version of a group as another server serves it. */
export interface AggregatedApi {
  readonly group: string;
  readonly version: string;
  readonly groupPriority: number;
  readonly versionPriority: number;
  readonly available: boolean;
  /** `resources` of its APIResourceList, as it last was; absent while it never answered. */
  readonly resources?: readonly AggregatedResource[];
  /** Of its OpenAPI v3 document, where it has one. */
  readonly openApiHash?: string;
}
export type AggregatedApis = readonly AggregatedApi[];

/** A member of an APIResourceList: `name` has the subresource behind a slash. */
export interface AggregatedResource {
  readonly name: string;
  readonly singularName?: string;
  readonly namespaced?: boolean;
  readonly kind?: string;
  readonly group?: string;
  readonly version?: string;
  readonly verbs?: readonly string[];
  readonly shortNames?: readonly string[];
  readonly categories?: readonly string[];
}

type Json = Readonly<Record<string, unknown>>;
interface Version {
  readonly groupVersion: string;
  readonly version: string;
}

/** Most preferred first: by priority, then by how finished the version is. */
const byPreference = (a: AggregatedApi, b: AggregatedApi): number =>
  b.versionPriority - a.versionPriority || compareKubeAwareVersions(a.version, b.version);

function grouped(apis: AggregatedApis): readonly (readonly [string, readonly AggregatedApi[]])[] {
  const groups = new Map<string, AggregatedApi[]>();
  for (const api of apis) groups.set(api.group, [...(groups.get(api.group) ?? []), api]);
  const priority = (list: readonly AggregatedApi[]) => Math.max(...list.map(({ groupPriority }) => groupPriority));
  return [...groups]
    .map(([name, list]) => [name, [...list].sort(byPreference)] as const)
    .sort(([a, x], [b, y]) => priority(y) - priority(x) || (a < b ? -1 : 1));
}

/** The legacy documents with what the others serve: `/apis` with more groups, and `/apis/G` of each, whether it answers or not. */
export function withAggregatedGroups(documents: ReadonlyMap<string, Json>, apis: AggregatedApis): ReadonlyMap<string, Json> {
  if (apis.length === 0) return documents;
  const result = new Map(documents);
  const list = documents.get('/apis') as { readonly groups: readonly { readonly name: string; readonly versions: readonly Version[] }[] };
  const groups = [...list.groups];
  for (const [name, versions] of grouped(apis)) {
    const listed = versions.map(({ version }): Version => ({ groupVersion: `${name}/${version}`, version }));
    const at = groups.findIndex((group) => group.name === name);
    const known = groups[at]?.versions ?? [];
    const all = [...known, ...listed.filter(({ version }) => !known.some((other) => other.version === version))];
    const group = { name, versions: all, preferredVersion: all[0] };
    if (at < 0) groups.push(group);
    else groups[at] = group;
    result.set(`/apis/${name}`, { kind: 'APIGroup', apiVersion: 'v1', ...group });
  }
  result.set('/apis', { ...(list as unknown as Json), groups });
  return result;
}

/** Aggregated discovery (KEP-3352) with what the others serve; who does not answer is `Stale`. */
export function withAggregatedDiscovery(document: Json, apis: AggregatedApis): Json {
  if (apis.length === 0) return document;
  interface Item {
    readonly metadata: { readonly name?: string };
    readonly versions: readonly Json[];
  }
  const items = [...(document['items'] as readonly Item[])];
  for (const [name, versions] of grouped(apis)) {
    const entries = versions.map(({ version, resources, available }) => ({
      version,
      resources: discovered(name, version, resources ?? []),
      freshness: available && resources !== undefined ? 'Current' : 'Stale',
    }));
    const at = items.findIndex(({ metadata }) => metadata.name === name);
    const known = items[at];
    const item = { metadata: { name, creationTimestamp: null }, versions: [...(known?.versions ?? []), ...entries] };
    if (known === undefined) items.push(item);
    else items[at] = item;
  }
  return { ...document, items };
}

/** `APIResourceDiscovery` of every resource, with its subresources in it. */
function discovered(group: string, version: string, resources: readonly AggregatedResource[]): readonly Json[] {
  const kindOf = (resource: AggregatedResource) => ({
    group: resource.group ?? group,
    version: resource.version ?? version,
    kind: resource.kind ?? '',
  });
  return resources
    .filter(({ name }) => !name.includes('/'))
    .map((resource) => {
      const subresources = resources
        .filter(({ name }) => name.startsWith(`${resource.name}/`))
        .map((sub) => ({ subresource: sub.name.slice(resource.name.length + 1), responseKind: kindOf(sub), verbs: sub.verbs ?? [] }));
      return {
        resource: resource.name,
        responseKind: kindOf(resource),
        scope: resource.namespaced === true ? 'Namespaced' : 'Cluster',
        singularResource: resource.singularName ?? '',
        verbs: resource.verbs ?? [],
        ...(resource.shortNames !== undefined && { shortNames: resource.shortNames }),
        ...(resource.categories !== undefined && { categories: resource.categories }),
        ...(subresources.length > 0 && { subresources }),
      };
    });
}
