import { compareKubeAwareVersions } from '@oarlock/api/kube-aware-versions';

/** A group version that an extension API server serves. */
export interface AggregatedApi {
  readonly group: string;
  readonly version: string;
  readonly groupPriority: number;
  readonly versionPriority: number;
  readonly available: boolean;
  /** The `resources` of the server's last APIResourceList; absent until the server has responded once. */
  readonly resources?: readonly AggregatedResource[];
  /** The hash of the group version's OpenAPI v3 document; absent if there is no document. */
  readonly openApiHash?: string;
}
export type AggregatedApis = readonly AggregatedApi[];

/** An entry of an APIResourceList. The name of a subresource has the form `resource/subresource`. */
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

/** Orders versions by versionPriority, then by stability: GA before beta before alpha. */
const byPreference = (a: AggregatedApi, b: AggregatedApi): number =>
  b.versionPriority - a.versionPriority || compareKubeAwareVersions(a.version, b.version);

function groupApis(apis: AggregatedApis): readonly (readonly [string, readonly AggregatedApi[]])[] {
  const groups = new Map<string, AggregatedApi[]>();
  for (const api of apis) groups.set(api.group, [...(groups.get(api.group) ?? []), api]);
  const priority = (list: readonly AggregatedApi[]) => Math.max(...list.map(({ groupPriority }) => groupPriority));
  return [...groups]
    .map(([name, list]) => [name, [...list].sort(byPreference)] as const)
    .sort(([a, x], [b, y]) => priority(y) - priority(x) || (a < b ? -1 : 1));
}

/**
 * Adds the groups of extension API servers to the legacy discovery documents: to `/apis`, and as a document `/apis/GROUP` for each group,
 * even if the server does not respond.
 */
export function withAggregatedGroups(documents: ReadonlyMap<string, Json>, apis: AggregatedApis): ReadonlyMap<string, Json> {
  if (apis.length === 0) return documents;
  const result = new Map(documents);
  const list = documents.get('/apis') as { readonly groups: readonly { readonly name: string; readonly versions: readonly Version[] }[] };
  const groups = [...list.groups];
  for (const [name, versions] of groupApis(apis)) {
    const listed = versions.map(({ version }): Version => ({ groupVersion: `${name}/${version}`, version }));
    const at = groups.findIndex((group) => group.name === name);
    const known = groups[at]?.versions ?? [];
    const merged = [...known, ...listed.filter(({ version }) => !known.some((other) => other.version === version))];
    const group = { name, versions: merged, preferredVersion: merged[0] };
    if (at < 0) groups.push(group);
    else groups[at] = group;
    result.set(`/apis/${name}`, { kind: 'APIGroup', apiVersion: 'v1', ...group });
  }
  result.set('/apis', { ...(list as unknown as Json), groups });
  return result;
}

/**
 * Adds the group versions of extension API servers to aggregated discovery (KEP-3352). A version whose server does not respond is marked as
 * `Stale`.
 */
export function withAggregatedDiscovery(document: Json, apis: AggregatedApis): Json {
  if (apis.length === 0) return document;
  interface Item {
    readonly metadata: { readonly name?: string };
    readonly versions: readonly Json[];
  }
  const items = [...(document['items'] as readonly Item[])];
  for (const [name, versions] of groupApis(apis)) {
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

/** Converts the resources of an APIResourceList to APIResourceDiscovery entries, which contain their subresources. */
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
