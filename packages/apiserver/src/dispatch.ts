import { groupResource } from '@oarlock/api/resource';
import { schemaOf } from '@oarlock/api/schema';
import { failure, forbidden } from '@oarlock/api/status';
import { decodeBody } from './body.ts';
import type { Call } from './call.ts';
import type { Machinery } from './machinery.ts';
import { create } from './registry-create.ts';
import { remove, removeCollection } from './registry-delete.ts';
import { patch } from './registry-patch.ts';
import { update } from './registry-update.ts';
import type { PipelineResponse } from './response.ts';
import type { ServedKind } from './served-kind.ts';
import { updateRules } from './strategy/generic.ts';
import { bind } from './subresources/binding.ts';
import { componentStatus, type Component } from './subresources/component-statuses.ts';
import { evict } from './subresources/eviction.ts';
import { toKubelet } from './subresources/kubelet.ts';
import { nodeProxy, podProxy, serviceProxy } from './subresources/proxy.ts';
import { reviews } from './subresources/reviews.ts';
import { scale } from './subresources/scale.ts';
import { requestToken } from './subresources/token.ts';

type Handler = (machinery: Machinery, kind: ServedKind, call: Call) => Promise<PipelineResponse>;

/** Subresources with rules of their own, by `groupResource/subresource`. */
const subresources: Readonly<Record<string, Handler>> = {
  'pods/binding': bind,
  'pods/eviction': evict,
  'pods/log': toKubelet,
  'pods/exec': toKubelet,
  'pods/attach': toKubelet,
  'pods/portforward': toKubelet,
  'pods/proxy': podProxy,
  'services/proxy': serviceProxy,
  'nodes/proxy': nodeProxy,
  'serviceaccounts/token': requestToken,
  'deployments.apps/scale': scale,
  'replicasets.apps/scale': scale,
  'statefulsets.apps/scale': scale,
  'replicationcontrollers/scale': scale,
};

/** Finds who answers a request that is allowed: by its resource, its subresource and its verb. */
export class Dispatch {
  readonly #machinery: Machinery;
  readonly #components: () => readonly Component[];

  constructor(machinery: Machinery, components: () => readonly Component[]) {
    this.#machinery = machinery;
    this.#components = components;
  }

  /** The stages after authorization. */
  serve(call: Call): Promise<PipelineResponse> {
    const { resource, subresource, verb } = call.request;
    const what = groupResource(resource);
    const review = reviews[what];
    if (review !== undefined && Object.hasOwn(reviews, what)) {
      const gvk = { group: resource.group, version: resource.version, kind: resource.kind };
      if (verb !== 'create' || subresource !== '') throw notAllowed();
      return review(this.#machinery, { gvk, schema: schemaOf(gvk), resource }, call);
    }
    if (what === 'bindings' && subresource === '' && verb === 'create')
      return bind(this.#machinery, this.#machinery.kind('', 'v1', 'pods'), call);
    if (what === 'componentstatuses') return componentStatus(this.#components(), call);
    const kind = this.#machinery.kind(resource.group, resource.version, resource.resource);
    if (kind.warning !== undefined) call.annotate('k8s.io/deprecated', 'true');
    if (kind.warning === undefined) return this.#served(kind, what, call);
    call.warn(kind.warning);
    return this.#served(kind, what, call).then((answer) =>
      answer.kind === 'list' || answer.kind === 'watch' ? { ...answer, warnings: call.warnings } : answer,
    );
  }

  #served(kind: ServedKind, what: string, call: Call): Promise<PipelineResponse> {
    if (kind.custom !== undefined) return this.#custom(kind, call);
    return call.request.subresource === '' ? this.#object(kind, call) : this.#subresource(kind, what, call);
  }

  #custom(kind: ServedKind, call: Call): Promise<PipelineResponse> {
    const { filling } = kind.cache;
    if (filling === undefined) return this.#customObject(kind, call);
    return untilAborted(filling, call.request.signal).then(() => this.#customObject(kind, call));
  }

  #customObject(kind: ServedKind, call: Call): Promise<PipelineResponse> {
    const { request } = call;
    const { terminating = false, scale } = kind.custom ?? {};
    if (terminating && request.verb === 'create' && request.subresource === '')
      throw forbidden(
        request.resource,
        decodeBody(request.body, kind).metadata?.name ?? '',
        'create not allowed while custom resource definition is terminating',
      );
    if (request.subresource === 'scale' && scale !== undefined) return scale(this.#machinery, call);
    return request.subresource === '' ? this.#object(kind, call) : this.#subresource(kind, groupResource(request.resource), call);
  }

  #object(kind: ServedKind, call: Call): Promise<PipelineResponse> {
    const { request } = call;
    const { reader } = this.#machinery;
    switch (request.verb) {
      case 'get':
        return reader.get(kind, request).then((item) => ({ kind: 'object', code: 200, item, warnings: call.warnings }));
      case 'list':
        return reader.list(kind, request);
      case 'watch':
        return reader.watch(kind, request);
      case 'create':
        return create(this.#machinery, kind, call);
      case 'update':
        return update(this.#machinery, kind, call);
      case 'patch':
        return patch(this.#machinery, kind, call);
      case 'delete':
        return remove(this.#machinery, kind, call);
      case 'deletecollection':
        return removeCollection(this.#machinery, kind, call);
      default:
        throw notAllowed();
    }
  }

  #subresource(kind: ServedKind, what: string, call: Call): Promise<PipelineResponse> {
    const { request } = call;
    const name = `${what}/${request.subresource}`;
    const served = kind.kind.subresources.find((candidate) => candidate.name === request.subresource);
    if (served === undefined) throw failure('NotFound', 'the server could not find the requested resource', {});
    if (
      !served.verbs.includes(request.verb) &&
      !(served.verbs.includes('connect') && (request.subresource === 'proxy' || request.verb === 'get' || request.verb === 'create'))
    )
      throw notAllowed();
    const handler = Object.hasOwn(subresources, name) ? subresources[name] : undefined;
    if (handler !== undefined) return handler(this.#machinery, kind, call);
    const rules = updateRules(kind, request.subresource);
    switch (request.verb) {
      case 'get':
        return this.#object(kind, call);
      case 'update':
        return update(this.#machinery, kind, call, rules);
      case 'patch':
        return patch(this.#machinery, kind, call, rules);
      default:
        throw notAllowed();
    }
  }
}

/** @throws what the signal was aborted with */
function untilAborted(promise: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
  if (signal === undefined) return promise;
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
}

const notAllowed = () => failure('MethodNotAllowed', 'the server does not allow this method on the requested resource', {});
