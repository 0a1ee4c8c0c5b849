import type { KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import { failure } from '@oarlock/api/status';
import type {
  DeleteOptions,
  GetOptions,
  ListOptions,
  ObjectName,
  PatchOptions,
  PatchType,
  WatchOptions,
  WriteOptions,
} from '@oarlock/spi/client';
import type { ApiVerb } from '@oarlock/spi/loopback';

/** A call of `Client` as both transports send it. */
export interface ApiCall {
  readonly verb: ApiVerb;
  readonly resource: Resource;
  readonly subresource: string;
  readonly namespace: string;
  readonly name: string;
  readonly query: Readonly<Record<string, string | undefined>>;
  readonly body?: unknown;
  readonly patchType?: PatchType;
  readonly signal?: AbortSignal;
}

const none: Readonly<Record<string, string | undefined>> = Object.freeze({});
const signalOf = ({ signal }: { readonly signal?: AbortSignal }) => (signal === undefined ? undefined : { signal });

export function getCall(resource: Resource, name: ObjectName, options: GetOptions = {}): ApiCall {
  return {
    verb: 'get',
    resource,
    subresource: options.subresource ?? '',
    ...locationOf(resource, name),
    query: options.resourceVersion === undefined ? none : { resourceVersion: options.resourceVersion },
    ...signalOf(options),
  };
}

export function listCall(resource: Resource, options: ListOptions = {}): ApiCall {
  return {
    verb: 'list',
    resource,
    subresource: '',
    namespace: options.namespace ?? '',
    name: '',
    query: listQuery(options),
    ...signalOf(options),
  };
}

export function watchCall(resource: Resource, options: WatchOptions): ApiCall {
  const query: Record<string, string | undefined> = { ...listQuery(options), watch: 'true' };
  if (options.bookmarks !== false) query['allowWatchBookmarks'] = 'true';
  if (options.sendInitialEvents === true) {
    query['sendInitialEvents'] = 'true';
    query['resourceVersionMatch'] ??= 'NotOlderThan';
  }
  if (options.timeoutSeconds !== undefined) query['timeoutSeconds'] = String(options.timeoutSeconds);
  return { verb: 'watch', resource, subresource: '', namespace: options.namespace ?? '', name: '', query, signal: options.signal };
}

export function createCall(resource: Resource, object: KubeObject, options: WriteOptions & { readonly name?: ObjectName } = {}): ApiCall {
  const where =
    options.name === undefined
      ? { namespace: resource.namespaced ? (object.metadata?.namespace ?? '') : '', name: '' }
      : locationOf(resource, options.name);
  if (resource.namespaced && where.namespace === '') throw failure('BadRequest', 'an empty namespace may not be set during creation');
  return {
    verb: 'create',
    resource,
    subresource: options.subresource ?? '',
    ...where,
    query: writeQuery(options),
    body: typed(resource, object, options.subresource),
    ...signalOf(options),
  };
}

export function updateCall(resource: Resource, object: KubeObject, options: WriteOptions = {}): ApiCall {
  const { name = '', namespace } = object.metadata ?? {};
  return {
    verb: 'update',
    resource,
    subresource: options.subresource ?? '',
    ...locationOf(resource, { name, ...(namespace !== undefined && { namespace }) }),
    query: writeQuery(options),
    body: typed(resource, object, options.subresource),
    ...signalOf(options),
  };
}

export function patchCall(resource: Resource, name: ObjectName, patchType: PatchType, body: unknown, options: PatchOptions = {}): ApiCall {
  const query = options.force === undefined ? writeQuery(options) : { ...writeQuery(options), force: String(options.force) };
  return {
    verb: 'patch',
    resource,
    subresource: options.subresource ?? '',
    ...locationOf(resource, name),
    query,
    body,
    patchType,
    ...signalOf(options),
  };
}

export function deleteCall(resource: Resource, name: ObjectName, options: DeleteOptions = {}): ApiCall {
  return {
    verb: 'delete',
    resource,
    subresource: '',
    ...locationOf(resource, name),
    query: none,
    body: deleteBody(options),
    ...signalOf(options),
  };
}

export function deleteCollectionCall(
  resource: Resource,
  options: DeleteOptions & Pick<ListOptions, 'namespace' | 'labelSelector' | 'fieldSelector'> = {},
): ApiCall {
  return {
    verb: 'deletecollection',
    resource,
    subresource: '',
    namespace: options.namespace ?? '',
    name: '',
    query: listQuery(options),
    body: deleteBody(options),
    ...signalOf(options),
  };
}

function locationOf(resource: Resource, { namespace = '', name }: ObjectName): { namespace: string; name: string } {
  if (name === '') throw failure('BadRequest', 'resource name may not be empty');
  if (resource.namespaced && namespace === '')
    throw failure('BadRequest', 'an empty namespace may not be set when a resource name is provided');
  return { namespace: resource.namespaced ? namespace : '', name };
}

function listQuery(options: Omit<ListOptions, 'signal'>): Record<string, string | undefined> {
  const query: Record<string, string | undefined> = {};
  if (options.labelSelector !== undefined && options.labelSelector !== '') query['labelSelector'] = options.labelSelector;
  if (options.fieldSelector !== undefined && options.fieldSelector !== '') query['fieldSelector'] = options.fieldSelector;
  if (options.limit !== undefined) query['limit'] = String(options.limit);
  if (options.continue !== undefined && options.continue !== '') query['continue'] = options.continue;
  if (options.resourceVersion !== undefined && options.resourceVersion !== '') query['resourceVersion'] = options.resourceVersion;
  if (options.resourceVersionMatch !== undefined) query['resourceVersionMatch'] = options.resourceVersionMatch;
  return query;
}

function writeQuery(options: WriteOptions): Readonly<Record<string, string | undefined>> {
  if (options.dryRun !== true && options.fieldManager === undefined) return none;
  return {
    ...(options.dryRun === true && { dryRun: 'All' }),
    ...(options.fieldManager !== undefined && { fieldManager: options.fieldManager }),
  };
}

function deleteBody({ gracePeriodSeconds, propagationPolicy, preconditions, dryRun }: DeleteOptions): unknown {
  return {
    kind: 'DeleteOptions',
    apiVersion: 'v1',
    ...(gracePeriodSeconds !== undefined && { gracePeriodSeconds }),
    ...(propagationPolicy !== undefined && { propagationPolicy }),
    ...(preconditions !== undefined && { preconditions }),
    ...(dryRun === true && { dryRun: ['All'] }),
  };
}

/** Adds apiVersion and kind of the resource if the object has none. Bodies of other subresources have kinds of their own. */
function typed(resource: Resource, object: KubeObject, subresource: string | undefined): KubeObject {
  if ((object.apiVersion !== undefined && object.kind !== undefined) || (subresource !== undefined && subresource !== 'status'))
    return object;
  return {
    ...object,
    apiVersion: object.apiVersion ?? (resource.group === '' ? resource.version : `${resource.group}/${resource.version}`),
    kind: object.kind ?? resource.kind,
  };
}
