import type { Kind, Subresource } from '@oarlock/api/kinds';
import { groupResource, resource as describe, type Resource } from '@oarlock/api/resource';
import { badRequest, failure, notFound, type StatusError } from '@oarlock/api/status';
import type { ApiVerb } from '@oarlock/spi/loopback';
import { publishedSchemaOf } from '../custom-resources/published-kind.ts';
import type { ResourceInfo } from './request-info.ts';

/** The served resource and the verb that a request is for. */
export interface Route {
  readonly verb: ApiVerb;
  readonly kind: Kind;
  readonly resource: Resource;
  readonly subresource: Subresource | undefined;
  readonly namespace: string;
  readonly name: string;
  /** The kind of the options in the query, such as `PodExecOptions`; undefined if the subresource has no options. */
  readonly optionsKind: string | undefined;
  /** The object name in a deprecated watch path; undefined for other paths. */
  readonly watchedName: string | undefined;
  /** True for long-running requests, to which the request timeout does not apply. */
  readonly longRunning: boolean;
}

interface RoutedKind {
  readonly kind: Kind;
  readonly resource: Resource;
  readonly subresources: ReadonlyMap<string, Subresource>;
}

const longRunning: ReadonlySet<string> = new Set(['exec', 'attach', 'portforward', 'log', 'proxy']);
const connectMethods: ReadonlySet<string> = new Set(['GET', 'POST']);

export const isLongRunning = (subresource: string): boolean => longRunning.has(subresource);

export const pathNotFound = (): StatusError => failure('NotFound', 'the server could not find the requested resource', {});
export const methodNotAllowed = (): StatusError =>
  failure('MethodNotAllowed', 'the server does not allow this method on the requested resource', {});

/** Finds the served resource for a path. */
export class Routes {
  readonly #byGroupVersion = new Map<string, Map<string, RoutedKind>>();
  /** The group versions that contain built-in kinds. */
  readonly #builtin = new Set<string>();

  constructor(served: readonly Kind[]) {
    for (const kind of served) {
      const key = `${kind.group}/${kind.version}`;
      if (publishedSchemaOf(kind) === undefined) this.#builtin.add(key);
      const resources = this.#byGroupVersion.get(key) ?? new Map<string, RoutedKind>();
      this.#byGroupVersion.set(key, resources);
      resources.set(kind.resource, {
        kind,
        resource: publishedSchemaOf(kind)?.resource ?? describe(kind.group, kind.version, kind.resource, kind.kind, kind.namespaced),
        subresources: new Map(kind.subresources.map((subresource) => [subresource.name, subresource])),
      });
    }
  }

  /** Returns the route of a request. If there is none, returns the error of upstream, or undefined if upstream responds with a plain 404 page. */
  find(method: string, info: ResourceInfo): Route | StatusError | undefined {
    const groupVersion = `${info.group}/${info.version}`;
    const served = this.#byGroupVersion.get(groupVersion)?.get(info.resource);
    if (served !== undefined && publishedSchemaOf(served.kind) !== undefined) return customRoute(served, method, info);
    if (served === undefined || !scopedNames(served.kind, info)) return this.#builtin.has(groupVersion) ? pathNotFound() : undefined;
    return info.subresource === '' ? objectRoute(served, method, info) : subresourceRoute(served, method, info);
  }
}

/**
 * Returns the route of a request for a custom resource. Upstream registers no routes for custom resources: one handler serves the whole path and
 * dispatches by verb.
 */
function customRoute(served: RoutedKind, method: string, info: ResourceInfo): Route | StatusError | undefined {
  const { kind, resource, subresources } = served;
  const { verb, namespace, name } = info;
  if (kind.namespaced ? namespace === '' && verb !== 'list' && verb !== 'watch' : namespace !== '') return undefined;
  const subresource = info.subresource === '' ? undefined : subresources.get(info.subresource);
  if (info.subresource !== '' && subresource === undefined) return notFound(resource, name);
  const verbs = subresource === undefined ? apiVerbs : new Set(subresource.verbs);
  if (!isVerb(verb) || !verbs.has(verb) || (info.watchPrefix && method !== 'GET')) return unsupportedVerb(resource, verb);
  if (name === '' && (verb === 'update' || verb === 'patch')) return badRequest('name must be provided');
  return {
    verb,
    kind,
    resource,
    subresource,
    namespace,
    name: verb === 'create' || info.watchPrefix ? '' : name,
    optionsKind: undefined,
    watchedName: info.watchPrefix && name !== '' ? name : undefined,
    longRunning: verb === 'watch',
  };
}

const unsupportedVerb = ({ group, resource }: Resource, verb: string): StatusError =>
  failure('MethodNotAllowed', `${verb} is not supported on resources of kind ${JSON.stringify(groupResource({ group, resource }))}`, {
    ...(group !== '' && { group }),
    kind: resource,
  });

/** Returns true if the path contains a namespace and the kind is namespaced, or neither. */
function scopedNames(kind: Kind, { namespace, name, resource, subresource }: ResourceInfo): boolean {
  if (!kind.namespaced) return namespace === '' || (resource === 'namespaces' && kind.group === '' && namespace === name);
  return namespace !== '' || (name === '' && subresource === '');
}

function objectRoute({ kind, resource }: RoutedKind, method: string, info: ResourceInfo): Route | StatusError {
  const { verb, namespace, name, watchPrefix } = info;
  const everywhere = kind.namespaced && namespace === '';
  if (!isVerb(verb) || !kind.verbs.includes(verb) || (watchPrefix && method !== 'GET')) return methodNotAllowed();
  if (everywhere && verb !== 'list' && verb !== 'watch') return methodNotAllowed();
  if (method === 'HEAD' || (needsName.has(verb) !== (name !== '') && !watchPrefix)) return methodNotAllowed();
  return {
    verb,
    kind,
    resource,
    subresource: undefined,
    namespace: kind.namespaced ? namespace : '',
    name: watchPrefix ? '' : name,
    optionsKind: undefined,
    watchedName: watchPrefix && name !== '' ? name : undefined,
    longRunning: verb === 'watch',
  };
}

function subresourceRoute({ kind, resource, subresources }: RoutedKind, method: string, info: ResourceInfo): Route | StatusError {
  const subresource = subresources.get(info.subresource);
  if (subresource === undefined || (info.rest.length > 0 && subresource.name !== 'proxy')) return pathNotFound();
  const connects = subresource.verbs.includes('connect');
  // proxies accept every method; OPTIONS is authorized as a read
  const verb = subresource.name === 'proxy' && method === 'OPTIONS' ? 'get' : info.verb;
  if (!isVerb(verb) || info.watchPrefix) return methodNotAllowed();
  if (connects ? !connectMethods.has(method) && subresource.name !== 'proxy' : !subresource.verbs.includes(verb)) return methodNotAllowed();
  return {
    verb,
    kind,
    resource,
    subresource,
    namespace: kind.namespaced ? info.namespace : '',
    name: info.name,
    watchedName: undefined,
    optionsKind: connects ? subresource.kind : subresource.name === 'log' ? 'PodLogOptions' : undefined,
    longRunning: longRunning.has(subresource.name),
  };
}

const needsName: ReadonlySet<string> = new Set(['get', 'update', 'patch', 'delete']);
const apiVerbs: ReadonlySet<string> = new Set<ApiVerb>(['get', 'list', 'watch', 'create', 'update', 'patch', 'delete', 'deletecollection']);
const isVerb = (verb: string): verb is ApiVerb => apiVerbs.has(verb);
