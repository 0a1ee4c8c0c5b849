import { isObject } from '@oarlock/api/json/json';
import { objectKey, type KubeObject } from '@oarlock/api/object';
import { groupResource, type Resource } from '@oarlock/api/resource';
import { LruMap } from '@oarlock/primitives/collections/lru-map';
import type { Client } from '@oarlock/spi/client';
import { isApplied } from './applied-fields.ts';

const maxRemembered = 4096; // objects

/** An apply request: the client, the resource, and the object in the cache, if it exists. */
export interface ApplyCall<O extends KubeObject> {
  readonly client: Client;
  readonly resource: Resource<O>;
  readonly cached: O | undefined;
  readonly subresource?: string;
}

/** Server-side apply with one field manager, which sends no request if the cache shows that it would change nothing. */
export class Applier {
  readonly #fieldManager: string;
  /** The last configuration by object, and the version that it led to, for values that the server stores in another notation. */
  readonly #last = new LruMap<string, { readonly text: string; readonly resourceVersion: string | undefined }>(maxRemembered);

  constructor(fieldManager: string) {
    this.#fieldManager = fieldManager;
  }

  /** Applies a configuration and takes over fields of other managers. Returns the object. @throws StatusError */
  async apply<O extends KubeObject>(configuration: KubeObject, call: ApplyCall<O>): Promise<O> {
    const { client, resource, cached, subresource = '' } = call;
    const text = JSON.stringify(configuration);
    const plain = JSON.parse(text) as KubeObject; // without undefined values
    const key = `${groupResource(resource)}/${subresource}/${objectKey(plain)}`;
    if (cached !== undefined) {
      const last = this.#last.get(key);
      if (last?.text === text && last.resourceVersion === cached.metadata?.resourceVersion) return cached;
      if (isApplied(withoutNulls(plain), cached, { fieldManager: this.#fieldManager, subresource })) return cached;
    }
    const { namespace, name = '' } = plain.metadata ?? {};
    const result = await client.patch(resource, { ...(namespace !== undefined && { namespace }), name }, 'apply', plain, {
      fieldManager: this.#fieldManager,
      force: true,
      ...(subresource !== '' && { subresource }),
    });
    this.#last.set(key, { text, resourceVersion: result.metadata?.resourceVersion });
    return result;
  }
}

/** The server treats a null as an absent field. */
function withoutNulls<T>(value: T): T {
  if (Array.isArray(value)) return value.map(withoutNulls) as T;
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, each]) => each !== null)
      .map(([name, each]) => [name, withoutNulls(each)]),
  ) as T;
}
