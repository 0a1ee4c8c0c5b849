import { kindOf, parseApiVersion } from '@oarlock/api/kinds';
import type { KubeObject } from '@oarlock/api/object';
import { resource, type Resource } from '@oarlock/api/resource';
import type { DiscoveredKinds } from './discovered-kinds.ts';

/** The `scale` subresource of any scalable kind. */
export interface Scale extends KubeObject {
  readonly spec?: { readonly replicas?: number };
  readonly status?: { readonly replicas?: number; readonly selector?: string };
}

/** Returns the resource of a built-in or discovered kind, which may have a `scale` subresource. Returns undefined if the kind is unknown. */
export function scaleResource(
  discovered: Pick<DiscoveredKinds, 'find'>,
  apiVersion: string,
  kindName: string,
): Resource<Scale> | undefined {
  const { group, version } = parseApiVersion(apiVersion);
  const kind = kindOf({ group, version, kind: kindName });
  if (kind === undefined) return discovered.find(group, kindName) as Resource<Scale> | undefined;
  if (!kind.subresources.some(({ name }) => name === 'scale')) return undefined;
  return resource<Scale>(kind.group, kind.version, kind.resource, kind.kind, kind.namespaced);
}
