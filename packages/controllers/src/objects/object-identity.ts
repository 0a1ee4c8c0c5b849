import type { KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';

/** Returns the object with apiVersion and kind, which items of typed lists lack. */
export function withTypeMeta<T extends KubeObject>(resource: Resource<T>, object: T): T {
  const apiVersion = resource.group === '' ? resource.version : `${resource.group}/${resource.version}`;
  return object.apiVersion === apiVersion && object.kind === resource.kind ? object : { ...object, apiVersion, kind: resource.kind };
}

/** Returns the name and namespace of an object, as requests take them. */
export const objectName = ({ metadata }: KubeObject): { readonly name: string; readonly namespace?: string } => ({
  name: metadata?.name ?? '',
  ...(metadata?.namespace !== undefined && { namespace: metadata.namespace }),
});
