import { invalid, notSupported, notSupportedInOrder, required } from '../../field/field-error.ts';
import type { ClusterRole, PolicyRule, RoleBinding, Subject } from '../../generated/types/rbac-v1.ts';
import { jsonEqual } from '../../json/json.ts';
import { isDns1123Subdomain, isPathSegmentName } from '../../values/names.ts';
import { addInvalid, type Errors } from './checks.ts';
import { validateLabelSelector } from '../meta.ts';

const group = 'rbac.authorization.k8s.io';

function validateRule(errors: Errors, path: string, value: PolicyRule, namespaced: boolean): void {
  const { verbs = [], apiGroups = [], resources = [], resourceNames = [], nonResourceURLs = [] } = value;
  if (verbs.length === 0) errors.push(required(`${path}.verbs`, 'verbs must contain at least one value'));
  if (nonResourceURLs.length > 0) {
    if (namespaced) errors.push(invalid(`${path}.nonResourceURLs`, nonResourceURLs, 'namespaced rules cannot apply to non-resource URLs'));
    if (apiGroups.length > 0 || resources.length > 0 || resourceNames.length > 0)
      errors.push(
        invalid(`${path}.nonResourceURLs`, nonResourceURLs, 'rules cannot apply to both regular resources and non-resource URLs'),
      );
    return;
  }
  if (apiGroups.length === 0) errors.push(required(`${path}.apiGroups`, 'resource rules must supply at least one api group'));
  if (resources.length === 0) errors.push(required(`${path}.resources`, 'resource rules must supply at least one resource'));
}

/** Validates Roles, and ClusterRoles, which can be aggregated from others. */
export function validateRole(errors: Errors, { rules = [], aggregationRule }: ClusterRole, namespaced: boolean): void {
  for (const [i, value] of (rules ?? []).entries()) validateRule(errors, `rules[${i}]`, value, namespaced);
  if (aggregationRule === undefined) return;
  const selectors = aggregationRule.clusterRoleSelectors ?? [];
  if (selectors.length === 0)
    errors.push(
      required('aggregationRule.clusterRoleSelectors', 'at least one clusterRoleSelector required if aggregationRule is non-nil'),
    );
  for (const [i, selector] of selectors.entries()) validateLabelSelector(errors, `aggregationRule.clusterRoleSelectors[${i}]`, selector);
}

function validateSubject(
  errors: Errors,
  path: string,
  { kind = '', name = '', namespace = '', apiGroup = '' }: Subject,
  namespaced: boolean,
): void {
  if (name === '') errors.push(required(`${path}.name`));
  if (kind === 'ServiceAccount') {
    if (name !== '') addInvalid(errors, `${path}.name`, name, isDns1123Subdomain(name));
    if (apiGroup !== '') errors.push(notSupported(`${path}.apiGroup`, apiGroup, ['']));
    if (!namespaced && namespace === '') errors.push(required(`${path}.namespace`));
  } else if (kind === 'User' || kind === 'Group') {
    if (apiGroup !== group) errors.push(notSupported(`${path}.apiGroup`, apiGroup, [group]));
  } else errors.push(notSupportedInOrder(`${path}.kind`, kind, ['ServiceAccount', 'User', 'Group']));
}

export function validateRoleBinding(
  errors: Errors,
  { roleRef, subjects = [] }: RoleBinding,
  old: RoleBinding | undefined,
  namespaced: boolean,
): void {
  const { apiGroup = '', kind = '', name = '' } = roleRef ?? {};
  const kinds = namespaced ? ['Role', 'ClusterRole'] : ['ClusterRole'];
  if (apiGroup !== group) errors.push(notSupported('roleRef.apiGroup', apiGroup, [group]));
  if (!kinds.includes(kind)) errors.push(notSupportedInOrder('roleRef.kind', kind, kinds));
  if (name === '') errors.push(required('roleRef.name'));
  else addInvalid(errors, 'roleRef.name', name, isPathSegmentName(name));
  for (const [i, value] of (subjects ?? []).entries()) validateSubject(errors, `subjects[${i}]`, value, namespaced);
  if (old !== undefined && !jsonEqual(roleRef, old.roleRef)) errors.push(invalid('roleRef', roleRef, 'cannot change roleRef'));
}
