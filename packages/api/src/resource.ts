import type { KubeObject } from './object.ts';

declare const typed: unique symbol;

/** A typed handle of one resource of one API version (GroupVersionResource with the type of its objects). Plain and frozen. */
export interface Resource<T extends KubeObject = KubeObject> {
  /** The API group; '' for the core group. */
  readonly group: string;
  readonly version: string;
  /** The plural resource name in lower case, such as `pods`. */
  readonly resource: string;
  readonly kind: string;
  readonly namespaced: boolean;
  /** Never set; carries the object type. */
  readonly [typed]?: T;
}

export function resource<T extends KubeObject>(
  group: string,
  version: string,
  name: string,
  kind: string,
  namespaced: boolean,
): Resource<T> {
  return Object.freeze({ group, version, resource: name, kind, namespaced });
}

/** Returns `v1` or `apps/v1`. */
export function apiVersionOf(r: Pick<Resource, 'group' | 'version'>): string {
  return r.group === '' ? r.version : `${r.group}/${r.version}`;
}

/** Returns `pods` or `deployments.apps`, the notation of admission rules, RBAC messages and plugin tables. */
export function groupResource(r: Pick<Resource, 'group' | 'resource'>): string {
  return r.group === '' ? r.resource : `${r.resource}.${r.group}`;
}
