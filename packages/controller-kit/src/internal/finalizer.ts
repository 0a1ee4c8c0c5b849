import { splitKey, objectKey, type KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import { isStatus } from '@oarlock/api/status';
import type { Client } from '@oarlock/spi/client';

export const hasFinalizer = ({ metadata }: KubeObject, name: string): boolean => metadata?.finalizers?.includes(name) === true;

/**
 * Adds a finalizer. Returns the changed object, or undefined if the object does not exist any more.
 * @throws StatusError Conflict if the object is not the newest, so that finalizers of others are kept
 */
export const addFinalizer = <T extends KubeObject>(
  client: Client,
  resource: Resource<T>,
  { object, name }: FinalizerChange<T>,
): Promise<T | undefined> => setFinalizers(client, resource, { object, finalizers: [...(object.metadata?.finalizers ?? []), name] });

/** Removes a finalizer, as `addFinalizer` adds it. The API server then deletes the object if it was the last one. */
export const removeFinalizer = <T extends KubeObject>(
  client: Client,
  resource: Resource<T>,
  { object, name }: FinalizerChange<T>,
): Promise<T | undefined> =>
  setFinalizers(client, resource, { object, finalizers: (object.metadata?.finalizers ?? []).filter((each) => each !== name) });

interface FinalizerChange<T> {
  readonly object: T;
  readonly name: string;
}

async function setFinalizers<T extends KubeObject>(
  client: Client,
  resource: Resource<T>,
  { object, finalizers }: { readonly object: T; readonly finalizers: readonly string[] },
): Promise<T | undefined> {
  const { resourceVersion } = object.metadata ?? {};
  try {
    return await client.patch(resource, splitKey(objectKey(object)), 'merge', { metadata: { resourceVersion, finalizers } });
  } catch (error) {
    if (isStatus(error, 'NotFound')) return undefined;
    throw error;
  }
}
