import { kindOf, parseApiVersion } from '@oarlock/api/kinds';
import type { KubeObject } from '@oarlock/api/object';
import { resource, type Resource } from '@oarlock/api/resource';
import type { DiscoveredKinds } from './discovered-kinds.ts';

/** The form in which everything that has a size shows it, under `scale`. */
export interface Scale extends KubeObject {
  readonly spec?: { readonly replicas?: number };
  readonly status?: { readonly replicas?: number; readonly selector?: string };
}

/** The resource of a kind that may have a `scale`, of this API, of a CustomResourceDefinition or of an extension API server; undefined when there is none. */
export function scaledResource(
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
