import { parsePolicyRule } from '@oarlock/api/rbac/policy-rule-text';
import type { ClusterRole, ClusterRoleBinding, Role, RoleBinding, Subject } from '@oarlock/api/types/rbac-v1';
import { clusterBindingRows, namespaceBindingRows, nodePoliciesRow, nodeVolumesRow } from './default-bindings.ts';
import type { BindingRow, RoleRow } from './default-rows.ts';
import { clusterRoleRows } from './default-cluster-roles.ts';
import { controllerRoleRows } from './default-controller-roles.ts';
import { namespaceRoleRows } from './default-namespace-roles.ts';

export const autoupdate = 'rbac.authorization.kubernetes.io/autoupdate';
const annotations = { [autoupdate]: 'true' };
const labels = { 'kubernetes.io/bootstrapping': 'rbac-defaults' };
const apiGroup = 'rbac.authorization.k8s.io';
const apiVersion = `${apiGroup}/v1`;
const aggregateTo = (role: string) => ({ [`${apiGroup}/aggregate-to-${role}`]: 'true' });

function subjectOf(text: string): Subject {
  const [kind, name = ''] = text.split(' ');
  if (kind === 'account') {
    const [namespace = '', account = ''] = name.split('/');
    return { kind: 'ServiceAccount', namespace, name: account };
  }
  return { apiGroup, kind: kind === 'user' ? 'User' : 'Group', name };
}

const clusterRole = ({ name, into, from, rules }: RoleRow): ClusterRole => ({
  apiVersion,
  kind: 'ClusterRole',
  metadata: { name, annotations, labels: into === undefined ? labels : { ...labels, ...aggregateTo(into) } },
  ...(from !== undefined && { aggregationRule: { clusterRoleSelectors: [{ matchLabels: aggregateTo(from) }] } }),
  ...(rules && { rules: rules.map(parsePolicyRule) }),
});

const clusterBinding = ({ name, role = name, to }: BindingRow): ClusterRoleBinding => ({
  apiVersion,
  kind: 'ClusterRoleBinding',
  metadata: { name, annotations, labels },
  roleRef: { apiGroup, kind: 'ClusterRole', name: role },
  ...(to.length > 0 && { subjects: to.map(subjectOf) }),
});

export interface DefaultsOptions {
  /** True to let nodes list the objects that NetworkPolicies select, so that they can enforce the policies. */
  readonly nodePolicies?: boolean;
  /** True to let nodes create and delete their own local volumes. */
  readonly nodeVolumes?: boolean;
  /** Rules of controllers that are not built in, by service account in kube-system. */
  readonly controllers?: Readonly<Record<string, readonly string[]>>;
}

/** Every controller may record events, as upstream's controllers may. */
const eventRule = 'create,patch,update | core,events.k8s.io | events';

/** Returns the default roles and bindings. Each call returns new objects. */
export function defaultObjects({ nodePolicies = false, nodeVolumes = false, controllers = {} }: DefaultsOptions = {}): {
  readonly clusterRoles: readonly ClusterRole[];
  readonly clusterRoleBindings: readonly ClusterRoleBinding[];
  readonly roles: readonly Role[];
  readonly roleBindings: readonly RoleBinding[];
} {
  const ofController = ({ name }: RoleRow): BindingRow => ({
    name,
    to: [`account kube-system/${name.slice('system:controller:'.length)}`],
  });
  const pluginName = (account: string) => `oarlock:plugin:${account}`;
  const pluginRoles = Object.entries(controllers).map(
    ([account, rules]): RoleRow => ({
      name: pluginName(account),
      rules: [eventRule, ...rules],
    }),
  );
  const pluginBindings = Object.keys(controllers).map(
    (account): BindingRow => ({
      name: pluginName(account),
      to: [`account kube-system/${account}`],
    }),
  );
  return {
    clusterRoles: [...clusterRoleRows, ...controllerRoleRows, ...pluginRoles].map(clusterRole),
    clusterRoleBindings: [
      ...clusterBindingRows,
      ...(nodePolicies ? [nodePoliciesRow] : []),
      ...(nodeVolumes ? [nodeVolumesRow] : []),
      ...controllerRoleRows.map(ofController),
      ...pluginBindings,
    ].map(clusterBinding),
    roles: namespaceRoleRows.map(({ namespace = '', name, rules = [] }) => ({
      apiVersion,
      kind: 'Role',
      metadata: { namespace, name, annotations, labels },
      rules: rules.map(parsePolicyRule),
    })),
    roleBindings: namespaceBindingRows.map(({ namespace = '', name, role = name, to }) => ({
      apiVersion,
      kind: 'RoleBinding',
      metadata: { namespace, name, annotations, labels },
      roleRef: { apiGroup, kind: 'Role', name: role },
      subjects: to.map(subjectOf),
    })),
  };
}
