import { capitalize } from './capitalize.ts';

/** Returns the indefinite article of a kind in descriptions. */
export const article = (kind: string): string => (/^[AEIOU]/i.test(kind) ? 'an' : 'a');

/** The group and version of operations, in the form of tags and operation IDs. */
export interface OperationScope {
  readonly tag: string;
  /** The group and version, capitalized: `RbacAuthorizationV1`. */
  readonly title: string;
}
export function scopeOf(group: string, version: string): OperationScope {
  const name = group === '' ? 'core' : camel(group);
  return { tag: `${name}_${version}`, title: `${capitalize(name)}${capitalize(version)}` };
}
/** Converts a group name to camel case: `rbacAuthorization` for `rbac.authorization.k8s.io`. */
export function camel(group: string): string {
  const [first = '', ...rest] = group.replace(/\.k8s\.io$/, '').split('.');
  return first + rest.map(capitalize).join('');
}
