import { createHash } from 'node:crypto';
import { groups, type Kind, type Subresource } from '@oarlock/api/kinds';
import { publishedSchemaOf } from '../../custom-resources/published-kind.ts';
import { compareKubeAwareVersions } from '@oarlock/api/kube-aware-versions';

/** The inputs from which discovery documents are built. */
export interface DiscoveryInput {
  readonly served: readonly Kind[];
  /** The `host:port` at which clients reach the server. */
  readonly serverAddress: string;
  /** Whether resources have `storageVersionHash`; true by default. */
  readonly storageVersionHash?: boolean;
}

type Json = Readonly<Record<string, unknown>>;
interface ServedGroup {
  readonly name: string;
  readonly versions: readonly { readonly version: string; readonly kinds: readonly Kind[] }[];
}

const connectVerbs: Readonly<Record<string, readonly string[]>> = { proxy: ['create', 'delete', 'get', 'patch', 'update'] };
const verbsOf = ({ name, verbs }: Subresource): readonly string[] =>
  verbs.includes('connect') ? (connectVerbs[name] ?? ['create', 'get']) : verbs;

/** Returns the groups in discovery order with their served versions, most preferred first. A group without served kinds is omitted. */
export function servedGroups(served: readonly Kind[]): readonly ServedGroup[] {
  const found = new Map<string, Map<string, Kind[]>>();
  for (const kind of served) {
    const versions = found.get(kind.group) ?? new Map<string, Kind[]>();
    found.set(kind.group, versions);
    const kinds = versions.get(kind.version);
    if (kinds === undefined) versions.set(kind.version, [kind]);
    else kinds.push(kind);
  }
  const known = new Map(groups.map(({ name, versions }) => [name, versions]));
  const names = [...known.keys(), ...[...found.keys()].filter((name) => !known.has(name))];
  return names.flatMap((name) => {
    const versions = found.get(name);
    if (versions === undefined) return [];
    const order = known.get(name) ?? [];
    const inOrder = [
      ...order.filter((version) => versions.has(version)),
      ...[...versions.keys()].filter((version) => !order.includes(version)).sort(compareKubeAwareVersions),
    ];
    return [{ name, versions: inOrder.map((version) => ({ version, kinds: versions.get(version) ?? [] })) }];
  });
}

/** Returns the legacy discovery documents by path: `/api`, `/apis`, `/api/v1`, `/apis/GROUP`, `/apis/GROUP/VERSION`. */
export function discoveryDocuments({
  served,
  serverAddress,
  storageVersionHash: withHash = true,
}: DiscoveryInput): ReadonlyMap<string, Json> {
  const documents = new Map<string, Json>();
  const addresses = [{ clientCIDR: '0.0.0.0/0', serverAddress }];
  const all = servedGroups(served);
  const named = all.filter(({ name }) => name !== '');
  const core = all.find(({ name }) => name === '')?.versions ?? [];
  documents.set('/api', { kind: 'APIVersions', versions: core.map(({ version }) => version), serverAddressByClientCIDRs: addresses });
  documents.set('/apis', { kind: 'APIGroupList', apiVersion: 'v1', groups: named.map(apiGroup) });
  for (const group of named) documents.set(`/apis/${group.name}`, { kind: 'APIGroup', apiVersion: 'v1', ...apiGroup(group) });
  for (const { name, versions } of all) {
    for (const { version, kinds } of versions) {
      const groupVersion = name === '' ? version : `${name}/${version}`;
      documents.set(name === '' ? `/api/${version}` : `/apis/${groupVersion}`, {
        kind: 'APIResourceList',
        ...(name !== '' && { apiVersion: 'v1' }),
        groupVersion,
        resources: kinds.flatMap((kind) => apiResources(kind, withHash)),
      });
    }
  }
  return documents;
}

function apiGroup({ name, versions }: ServedGroup): Json {
  const listed = versions.map(({ version }) => ({ groupVersion: `${name}/${version}`, version }));
  return { name, versions: listed, preferredVersion: listed[0] };
}

function apiResources(kind: Kind, withHash: boolean): readonly Json[] {
  const { group, version, resource, singular, namespaced, verbs, shortNames, categories } = kind;
  const own = {
    name: resource,
    singularName: singular,
    namespaced,
    kind: kind.kind,
    verbs,
    ...(shortNames.length > 0 && { shortNames }),
    ...(categories.length > 0 && { categories }),
    ...(withHash && verbs.includes('list') && { storageVersionHash: storageVersionHash(kind) }),
  };
  return [
    own,
    ...kind.subresources.map((sub) => ({
      name: `${resource}/${sub.name}`,
      singularName: '',
      namespaced,
      ...(isForeignKind(sub, group, version) && { group: sub.group, version: sub.version }),
      kind: sub.kind,
      verbs: verbsOf(sub),
    })),
  ];
}

const isForeignKind = (sub: Subresource, group: string, version: string) => sub.group !== group || sub.version !== version;

/** Returns a storageVersionHash, which changes when the storage version of the resource changes. */
function storageVersionHash(of: Kind): string {
  const { group, version, kind } = of;
  return createHash('sha256')
    .update(`${group}/${publishedSchemaOf(of)?.storageVersion ?? version}/${kind}`)
    .digest()
    .subarray(0, 8)
    .toString('base64');
}

/** Returns the aggregated discovery document (KEP-3352) of `/api` or `/apis`. */
export function aggregatedDiscovery(served: readonly Kind[], path: '/api' | '/apis', version: 'v2' | 'v2beta1'): Json {
  const items = servedGroups(served).filter(({ name }) => (path === '/api') === (name === ''));
  return {
    kind: 'APIGroupDiscoveryList',
    apiVersion: `apidiscovery.k8s.io/${version}`,
    metadata: {},
    items: items.map(({ name, versions }) => ({
      metadata: { ...(name !== '' && { name }), creationTimestamp: null },
      versions: versions.map(({ version: served, kinds }) => ({
        version: served,
        resources: kinds.map(resourceDiscovery),
        freshness: 'Current',
      })),
    })),
  };
}

function resourceDiscovery(kind: Kind): Json {
  const { group, version, resource, singular, namespaced, verbs, shortNames, categories, subresources } = kind;
  return {
    resource,
    responseKind: { group, version, kind: kind.kind },
    scope: namespaced ? 'Namespaced' : 'Cluster',
    singularResource: singular,
    verbs,
    ...(shortNames.length > 0 && { shortNames }),
    ...(categories.length > 0 && { categories }),
    ...(subresources.length > 0 && {
      subresources: subresources.map((sub) => ({
        subresource: sub.name,
        responseKind: { group: sub.group, version: sub.version, kind: sub.kind },
        verbs: verbsOf(sub),
      })),
    }),
  };
}
