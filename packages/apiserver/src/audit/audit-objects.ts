import { isObject } from '@oarlock/api/json/json';
import { apiVersionOf } from '@oarlock/api/resource';
import type { ApiRequest } from '@oarlock/spi/loopback';
import type { PipelineResponse } from '../request/response.ts';

/** A list as it is answered. */
export const listObjectOf = ({ resource, items, metadata }: Extract<PipelineResponse, { kind: 'list' }>) => ({
  kind: `${resource.kind}List`,
  apiVersion: apiVersionOf(resource),
  metadata,
  items: items.map(({ object }) => object),
});

/** An object, or each item of a list, without what is kept of field managers. */
export function withoutManagedFields(value: unknown): unknown {
  if (!isObject(value)) return value;
  const { metadata, items } = value;
  if (Array.isArray(items)) return { ...value, items: items.map(withoutManagedFields) };
  if (!isObject(metadata) || metadata['managedFields'] === undefined) return value;
  const { managedFields: _, ...rest } = metadata;
  return { ...value, metadata: rest };
}

/** As Go's clients write a segment of a path: a colon stays. */
const segment = (text: string): string => encodeURIComponent(text).replaceAll('%3A', ':');

/** What a request in process would have been over HTTP. */
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
