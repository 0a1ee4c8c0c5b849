import { isObject } from '@oarlock/api/json/json';
import { apiVersionOf } from '@oarlock/api/resource';
import type { ApiRequest } from '@oarlock/spi/loopback';
import type { PipelineResponse } from '../endpoints/request/response.ts';

/** Returns the list object, such as a PodList, of a list response. */
export const listObjectOf = ({ resource, items, metadata }: Extract<PipelineResponse, { kind: 'list' }>) => ({
  kind: `${resource.kind}List`,
  apiVersion: apiVersionOf(resource),
  metadata,
  items: items.map(({ object }) => object),
});

/** Returns the object without managedFields; for a list, the list with such items. */
export function withoutManagedFields(value: unknown): unknown {
  if (!isObject(value)) return value;
  const { metadata, items } = value;
  if (Array.isArray(items)) return { ...value, items: items.map(withoutManagedFields) };
  if (!isObject(metadata) || metadata['managedFields'] === undefined) return value;
  const { managedFields: _, ...rest } = metadata;
  return { ...value, metadata: rest };
}

/** Percent-encodes a path segment as Go clients do, which leave colons unencoded. */
const segment = (text: string): string => encodeURIComponent(text).replaceAll('%3A', ':');

/** Returns the request URI that an in-process request would have over HTTP. */
export function uriOf({ resource, namespace, name, subresource, query, verb }: ApiRequest): string {
  const { group, version, resource: plural } = resource;
  const parts = [
    group === '' ? 'api' : `apis/${group}`,
    version,
    ...(namespace === '' ? [] : ['namespaces', segment(namespace)]),
    plural,
    ...[segment(name), subresource].filter((part) => part !== ''),
  ];
  const parameters = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) if (value !== undefined) parameters.set(key, value);
  if (verb === 'watch') parameters.set('watch', 'true');
  const text = parameters.toString();
  return `/${parts.join('/')}${text === '' ? '' : `?${text}`}`;
}
