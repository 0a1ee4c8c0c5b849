import type { KubeObject } from './object.ts';

declare const typed: unique symbol;

/** Names one resource of one API version and, to the type checker, the type of its objects. A plain frozen value. */
export interface Resource<T extends KubeObject = KubeObject> {
  /** '' for the core group. */
  readonly group: string;
  readonly version: string;
  /** Plural, lower case: `pods`. */
  readonly resource: string;
  readonly kind: string;
  readonly namespaced: boolean;
  /** Never present at run time. */
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

/** `v1`, `apps/v1`. */
export function apiVersionOf(r: Pick<Resource, 'group' | 'version'>): string {
  return r.group === '' ? r.version : `${r.group}/${r.version}`;
}

/** `pods`, `deployments.apps`: how admission rules, RBAC messages and plugin tables name a resource. */
export function groupResource(r: Pick<Resource, 'group' | 'resource'>): string {
  return r.group === '' ? r.resource : `${r.resource}.${r.group}`;
}
