import type { PolicyRule } from '@oarlock/api/types/rbac-v1';
import { resourceAttributes, user } from '@oarlock/spi/authz/contract';
import { GrantIndex } from '../src/grants.ts';

/** Measures a decision with 1,000 roles and 5,000 bindings, for a user with 20 bindings of which none allows the request. */
const index = new GrantIndex();
const apiGroup = 'rbac.authorization.k8s.io';
const ruleOf = (n: number): PolicyRule => ({
  apiGroups: ['apps'],
  resources: [`things${n}`, 'widgets/status'],
  verbs: ['get', 'list', 'watch'],
});
for (let n = 0; n < 1_000; n++) index.putRole({ metadata: { name: `role-${n}` }, rules: [ruleOf(n), ruleOf(n + 1), ruleOf(n + 2)] });
for (let n = 0; n < 5_000; n++) {
  const binding = {
    metadata: { name: `binding-${n}`, ...(n % 2 === 0 && { namespace: `ns-${n % 100}` }) },
    roleRef: { apiGroup, kind: 'ClusterRole', name: `role-${n % 1_000}` },
    subjects: [n % 250 === 1 ? { kind: 'Group', name: 'team' } : { kind: 'User', name: `user-${n % 1_500}` }],
  };
  index.putBinding(binding, undefined);
}
const member = resourceAttributes(user('user-2', 'team', 'system:authenticated'), 'delete', 'pods', 'ns-2', 'web');
const { verb, group, resource, name } = member;
const request = { verb, group, resource, name };
const iterations = 200_000;
const decide = () =>
  index.find({ identity: member.identity, namespace: member.namespace }, (rules) =>
    rules.some((rule) => rule.allows({ ...request, anyResource: '' })),
  );
for (let n = 0; n < iterations / 10; n++) decide();
const startedAt = performance.now();
for (let n = 0; n < iterations; n++) decide();
const microseconds = ((performance.now() - startedAt) * 1000) / iterations;
console.log(`rbac decision, 1,000 roles, 5,000 bindings: ${microseconds.toFixed(2)} us`);
