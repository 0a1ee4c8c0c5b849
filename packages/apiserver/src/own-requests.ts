import type { KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import { isStatus, type StatusReason } from '@oarlock/api/status';
import type { Identity } from '@oarlock/spi/authn';
import type { Pipeline } from './pipeline.ts';

/** Who the API server is when it asks itself. */
export const apiserverIdentity: Identity = { name: 'system:apiserver', groups: ['system:masters', 'system:authenticated'] };

/** What the API server asks of itself: whole requests, with admission and validation, about one object each. */
export class OwnRequests {
  readonly #pipeline: Pick<Pipeline, 'handle'>;

  constructor(pipeline: Pick<Pipeline, 'handle'>) {
    this.#pipeline = pipeline;
  }

  get<T extends KubeObject>(resource: Resource<T>, object: KubeObject): Promise<T> {
    return this.#ask('get', resource, object, undefined) as Promise<T>;
  }

  create(resource: Resource, object: KubeObject): Promise<KubeObject> {
    return this.#ask('create', resource, object, object);
  }

  update(resource: Resource, object: KubeObject, subresource = ''): Promise<KubeObject> {
    return this.#ask('update', resource, object, object, subresource);
  }

  delete(resource: Resource, object: KubeObject, preconditions?: { readonly uid: string }): Promise<KubeObject> {
    return this.#ask('delete', resource, object, { kind: 'DeleteOptions', apiVersion: 'v1', ...(preconditions && { preconditions }) });
  }

  async #ask(
    verb: 'get' | 'create' | 'update' | 'delete',
    resource: Resource,
    { metadata: { name = '', namespace = '' } = {} }: KubeObject,
    body: object | undefined,
    subresource = '',
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

/** Lets refusals with these reasons pass, where somebody else was faster. */
export const unless =
  (...reasons: readonly StatusReason[]) =>
  (error: unknown): undefined => {
    if (!isStatus(error, ...reasons)) throw error;
  };
