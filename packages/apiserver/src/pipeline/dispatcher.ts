import { groupResource } from '@oarlock/api/resource';
import { schemaOf } from '@oarlock/api/schema/schema';
import { failure } from '@oarlock/api/status';
import { continueWith } from '@oarlock/primitives/concurrency/continue-with';
import { customScale } from '../custom-resources/custom-scale.ts';
import type { RequestContext } from '../endpoints/request/request-context.ts';
import type { RegistryDependencies } from '../registry/registry-dependencies.ts';
import { create } from '../endpoints/handlers/create.ts';
import { deleteObject, deleteCollection } from '../endpoints/handlers/delete.ts';
import { patch } from '../endpoints/handlers/patch.ts';
import { update } from '../endpoints/handlers/update.ts';
import type { PipelineResponse } from '../endpoints/request/response.ts';
import type { ServedKind } from '../registry/served-kind.ts';
import { createBinding } from '../endpoints/handlers/subresources/binding.ts';
import { listComponentStatuses, type Component } from '../endpoints/handlers/subresources/component-statuses.ts';
import { evict } from '../endpoints/handlers/subresources/eviction.ts';
import { kubeletResponse } from '../endpoints/handlers/subresources/kubelet-location.ts';
import { nodeProxy, podProxy, serviceProxy } from '../endpoints/handlers/subresources/proxy.ts';
import { reviews } from '../endpoints/handlers/subresources/reviews.ts';
import { scale } from '../endpoints/handlers/subresources/scale.ts';
import { createToken } from '../endpoints/handlers/subresources/token-request.ts';

type Handler = (registry: RegistryDependencies, kind: ServedKind, context: RequestContext) => Promise<PipelineResponse>;
type Response = PipelineResponse | Promise<PipelineResponse>;

/** The handlers of subresources, by `resource.group/subresource`. */
const subresourceHandlers: Readonly<Record<string, Handler>> = {
  'pods/binding': createBinding,
  'pods/eviction': evict,
  'pods/log': kubeletResponse,
  'pods/exec': kubeletResponse,
  'pods/attach': kubeletResponse,
  'pods/portforward': kubeletResponse,
  'pods/proxy': podProxy,
  'services/proxy': serviceProxy,
  'nodes/proxy': nodeProxy,
  'serviceaccounts/token': createToken,
  'deployments.apps/scale': scale,
  'replicasets.apps/scale': scale,
  'statefulsets.apps/scale': scale,
  'replicationcontrollers/scale': scale,
};

/** Selects the handler of an authorized request by resource, subresource and verb. */
export class Dispatcher {
  readonly #registry: RegistryDependencies;
  readonly #components: () => readonly Component[];

  constructor(registry: RegistryDependencies, components: () => readonly Component[]) {
    this.#registry = registry;
    this.#components = components;
  }

  /** Runs the handler of an authorized request, and returns its response. Returns a promise only if the handler does. */
  dispatch(context: RequestContext): Response {
    const { resource, subresource, verb } = context.request;
    const resourceName = groupResource(resource);
    const review = reviews[resourceName];
    if (review !== undefined && Object.hasOwn(reviews, resourceName)) {
      const gvk = { group: resource.group, version: resource.version, kind: resource.kind };
      if (verb !== 'create' || subresource !== '') throw methodNotAllowed();
      return review(this.#registry, { gvk, schema: schemaOf(gvk), resource }, context);
    }
    if (resourceName === 'bindings' && subresource === '' && verb === 'create')
      return createBinding(this.#registry, this.#registry.servedKind('', 'v1', 'pods'), context);
    if (resourceName === 'componentstatuses') return listComponentStatuses(this.#components(), context);
    const kind = this.#registry.servedKind(resource.group, resource.version, resource.resource);
    if (kind.warning !== undefined) context.annotate('k8s.io/deprecated', 'true');
    if (kind.warning === undefined) return this.#dispatchServed(kind, resourceName, context);
    context.warn(kind.warning);
    return continueWith(this.#dispatchServed(kind, resourceName, context), (answer) =>
      answer.kind === 'list' || answer.kind === 'watch' ? { ...answer, warnings: context.warnings } : answer,
    );
  }

  #dispatchServed(kind: ServedKind, resourceName: string, context: RequestContext): Response {
    if (kind.customResource !== undefined) return this.#dispatchCustom(kind, context);
    return context.request.subresource === ''
      ? this.#dispatchObject(kind, context)
      : this.#dispatchSubresource(kind, resourceName, context);
  }

  #dispatchCustom(kind: ServedKind, context: RequestContext): Response {
    const { initialLoad: filling } = kind.cache;
    if (filling === undefined) return this.#dispatchLoadedCustom(kind, context);
    return raceWithAbort(filling, context.request.signal).then(() => this.#dispatchLoadedCustom(kind, context));
  }

  #dispatchLoadedCustom(kind: ServedKind, context: RequestContext): Response {
    const { request } = context;
    const { scale } = kind.customResource ?? {};
    if (request.subresource === 'scale' && scale !== undefined) return customScale({ registry: this.#registry, kind, context }, scale);
    return request.subresource === ''
      ? this.#dispatchObject(kind, context)
      : this.#dispatchSubresource(kind, groupResource(request.resource), context);
  }

  #dispatchObject(kind: ServedKind, context: RequestContext): Response {
    const { request } = context;
    const { reader } = this.#registry;
    switch (request.verb) {
      case 'get':
        return continueWith(reader.get(kind, request), (item) => ({ kind: 'object', code: 200, item, warnings: context.warnings }));
      case 'list':
        return reader.list(kind, request);
      case 'watch':
        return reader.watch(kind, request);
      case 'create':
        return create(this.#registry, kind, context);
      case 'update':
        return update(this.#registry, kind, context);
      case 'patch':
        return patch(this.#registry, kind, context);
      case 'delete':
        return deleteObject(this.#registry, kind, context);
      case 'deletecollection':
        return deleteCollection(this.#registry, kind, context);
      default:
        throw methodNotAllowed();
    }
  }

  #dispatchSubresource(kind: ServedKind, resourceName: string, context: RequestContext): Response {
    const { request } = context;
    const name = `${resourceName}/${request.subresource}`;
    const served = kind.kind.subresources.find((candidate) => candidate.name === request.subresource);
    if (served === undefined) throw failure('NotFound', 'the server could not find the requested resource', {});
    if (
      !served.verbs.includes(request.verb) &&
      !(served.verbs.includes('connect') && (request.subresource === 'proxy' || request.verb === 'get' || request.verb === 'create'))
    )
      throw methodNotAllowed();
    const handler = Object.hasOwn(subresourceHandlers, name) ? subresourceHandlers[name] : undefined;
    if (handler !== undefined) return handler(this.#registry, kind, context);
    switch (request.verb) {
      case 'get':
        return this.#dispatchObject(kind, context);
      case 'update':
        return update(this.#registry, kind, context);
      case 'patch':
        return patch(this.#registry, kind, context);
      default:
        throw methodNotAllowed();
    }
  }
}

/** Resolves when the promise resolves. @throws the reason of the signal if it aborts before */
function raceWithAbort(promise: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
  if (signal === undefined) return promise;
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
}

const methodNotAllowed = () => failure('MethodNotAllowed', 'the server does not allow this method on the requested resource', {});
