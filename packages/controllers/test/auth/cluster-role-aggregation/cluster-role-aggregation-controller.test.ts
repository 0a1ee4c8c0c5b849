import { clusterRoles } from '@oarlock/api/resources';
import type { PolicyRule } from '@oarlock/api/types/rbac-v1';
import aggregation from '@oarlock/controllers/auth/cluster-role-aggregation/cluster-role-aggregation-controller';
import { describe, expect, it } from 'vitest';
import { startControllers } from '../../support/run-controller.ts';

const rule = (resource: string): PolicyRule => ({ apiGroups: [''], resources: [resource], verbs: ['get'] });
const part = (name: string, label: string, ...rules: PolicyRule[]) => ({ metadata: { name, labels: { [label]: 'true' } }, rules });
const whole = (name: string, label: string, labels: Record<string, string> = {}) => ({
  metadata: { name, labels },
  aggregationRule: { clusterRoleSelectors: [{ matchLabels: { [label]: 'true' } }] },
});

describe('ClusterRole aggregation', () => {
  it('updates an aggregated role through several levels', async () => {
    const running = await startControllers([{ plugin: aggregation }], {
      seed: (api) =>
        api.seed(
          clusterRoles,
          whole('edit', 'to-edit'),
          whole('view', 'to-view', { 'to-edit': 'true' }),
          part('b', 'to-view', rule('pods'), rule('services')),
          part('a', 'to-view', rule('pods')),
          part('other', 'elsewhere', rule('secrets')),
        ),
    });
    const rules = (name: string) => running.api.object(clusterRoles, { name })?.rules;
    expect(rules('view')).toEqual([rule('pods'), rule('services')]);
    expect(rules('edit')).toEqual([rule('pods'), rule('services')]);
    expect(running.api.object(clusterRoles, { name: 'view' })?.metadata?.managedFields).toContainEqual(
      expect.objectContaining({ manager: 'clusterrole-aggregation-controller', operation: 'Apply' }),
    );
    const client = running.api.client();
    await client.create(clusterRoles, part('crd', 'to-view', rule('rockets')));
    await running.clock.settle();
    expect(rules('edit')).toEqual([rule('pods'), rule('services'), rule('rockets')]);
    await client.delete(clusterRoles, { name: 'b' });
    await running.clock.settle();
    expect(rules('edit')).toEqual([rule('pods'), rule('rockets')]);
    await client.update(clusterRoles, { ...(await client.get(clusterRoles, { name: 'view' })), rules: [rule('secrets')] });
    await running.clock.settle();
    expect(rules('view')).toEqual([rule('pods'), rule('rockets')]);
    await running.stop();
  });
});
