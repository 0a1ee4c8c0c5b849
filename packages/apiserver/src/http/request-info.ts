import type { Identity } from '@oarlock/spi/authn';
import type { Attributes } from '@oarlock/spi/authz';
import { isTrue, type Query, type RequestTarget } from './path.ts';

/** The meaning of a method and a path, whether a resource is served at the path or not (RequestInfo upstream). */
export type RequestInfo = NonResourceInfo | ResourceInfo;
export interface NonResourceInfo {
  readonly kind: 'path';
  readonly verb: string;
  readonly path: string;
}
export interface ResourceInfo {
  readonly kind: 'resource';
  /** The API verb: get, list, watch, create, update, patch, delete or deletecollection; '' for other methods. */
  readonly verb: string;
  readonly group: string;
  readonly version: string;
  readonly resource: string;
  readonly subresource: string;
  /** The namespace in the path. For a request for a Namespace, the name of the Namespace, so that roles in the namespace apply. */
  readonly namespace: string;
  readonly name: string;
  /** The path segments after the subresource, for proxies. */
  readonly rest: readonly string[];
  /** True if the path has the deprecated prefix `/watch/`. */
  readonly watchPrefix: boolean;
}

const verbs: Readonly<Record<string, string>> = {
  GET: 'get',
  HEAD: 'get',
  POST: 'create',
  PUT: 'update',
  PATCH: 'patch',
  DELETE: 'delete',
};
const namespaceSubresources: ReadonlySet<string> = new Set(['status', 'finalize']);

export function requestInfo(method: string, { segments, path, query }: RequestTarget): RequestInfo {
  const [prefix = ''] = segments;
  const grouped = prefix === 'apis';
  const at = grouped ? 3 : 2;
  if ((!grouped && prefix !== 'api') || segments.length <= at) return { kind: 'path', verb: method.toLowerCase(), path };
  const group = grouped ? (segments[1] ?? '') : '';
  const version = segments[at - 1] ?? '';
  const watchPrefix = segments[at] === 'watch' && segments.length > at + 1;
  let parts = segments.slice(watchPrefix ? at + 1 : at);
  let namespace = '';
  if (parts[0] === 'namespaces' && parts.length > 1) {
    namespace = parts[1] ?? '';
    if (parts.length > 2 && !namespaceSubresources.has(parts[2] ?? '')) parts = parts.slice(2);
  }
  const [resource = '', name = '', subresource = '', ...rest] = parts;
  return {
    kind: 'resource',
    verb: watchPrefix ? 'watch' : verbOf(method, name, query),
    group,
    version,
    resource,
    subresource,
    namespace,
    name,
    rest,
    watchPrefix,
  };
}

function verbOf(method: string, name: string, query: Query): string {
  const verb = verbs[method] ?? '';
  if (name !== '') return verb;
  if (verb === 'get') return isTrue(query.first['watch']) ? 'watch' : 'list';
  return verb === 'delete' ? 'deletecollection' : verb;
}

/** Returns the attributes by which authorizers decide on the request. */
export function attributesOf(info: RequestInfo, identity: Identity): Attributes {
  if (info.kind === 'path') return { kind: 'path', identity, verb: info.verb, path: info.path };
  const { verb, group, version, resource, subresource, namespace, name } = info;
  return { kind: 'resource', identity, verb, group, version, resource, subresource, namespace, name };
}
