import type { ApiResource } from '../api/resources.ts';
import { link } from './router.ts';

type GroupVersionResource = Pick<ApiResource, 'group' | 'version' | 'resource'>;

/** The core group in links, where an empty segment would be lost. */
const coreGroup = 'core';
export const groupSegment = (group: string): string => (group === '' ? coreGroup : group);
export const groupOfSegment = (segment: string): string => (segment === coreGroup ? '' : segment);

/** Returns the link to the table of a resource. */
export const tableLink = (
  { group, version, resource }: GroupVersionResource,
  query: Readonly<Record<string, string | undefined>> = {},
): string => link(['r', groupSegment(group), version, resource], query);

/** Returns the link to an object, or to a tab of its page. */
export const objectLink = (
  { group, version, resource }: GroupVersionResource,
  { namespace, name }: { readonly namespace?: string | undefined; readonly name: string },
  tab?: string,
): string =>
  link([
    'o',
    groupSegment(group),
    version,
    resource,
    namespace === undefined || namespace === '' ? '-' : namespace,
    name,
    ...(tab === undefined ? [] : [tab]),
  ]);
