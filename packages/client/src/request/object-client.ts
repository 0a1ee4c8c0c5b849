import type { KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import type { DeleteOptions, GetOptions, ObjectName, PatchOptions, PatchType, WriteOptions } from '@oarlock/spi/client';
import { createCall, deleteCall, getCall, patchCall, updateCall, type ApiCall } from './api-call.ts';

/** The methods of a client that return one object. Subclasses send the call to the server. */
export abstract class ObjectClient {
  /** @throws StatusError with the server's status */
  protected abstract requestObject<T extends KubeObject>(call: ApiCall): Promise<T>;

  async get<T extends KubeObject>(resource: Resource<T>, name: ObjectName, options?: GetOptions): Promise<T> {
    return this.requestObject<T>(getCall(resource, name, options));
  }

  async create<T extends KubeObject>(
    resource: Resource<T>,
    object: T,
    options?: WriteOptions & { readonly name?: ObjectName },
  ): Promise<T> {
    return this.requestObject<T>(createCall(resource, object, options));
  }

  async update<T extends KubeObject>(resource: Resource<T>, object: T, options?: WriteOptions): Promise<T> {
    return this.requestObject<T>(updateCall(resource, object, options));
  }

  async patch<T extends KubeObject>(
    resource: Resource<T>,
    name: ObjectName,
    type: PatchType,
    patch: unknown,
    options?: PatchOptions,
  ): Promise<T> {
    return this.requestObject<T>(patchCall(resource, name, type, patch, options));
  }

  async delete<T extends KubeObject>(resource: Resource<T>, name: ObjectName, options?: DeleteOptions): Promise<T | undefined> {
    const left = await this.requestObject<T>(deleteCall(resource, name, options));
    return left.kind === 'Status' ? undefined : left;
  }
}
