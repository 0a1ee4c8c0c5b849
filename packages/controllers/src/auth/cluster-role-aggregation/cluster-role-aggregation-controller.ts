import { jsonEqual } from '@oarlock/api/json/json';
import { selectorFromLabelSelector } from '@oarlock/api/selectors/label-selector';
import { clusterRoles } from '@oarlock/api/resources';
import type { ClusterRole, PolicyRule } from '@oarlock/api/types/rbac-v1';
import { Informers } from '@oarlock/spi/client';
import { Controllers, watch } from '@oarlock/spi/controller';
import { z } from 'zod';

/**
 * Returns the rules of all ClusterRoles that the aggregation rule of `role` selects, without duplicates, ordered by selector, then role name.
 * Returns undefined if `role` has no aggregation rule.
 */
export function aggregatedRules(role: ClusterRole, all: readonly ClusterRole[]): readonly PolicyRule[] | undefined {
  const selectors = role.aggregationRule?.clusterRoleSelectors;
  if (selectors === undefined) return undefined;
  const byName = all
    .filter(({ metadata }) => metadata?.name !== role.metadata?.name)
    .sort((a, b) => ((a.metadata?.name ?? '') < (b.metadata?.name ?? '') ? -1 : 1));
  const rules = new Map<string, PolicyRule>();
  for (const each of selectors) {
    const selector = selectorFromLabelSelector(each);
    for (const { metadata, rules: roleRules = [] } of byName) {
      if (!selector.matches(metadata?.labels ?? {})) continue;
      for (const rule of roleRules) {
        const key = JSON.stringify([rule.verbs, rule.apiGroups, rule.resources, rule.resourceNames, rule.nonResourceURLs]);
        if (!rules.has(key)) rules.set(key, rule);
      }
    }
  }
  return [...rules.values()];
}

/** Updates the rules of aggregated ClusterRoles from the ClusterRoles that their aggregation rules select. */
export default Controllers.plugin({
  id: 'controller-cluster-role-aggregation',
  declares: { loop: 'clusterrole-aggregation' },
  config: z.strictObject({}),
  needs: { informers: Informers },
  create({ informers }) {
    const roles = informers.forResource(clusterRoles);
    const aggregatedRoles = () => roles.list().filter(({ aggregationRule }) => aggregationRule !== undefined);
    return {
      name: 'clusterrole-aggregation',
      // any role may be selected by any aggregated role, of which there are few
      watches: [watch(roles, () => aggregatedRoles().map(({ metadata }) => metadata?.name ?? ''))],
      async reconcile(name, { client }) {
        const role = roles.get(name);
        const rules = role && aggregatedRules(role, roles.list());
        if (role === undefined || rules === undefined || jsonEqual(rules, role.rules ?? [])) return;
        // as upstream by server-side apply, so that managedFields names the controller as the owner of the rules
        const applied = { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'ClusterRole', metadata: { name }, rules };
        await client.patch(clusterRoles, { name }, 'apply', applied, { fieldManager: 'clusterrole-aggregation-controller', force: true });
      },
    };
  },
});
