import type { PolicyRule } from '@oarlock/api/types/rbac-v1';
import type { Identity } from '@oarlock/spi/authn';
import { noOpinion, type Attributes, type Decision, type SubjectRules } from '@oarlock/spi/authz';
import type { Grant, GrantIndex } from './grants.ts';

/** Returns the reason of an allowed request, as upstream: `RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "r" to Group "g"`. */
function allowReason({ binding, subject }: Grant): string {
  const { kind = '', roleRef, metadata } = binding;
  const name = metadata?.namespace ? `${metadata.name ?? ''}/${metadata.namespace}` : (metadata?.name ?? '');
  const subjectName =
    subject.kind === 'ServiceAccount' ? `${subject.name}/${subject.namespace || (metadata?.namespace ?? '')}` : subject.name;
  const bindingKind = kind === '' ? (metadata?.namespace ? 'RoleBinding' : 'ClusterRoleBinding') : kind;
  return `RBAC: allowed by ${bindingKind} ${JSON.stringify(name)} of ${roleRef.kind} ${JSON.stringify(roleRef.name)} to ${subject.kind} ${JSON.stringify(subjectName)}`;
}

/** Returns the decision of the roles and bindings in the index. As upstream, the reason of a request that is not allowed names missing roles. */
export function evaluateGrants(index: GrantIndex, attributes: Attributes): Decision {
  let missingRoles: Set<string> | undefined;
  const grant = findGrant(index, attributes, ({ binding: { roleRef } }) => {
    (missingRoles ??= new Set()).add(`${roleRef.kind.toLowerCase()}.rbac.authorization.k8s.io ${JSON.stringify(roleRef.name)} not found`);
  });
  if (grant !== undefined) return { decision: 'allow', reason: (grant.reason ??= allowReason(grant)) };
  if (missingRoles === undefined) return noOpinion;
  const errors = [...missingRoles];
  return { decision: 'no-opinion', reason: `RBAC: ${errors.length === 1 ? (errors[0] ?? '') : `[${errors.join(', ')}]`}` };
}

function findGrant(index: GrantIndex, attributes: Attributes, onMissingRole: (grant: Grant) => void): Grant | undefined {
  if (attributes.kind === 'path') {
    const { identity, verb, path } = attributes;
    return index.find({ identity, namespace: '', onMissingRole }, (rules) => rules.some((rule) => rule.allowsPath(verb, path)));
  }
  const { identity, verb, group, subresource, namespace, name } = attributes;
  const resource = subresource === '' ? attributes.resource : `${attributes.resource}/${subresource}`;
  const anyResource = subresource === '' ? '' : `*/${subresource}`;
  const request = { verb, group, resource, anyResource, name };
  return index.find({ identity, namespace, onMissingRole }, (rules) => {
    for (const rule of rules) if (rule.allows(request)) return true;
    return false;
  });
}

/** Returns the rules of all roles that are bound to a user in a namespace. */
export function rulesOf(index: GrantIndex, identity: Identity, namespace: string): SubjectRules {
  const resources: PolicyRule[] = [];
  const paths: PolicyRule[] = [];
  index.find({ identity, namespace }, (rules, { binding }) => {
    for (const { rule } of rules) {
      if ((rule.resources?.length ?? 0) > 0) resources.push(rule);
      // a RoleBinding grants no non-resource URLs, which have no namespace
      if ((rule.nonResourceURLs?.length ?? 0) > 0 && !binding.metadata?.namespace) paths.push(rule);
    }
    return false;
  });
  return { resources, paths };
}
