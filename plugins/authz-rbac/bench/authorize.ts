import type { PolicyRule } from '@oarlock/api/types/rbac-v1';
import { ask, user } from '@oarlock/spi/authz/contract';
import { GrantIndex } from '../src/grants.ts';

/** What a decision costs with 1,000 roles and 5,000 bindings, for somebody who is in 20 of them and is refused by all. */
const index = new GrantIndex();
const apiGroup = 'rbac.authorization.k8s.io';
const rule = (n: number): PolicyRule => ({
  apiGroups: ['apps'],
  resources: [`things${n}`, 'widgets/status'],
  verbs: ['get', 'list', 'watch'],
});
for (let n = 0; n < 1_000; n++) index.putRole({ metadata: { name: `role-${n}` }, rules: [rule(n), rule(n + 1), rule(n + 2)] });
for (let n = 0; n < 5_000; n++) {
  const binding = {
    metadata: { name: `binding-${n}`, ...(n % 2 === 0 && { namespace: `ns-${n % 100}` }) },
    roleRef: { apiGroup, kind: 'ClusterRole', name: `role-${n % 1_000}` },
    subjects: [n % 250 === 1 ? { kind: 'Group', name: 'team' } : { kind: 'User', name: `user-${n % 1_500}` }],
  };
  index.putBinding(binding, undefined);
}
const member = ask(user('user-2', 'team', 'system:authenticated'), 'delete', 'pods', 'ns-2', 'web');
const rounds = 200_000;
const decide = () =>
  index.find(member.identity, member.namespace, (rules) =>
    rules.some((each) => each.allows(member.verb, member.group, member.resource, '', member.name)),
  );
for (let n = 0; n < rounds / 10; n++) decide();
const began = performance.now();
for (let n = 0; n < rounds; n++) decide();
const microseconds = ((performance.now() - began) * 1000) / rounds;
console.log(`rbac decision, 1,000 roles, 5,000 bindings: ${microseconds.toFixed(2)} us`);
