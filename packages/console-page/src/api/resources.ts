import { isApiError, type ApiClient, type KubeObject } from './client.ts';

/** A resource that the API server serves, in its preferred version. */
export interface ApiResource {
  /** The group; '' for the core group. */
  readonly group: string;
  readonly version: string;
  readonly resource: string;
  readonly kind: string;
  readonly namespaced: boolean;
  readonly verbs: readonly string[];
  readonly shortNames: readonly string[];
  readonly subresources: readonly string[];
}

interface DiscoveredResource {
  readonly resource: string;
  readonly responseKind?: { readonly kind: string };
  readonly scope: string;
  readonly verbs: readonly string[];
  readonly shortNames?: readonly string[];
  readonly subresources?: readonly { readonly subresource: string }[];
}
interface DiscoveryDocument {
  readonly items: readonly {
    readonly metadata: { readonly name?: string };
    readonly versions: readonly { readonly version: string; readonly resources?: readonly DiscoveredResource[] }[];
  }[];
}

const aggregated = 'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json';

/** Returns all resources with their preferred versions, from aggregated discovery (KEP-3352). */
export async function discoverResources(client: ApiClient, signal?: AbortSignal): Promise<readonly ApiResource[]> {
  const options = { accept: aggregated, ...(signal && { signal }) };
  const documents = await Promise.all([
    client.json<DiscoveryDocument>('/api', options),
    client.json<DiscoveryDocument>('/apis', options).catch((error: unknown) => {
      if (isApiError(error, 403)) return { items: [] };
      throw error;
    }),
  ]);
  return documents.flatMap(resourcesOf);
}

/** Returns the resources of a discovery document. A resource of several versions is listed in the first, which is the preferred one. */
export function resourcesOf({ items }: DiscoveryDocument): readonly ApiResource[] {
  return items.flatMap(({ metadata: { name: group = '' }, versions }) => {
    const found = new Map<string, ApiResource>();
    for (const { version, resources = [] } of versions)
      for (const { resource, responseKind, scope, verbs, shortNames = [], subresources = [] } of resources)
        if (!found.has(resource))
          found.set(resource, {
            group,
            version,
            resource,
            kind: responseKind?.kind ?? resource,
            namespaced: scope === 'Namespaced',
            verbs,
            shortNames,
            subresources: subresources.map(({ subresource }) => subresource),
          });
    return [...found.values()];
  });
}

type GroupVersionResource = Pick<ApiResource, 'group' | 'version' | 'resource'>;

/** Returns the path of a collection, or of one object with `name`. */
export function pathOf({ group, version, resource }: GroupVersionResource, namespace: string, name?: string): string {
  const root = group === '' ? `/api/${version}` : `/apis/${group}/${version}`;
  const scope = namespace === '' ? '' : `/namespaces/${encodeURIComponent(namespace)}`;
  return `${root}${scope}/${resource}${name === undefined ? '' : `/${encodeURIComponent(name)}`}`;
}

export const apiVersionOf = ({ group, version }: Pick<ApiResource, 'group' | 'version'>): string =>
  group === '' ? version : `${group}/${version}`;

/** Returns the resource of a kind; undefined if the server does not serve it. */
export function resourceOfKind(resources: readonly ApiResource[], apiVersion: string, kind: string): ApiResource | undefined {
  const group = apiVersion.includes('/') ? apiVersion.slice(0, apiVersion.indexOf('/')) : '';
  const version = apiVersion.slice(apiVersion.indexOf('/') + 1);
  const found = resources.find((resource) => resource.group === group && resource.kind === kind);
  return found === undefined || found.version === version ? found : { ...found, version };
}

/** Returns the path of the object itself. */
export const objectPath = (resource: ApiResource, { metadata: { namespace = '', name } }: KubeObject): string =>
  pathOf(resource, namespace, name);
