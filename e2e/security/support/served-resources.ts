import type { Api } from '../../harness/api.ts';

/** A resource or subresource of a served version, with its verbs. */
export interface ServedResource {
  readonly group: string;
  readonly version: string;
  /** With the subresource: `pods/log`. */
  readonly name: string;
  readonly namespaced: boolean;
  readonly verbs: readonly string[];
}
interface ResourceList {
  readonly resources: readonly { readonly name: string; readonly namespaced: boolean; readonly verbs: readonly string[] }[];
}
interface GroupList {
  readonly groups: readonly { readonly name: string; readonly versions: readonly { readonly version: string }[] }[];
}

/** Returns everything that discovery lists, in all served versions. */
export async function servedResources(api: Api): Promise<readonly ServedResource[]> {
  const { groups } = await api.get<GroupList>('/apis');
  const versions = [
    { group: '', version: 'v1', path: '/api/v1' },
    ...groups.flatMap(({ name, versions: served }) =>
      served.map(({ version }) => ({ group: name, version, path: `/apis/${name}/${version}` })),
    ),
  ];
  const lists = await Promise.all(
    versions.map(async ({ group, version, path }) =>
      (await api.get<ResourceList>(path)).resources.map(({ name, namespaced, verbs }) => ({ group, version, name, namespaced, verbs })),
    ),
  );
  return lists.flat();
}

export interface ResourceRequest {
  readonly method: string;
  readonly path: string;
  readonly body?: unknown;
  readonly type?: string;
}

/** Returns the HTTP request of a verb on a resource, for an object that does not exist, or for the namespace itself. It changes nothing. */
export function requestFor({ group, version, name, namespaced }: ServedResource, verb: string, namespace: string): ResourceRequest {
  const [resource = '', subresource] = name.split('/');
  const base = `${group === '' ? '/api' : `/apis/${group}`}/${version}${namespaced ? `/namespaces/${namespace}` : ''}/${resource}`;
  // a request for a namespace is authorized in that namespace
  const object = `${base}/${group === '' && resource === 'namespaces' ? namespace : 'matrix-x'}${subresource === undefined ? '' : `/${subresource}`}`;
  switch (verb) {
    case 'list':
      return { method: 'GET', path: `${base}?limit=1` };
    case 'watch':
      return { method: 'GET', path: `${base}?watch=1&timeoutSeconds=1` };
    case 'create':
      return { method: 'POST', path: `${subresource === undefined ? base : object}?dryRun=All`, body: {} };
    case 'update':
      return { method: 'PUT', path: `${object}?dryRun=All`, body: {} };
    case 'patch':
      return { method: 'PATCH', path: `${object}?dryRun=All`, body: {}, type: 'application/merge-patch+json' };
    case 'delete':
      return { method: 'DELETE', path: `${object}?dryRun=All` };
    case 'deletecollection':
      return { method: 'DELETE', path: `${base}?dryRun=All&labelSelector=matrix%3Dnone` };
    default:
      return { method: 'GET', path: object };
  }
}
