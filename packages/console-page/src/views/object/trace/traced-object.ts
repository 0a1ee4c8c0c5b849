import type { TreeNode } from '@oarlock/tracing/trace-tree';
import type { ApiResource } from '../../../api/resources.ts';

export const tracesPath = '/oarlock/v1/traces';

type Span = TreeNode['span'];

export interface TraceResponse {
  /** The spans of the object itself. */
  readonly about: readonly Span[];
  /** The spans of the selected traces. */
  readonly spans: readonly Span[];
}

/** Returns an object as spans name it, such as `deployments.apps/default/web`. */
export const tracedObject = (
  { group, resource }: Pick<ApiResource, 'group' | 'resource'>,
  { namespace, name }: { readonly namespace?: string | undefined; readonly name: string },
): string => [group === '' ? resource : `${resource}.${group}`, ...(namespace === undefined ? [] : [namespace]), name].join('/');
