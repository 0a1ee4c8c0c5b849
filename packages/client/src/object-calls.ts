import type { KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import type { DeleteOptions, GetOptions, ObjectName, PatchOptions, PatchType, WriteOptions } from '@oarlock/spi/client';
import { createCall, deleteCall, getCall, patchCall, updateCall, type Call } from './request.ts';

/** The calls of a client that are answered with one object; how a call gets to the server is left to who extends this. */
export abstract class ObjectCalls {
  /** @throws StatusError of a refusal */
  protected abstract object<T extends KubeObject>(call: Call): Promise<T>;

  async get<T extends KubeObject>(resource: Resource<T>, name: ObjectName, options?: GetOptions): Promise<T> {
    return this.object<T>(getCall(resource, name, options));
  }

  async create<T extends KubeObject>(
    resource: Resource<T>,
    object: T,
    options?: WriteOptions & { readonly name?: ObjectName },
  ): Promise<T> {
    return this.object<T>(createCall(resource, object, options));
  }

  async update<T extends KubeObject>(resource: Resource<T>, object: T, options?: WriteOptions): Promise<T> {
    return this.object<T>(updateCall(resource, object, options));
  }

  async patch<T extends KubeObject>(
    resource: Resource<T>,
    name: ObjectName,
    type: PatchType,
    patch: unknown,
    options?: PatchOptions,
  ): Promise<T> {
    return this.object<T>(patchCall(resource, name, type, patch, options));
  }

  async delete<T extends KubeObject>(resource: Resource<T>, name: ObjectName, options?: DeleteOptions): Promise<T | undefined> {
    const left = await this.object<T>(deleteCall(resource, name, options));
    return left.kind === 'Status' ? undefined : left;
  }
}
