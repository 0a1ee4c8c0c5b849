import { jsonEqual } from '@oarlock/api/json/json';
import type { KubeObject } from '@oarlock/api/object';
import type { AggregationRule, PolicyRule, RoleRef } from '@oarlock/api/types/rbac-v1';
import { allow, deny, type AdmissionPlugin, type AdmissionRequest, type AdmissionDecision } from '@oarlock/spi/admission';
import type { Identity } from '@oarlock/spi/authn';
import type { SubjectRules } from '@oarlock/spi/authz';
import { describeRule, quotedList, uncoveredRules } from '@oarlock/api/rbac/policy-rules';
import { runAuthorizers } from '../authorization/authorization.ts';
import type { RegistryDependencies } from '../registry/registry-dependencies.ts';

const group = 'rbac.authorization.k8s.io';
const version = 'v1';
const clusterAdminRules: readonly PolicyRule[] = [
  { apiGroups: ['*'], resources: ['*'], verbs: ['*'] },
  { nonResourceURLs: ['*'], verbs: ['*'] },
];

type EscalationDependencies = Pick<RegistryDependencies, 'authz' | 'reader' | 'servedKind'>;
interface RoleLike extends KubeObject {
  readonly rules?: readonly PolicyRule[];
  readonly aggregationRule?: AggregationRule;
}
interface BindingLike extends KubeObject {
  readonly roleRef?: RoleRef;
}

/**
 * Returns the admission plugin that prevents privilege escalation, as upstream's policy-based storage of RBAC does: to write a role, a user must
 * have its permissions or the verb `escalate`; to write a binding, a user must have the permissions of its role or the verb `bind`. Runs after all
 * other plugins, so that it checks the object that will be stored.
 */
export function rbacEscalationCheck(registry: () => EscalationDependencies): AdmissionPlugin {
  return {
    matches: [
      {
        resources: ['roles', 'clusterroles', 'rolebindings', 'clusterrolebindings'].map((resource) => `${resource}.${group}`),
        operations: ['CREATE', 'UPDATE'],
      },
    ],
    validate(request) {
      const { identity, object, old } = request;
      if (object === undefined || identity.groups.includes('system:masters')) return allow;
      if (old !== undefined && onlyForCollection(object, old)) return allow;
      const { resource } = request.resource;
      return resource === 'roles' || resource === 'clusterroles'
        ? checkRole(registry(), request, object)
        : checkBinding(registry(), request, object);
    },
  };
}

async function checkRole(registry: EscalationDependencies, request: AdmissionRequest, object: RoleLike): Promise<AdmissionDecision> {
  const { identity, namespace, name, resource, operation } = request;
  const attributes = {
    kind: 'resource',
    identity,
    verb: 'escalate',
    group,
    version: resource.version,
    resource: resource.resource,
    subresource: '',
  } as const;
  if ((await runAuthorizers(registry.authz, { ...attributes, namespace, name: operation === 'CREATE' ? '' : name })).decision === 'allow')
    return allow;
  const heldRules = await rulesOf(registry, identity, namespace);
  const denial = escalationError(identity, heldRules, object.rules ?? []);
  if (denial !== undefined) return denial;
  const old: RoleLike | undefined = request.old;
  const aggregates = (object.aggregationRule ?? old?.aggregationRule) !== undefined;
  return aggregates && escalationError(identity, heldRules, clusterAdminRules) !== undefined
    ? deny('must have cluster-admin privileges to use the aggregationRule')
    : allow;
}

async function checkBinding(
  registry: EscalationDependencies,
  { identity, namespace }: AdmissionRequest,
  { roleRef }: BindingLike,
): Promise<AdmissionDecision> {
  if (roleRef === undefined) return allow; // validation has rejected it
  const { kind, name } = roleRef;
  const resource = kind === 'ClusterRole' ? 'clusterroles' : 'roles';
  const asked = { kind: 'resource', identity, verb: 'bind', group, version, resource, subresource: '', namespace, name } as const;
  if ((await runAuthorizers(registry.authz, asked)).decision === 'allow') return allow;
  // a missing role is reported as NotFound, as upstream does
  const served = registry.servedKind(group, version, resource);
  const { object } = await registry.reader.getLatest(served, { namespace: kind === 'ClusterRole' ? '' : namespace, name });
  return escalationError(identity, await rulesOf(registry, identity, namespace), (object as RoleLike).rules ?? []) ?? allow;
}

interface EffectiveRules {
  readonly rules: readonly PolicyRule[];
  readonly errors: readonly string[];
}

async function rulesOf({ authz }: EscalationDependencies, identity: Identity, namespace: string): Promise<EffectiveRules> {
  const all: SubjectRules[] = [];
  for (const authorizer of authz) {
    const rules = authorizer.rulesFor?.(identity, namespace);
    if (rules !== undefined) all.push(await rules);
  }
  return {
    rules: all.flatMap(({ resources, paths }) => [...resources, ...paths]),
    errors: all.flatMap(({ incomplete }) => (incomplete === undefined ? [] : [incomplete])),
  };
}

function escalationError(
  { name, groups }: Identity,
  { rules, errors }: EffectiveRules,
  granted: readonly PolicyRule[],
): AdmissionDecision | undefined {
  const missing = uncoveredRules(rules, granted);
  if (missing.length === 0) return undefined;
  const described = [...new Set(missing.map(describeRule))].sort().join('\n');
  const more = errors.length === 0 ? '' : `; resolution errors: [${errors.join(', ')}]`;
  return deny(
    `user ${JSON.stringify(name)} (groups=${quotedList(groups)}) is attempting to grant RBAC permissions not currently held:\n${described}${more}`,
  );
}

/** Returns true if an update changes only fields that the garbage collector changes, which grant no permissions. */
function onlyForCollection(object: KubeObject, old: KubeObject): boolean {
  const rest = (each: KubeObject) => {
    const { ownerReferences: _owners, finalizers: _finalizers, managedFields: _fields, ...metadata } = each.metadata ?? {};
    return { ...each, metadata };
  };
  return jsonEqual(rest(object), rest(old));
}
