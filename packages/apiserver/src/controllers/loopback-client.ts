import type { KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import { isStatus, type StatusReason } from '@oarlock/api/status';
import type { Identity } from '@oarlock/spi/authn';
import type { RequestHandler } from '../endpoints/request/response.ts';

/** The identity of the API server's requests to itself. */
export const apiserverIdentity: Identity = { name: 'system:apiserver', groups: ['system:masters', 'system:authenticated'] };

/** A client for the API server's requests to itself, one object per request. Admission and validation run as for other clients. */
export class LoopbackClient {
  readonly #pipeline: RequestHandler;

  constructor(pipeline: RequestHandler) {
    this.#pipeline = pipeline;
  }

  get<T extends KubeObject>(resource: Resource<T>, object: KubeObject): Promise<T> {
    return this.#request('get', { resource, object, body: undefined }) as Promise<T>;
  }

  create(resource: Resource, object: KubeObject): Promise<KubeObject> {
    return this.#request('create', { resource, object, body: object });
  }

  update(resource: Resource, object: KubeObject, subresource = ''): Promise<KubeObject> {
    return this.#request('update', { resource, object, body: object, subresource });
  }

  delete(resource: Resource, object: KubeObject, preconditions?: { readonly uid: string }): Promise<KubeObject> {
    return this.#request('delete', {
      resource,
      object,
      body: { kind: 'DeleteOptions', apiVersion: 'v1', ...(preconditions && { preconditions }) },
    });
  }

  async #request(
    verb: 'get' | 'create' | 'update' | 'delete',
    {
      resource,
      object: { metadata: { name = '', namespace = '' } = {} },
      body,
      subresource = '',
    }: {
      readonly resource: Resource;
      readonly object: KubeObject;
      readonly body: object | undefined;
      readonly subresource?: string | undefined;
    },
  ): Promise<KubeObject> {
    const response = await this.#pipeline.handle({
      verb,
      resource,
      subresource,
      namespace,
      name: verb === 'create' ? '' : name,
      query: {},
      identity: apiserverIdentity,
      ...(body !== undefined && { body }),
    });
    if (response.kind !== 'object') throw new Error(`the API server answered ${verb} ${resource.resource} with a ${response.kind}`);
    return response.item.object;
  }
}

/** Returns an error handler that ignores StatusErrors with these reasons, such as Conflict, and rethrows other errors. */
export const ignoreReasons =
  (...reasons: readonly StatusReason[]) =>
  (error: unknown): undefined => {
    if (!isStatus(error, ...reasons)) throw error;
  };
