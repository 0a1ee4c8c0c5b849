import { parsePolicyRule, policyRulePattern, splitPolicyRules } from '@oarlock/api/rbac/policy-rule-text';
import { expect, it } from 'vitest';

it('parses the short form of rules', () => {
  expect(splitPolicyRules('create,update | core | configmaps; get | apps | deployments/scale | web;').map(parsePolicyRule)).toEqual([
    { verbs: ['create', 'update'], apiGroups: [''], resources: ['configmaps'] },
    { verbs: ['get'], apiGroups: ['apps'], resources: ['deployments/scale'], resourceNames: ['web'] },
  ]);
  expect(parsePolicyRule('get | /healthz')).toEqual({ verbs: ['get'], nonResourceURLs: ['/healthz'] });
});

it.each(['create configmaps', 'get | core', 'get | core | pods | a | b', 'get,  list | core | pods'])('the pattern rejects %j', (text) => {
  expect(text).not.toMatch(policyRulePattern);
});
