import { jsonEqual } from '@oarlock/api/json';
import type { KubeObject } from '@oarlock/api/object';
import type { AggregationRule, PolicyRule, RoleRef } from '@oarlock/api/types/rbac-v1';
import { allow, deny, type AdmissionPlugin, type AdmissionRequest, type Verdict } from '@oarlock/spi/admission';
import type { Identity } from '@oarlock/spi/authn';
import type { Rules } from '@oarlock/spi/authz';
import { describeRule, quotedList, uncovered } from '@oarlock/spi/authz-rules';
import { decide } from './authorization.ts';
import type { Machinery } from './machinery.ts';

const group = 'rbac.authorization.k8s.io';
const version = 'v1';
const everything: readonly PolicyRule[] = [
  { apiGroups: ['*'], resources: ['*'], verbs: ['*'] },
  { nonResourceURLs: ['*'], verbs: ['*'] },
];

type Needs = Pick<Machinery, 'authz' | 'reader' | 'kind'>;
interface RoleLike extends KubeObject {
  readonly rules?: readonly PolicyRule[];
  readonly aggregationRule?: AggregationRule;
}
interface BindingLike extends KubeObject {
  readonly roleRef?: RoleRef;
}

/**
 * Nobody gives more than they hold: who writes a role has to hold its rules, or may `escalate`; who writes a binding has to hold the rules of its role,
 * or may `bind` it. Runs last, so that it judges what is going to be stored. As the policy-based storage of Kubernetes' RBAC.
 */
export function rbacEscalation(machinery: () => Needs): AdmissionPlugin {
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
        ? role(machinery(), request, object)
        : binding(machinery(), request, object);
    },
  };
}

async function role(needs: Needs, request: AdmissionRequest, object: RoleLike): Promise<Verdict> {
  const { identity, namespace, name, resource, operation } = request;
  const asked = {
    kind: 'resource',
    identity,
    verb: 'escalate',
    group,
    version: resource.version,
    resource: resource.resource,
    subresource: '',
  } as const;
  if ((await decide(needs.authz, { ...asked, namespace, name: operation === 'CREATE' ? '' : name })).decision === 'allow') return allow;
  const held = await rulesOf(needs, identity, namespace);
  const refused = escalation(identity, held, object.rules ?? []);
  if (refused !== undefined) return refused;
  const old: RoleLike | undefined = request.old;
  const aggregates = (object.aggregationRule ?? old?.aggregationRule) !== undefined;
  return aggregates && escalation(identity, held, everything) !== undefined
    ? deny('must have cluster-admin privileges to use the aggregationRule')
    : allow;
}

async function binding(needs: Needs, { identity, namespace }: AdmissionRequest, { roleRef }: BindingLike): Promise<Verdict> {
  if (roleRef === undefined) return allow; // refused as invalid before
  const { kind, name } = roleRef;
  const resource = kind === 'ClusterRole' ? 'clusterroles' : 'roles';
  const asked = { kind: 'resource', identity, verb: 'bind', group, version, resource, subresource: '', namespace, name } as const;
  if ((await decide(needs.authz, asked)).decision === 'allow') return allow;
  // NotFound is answered as such, as upstream does
  const served = needs.kind(group, version, resource);
  const { object } = await needs.reader.newest(served, kind === 'ClusterRole' ? '' : namespace, name, undefined);
  return escalation(identity, await rulesOf(needs, identity, namespace), (object as RoleLike).rules ?? []) ?? allow;
}

interface Held {
  readonly rules: readonly PolicyRule[];
  readonly errors: readonly string[];
}

async function rulesOf({ authz }: Needs, identity: Identity, namespace: string): Promise<Held> {
  const all: Rules[] = [];
  for (const authorizer of authz) {
    const rules = authorizer.rulesFor?.(identity, namespace);
    if (rules !== undefined) all.push(await rules);
  }
  return {
    rules: all.flatMap(({ resources, paths }) => [...resources, ...paths]),
    errors: all.flatMap(({ incomplete }) => (incomplete === undefined ? [] : [incomplete])),
  };
}

function escalation({ name, groups }: Identity, { rules, errors }: Held, wanted: readonly PolicyRule[]): Verdict | undefined {
  const missing = uncovered(rules, wanted);
  if (missing.length === 0) return undefined;
  const described = [...new Set(missing.map(describeRule))].sort().join('\n');
  const more = errors.length === 0 ? '' : `; resolution errors: [${errors.join(', ')}]`;
  return deny(
    `user ${JSON.stringify(name)} (groups=${quotedList(groups)}) is attempting to grant RBAC permissions not currently held:\n${described}${more}`,
  );
}

/** What the garbage collector changes of an object grants nothing. */
function onlyForCollection(object: KubeObject, old: KubeObject): boolean {
  const rest = (each: KubeObject) => {
    const { ownerReferences: _owners, finalizers: _finalizers, managedFields: _fields, ...metadata } = each.metadata ?? {};
    return { ...each, metadata };
  };
  return jsonEqual(rest(object), rest(old));
}
