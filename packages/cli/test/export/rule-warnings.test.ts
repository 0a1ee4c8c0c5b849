import { parsePolicyRule } from '@oarlock/api/rbac/policy-rule-text';
import { expect, it } from 'vitest';
import { ruleWarnings } from '../../src/export/rule-warnings.ts';

const warningsOf = (text: string) => ruleWarnings([parsePolicyRule(text)]);
const effectsOf = (text: string) => warningsOf(text).map((each) => each.replace(/^.* the plugin may /, ''));

it('names the rule and its effect', () => {
  expect(warningsOf('get,list | core | secrets')).toEqual([
    'Warning: with the rule {APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]} the plugin may read all Secrets',
  ]);
});

it.each([
  ['* | networking.k8s.io | ingresses', 'use all verbs'],
  ['get | * | deployments', 'use all API groups, also those that are added later'],
  ['get | apps | *', 'use all resources of its API groups with their subresources'],
  ['update | apps | */scale', 'use "scale" of all resources'],
  ['escalate | rbac.authorization.k8s.io | clusterroles', 'give roles permissions that it does not have'],
  ['bind | rbac.authorization.k8s.io | clusterroles | cluster-admin', 'bind roles whose permissions it does not have'],
  ['impersonate | core | groups | system:masters', 'act as another user'],
  ['impersonate:user-info | authentication.k8s.io | users', 'act as another user'],
  ['create | core | serviceaccounts/token', 'create tokens of other service accounts'],
  ['create | core | pods/exec', 'run commands in pods'],
  ['get | core | nodes/proxy', 'run commands in pods'],
  ['patch | core | pods/ephemeralcontainers', 'run commands in pods'],
  ['watch | core | secrets', 'read all Secrets'],
  ['patch | core | secrets', 'read all Secrets'],
  ['deletecollection | core | secrets', 'read all Secrets'],
  ['create | core | pods', 'run pods with any service account and Secret of their namespace'],
  ['patch | core | replicationcontrollers', 'run pods with any service account and Secret of their namespace'],
  ['create | apps | deployments', 'run pods with any service account and Secret of their namespace'],
  ['update | apps | daemonsets', 'run pods with any service account and Secret of their namespace'],
  ['create | batch | cronjobs', 'run pods with any service account and Secret of their namespace'],
  ['create | core | persistentvolumes', 'give pods access to files of nodes'],
  ['patch | core | namespaces', 'change the Pod Security Standard of namespaces'],
  ['create | admissionregistration.k8s.io | mutatingadmissionpolicies', 'change the objects of all requests with a policy'],
  [
    'update | apiregistration.k8s.io | apiservices',
    'let another server receive and answer requests for API groups or convert their objects',
  ],
  [
    'create | apiextensions.k8s.io | customresourcedefinitions',
    'let another server receive and answer requests for API groups or convert their objects',
  ],
  ['approve | certificates.k8s.io | signers | kubernetes.io/kube-apiserver-client', 'approve or sign certificates of other users'],
  ['patch | admissionregistration.k8s.io | mutatingwebhookconfigurations', 'read and change the objects of all requests with a webhook'],
])('%s: the plugin may %s', (rule, effect) => {
  expect(effectsOf(rule)).toEqual([effect]);
});

it.each([
  ['* | core | secrets', ['use all verbs; read all Secrets']],
  ['create | core | */exec', ['use "exec" of all resources; run commands in pods']],
  ['get | * | secrets', ['use all API groups, also those that are added later; read all Secrets']],
])('a wildcard of %s has the effects that it includes', (rule, effects) => {
  expect(effectsOf(rule)).toEqual(effects);
});

it('a rule for everything has all effects', () => {
  expect(effectsOf('* | * | *')[0]?.split('; ')).toHaveLength(16);
});

it.each([
  'create,update | core | configmaps',
  'get,list,watch | apps | deployments',
  'get,patch | core | secrets | webhook-tls',
  'delete | apps | deployments',
  'update | core | pods/status',
  'create,update,delete | core | secrets',
  'escalate | apps | deployments',
  'create | example.com | pods',
  'update | apps | deployments/scale',
])('%s has no warning', (rule) => {
  expect(warningsOf(rule)).toEqual([]);
});

it('shows no control characters of a rule', () => {
  const [warning] = warningsOf('get\u009b2J,\u202e | core | secrets,*/\u001b[2J');
  expect(warning).not.toMatch(/[\p{Cc}\p{Bidi_Control}]/u);
});
