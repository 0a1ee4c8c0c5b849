import { jsonEqual } from '@oarlock/api/json';
import { selectorFromObject } from '@oarlock/api/label-selector';
import { clusterRoles } from '@oarlock/api/resources';
import type { ClusterRole, PolicyRule } from '@oarlock/api/types/rbac-v1';
import { Informers } from '@oarlock/spi/client';
import { Controllers, watch } from '@oarlock/spi/controller';
import { z } from 'zod';

/** The rules of all roles that a role's aggregation rule selects: by selector, then name, none twice. Undefined where it has no such rule. */
export function aggregatedRules(role: ClusterRole, all: readonly ClusterRole[]): readonly PolicyRule[] | undefined {
  const selectors = role.aggregationRule?.clusterRoleSelectors;
  if (selectors === undefined) return undefined;
  const byName = all
    .filter(({ metadata }) => metadata?.name !== role.metadata?.name)
    .sort((a, b) => ((a.metadata?.name ?? '') < (b.metadata?.name ?? '') ? -1 : 1));
  const rules = new Map<string, PolicyRule>();
  for (const each of selectors) {
    const selector = selectorFromObject(each);
    for (const { metadata, rules: held = [] } of byName) {
      if (!selector.matches(metadata?.labels ?? {})) continue;
      for (const rule of held) {
        const key = JSON.stringify([rule.verbs, rule.apiGroups, rule.resources, rule.resourceNames, rule.nonResourceURLs]);
        if (!rules.has(key)) rules.set(key, rule);
      }
    }
  }
  return [...rules.values()];
}

/** Keeps the rules of aggregated ClusterRoles to what the roles hold that they are made of. */
export default Controllers.plugin({
  id: 'controller-cluster-role-aggregation',
  declares: { loop: 'clusterrole-aggregation' },
  config: z.strictObject({}),
  needs: { informers: Informers },
  create({ informers }) {
    const roles = informers.of(clusterRoles);
    const aggregated = () => roles.list().filter(({ aggregationRule }) => aggregationRule !== undefined);
    return {
      name: 'clusterrole-aggregation',
      // one role may be part of any: there are few that are made of others
      watches: [watch(roles, () => aggregated().map(({ metadata }) => metadata?.name ?? ''))],
      async reconcile(name, { client }) {
        const role = roles.get(name);
        const rules = role && aggregatedRules(role, roles.list());
        if (role === undefined || rules === undefined || jsonEqual(rules, role.rules ?? [])) return;
        await client.update(clusterRoles, { ...role, rules }, { fieldManager: 'clusterrole-aggregation-controller' });
      },
    };
  },
});
