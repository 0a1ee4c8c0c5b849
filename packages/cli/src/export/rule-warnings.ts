import { describeRule, ruleMismatches, type RuleRequest } from '@oarlock/api/rbac/policy-rules';
import type { PolicyRule } from '@oarlock/api/types/rbac-v1';
import { printable } from '@oarlock/primitives/printable-text';

/** Permissions that lead to the permissions of other users. */
interface Escalation {
  /** A rule that allows one of these requests has this effect. */
  readonly requests: readonly RuleRequest[];
  /** What the plugin may do, after "may". */
  readonly effect: string;
  /** True if only a rule without `resourceNames` has the effect. */
  readonly allNames?: boolean;
}

const rbac = 'rbac.authorization.k8s.io';
const authentication = 'authentication.k8s.io';
const certificates = 'certificates.k8s.io';
const registration = 'admissionregistration.k8s.io';

const writes = ['create', 'update', 'patch'] as const;

/** Returns a request for each combination of verb and resource. */
const requests = (verbs: readonly string[], group: string, resources: readonly string[]): RuleRequest[] =>
  verbs.flatMap((verb) => resources.map((resource) => ({ verb, group, resource })));

/** https://kubernetes.io/docs/concepts/security/rbac-good-practices/#kubernetes-rbac-privilege-escalation-risks */
const escalations: readonly Escalation[] = [
  { requests: requests(['escalate'], rbac, ['roles', 'clusterroles']), effect: 'give roles permissions that it does not have' },
  { requests: requests(['bind'], rbac, ['roles', 'clusterroles']), effect: 'bind roles whose permissions it does not have' },
  {
    requests: [
      ...requests(['impersonate'], '', ['users', 'groups', 'serviceaccounts']),
      ...requests(['impersonate:user-info', 'impersonate:serviceaccount'], authentication, ['users', 'serviceaccounts']),
      ...requests(['impersonate:arbitrary-node', 'impersonate:associated-node'], authentication, ['nodes']),
    ],
    effect: 'act as another user',
  },
  { requests: requests(['create'], '', ['serviceaccounts/token']), effect: 'create tokens of other service accounts' },
  {
    requests: [
      ...requests(['create', 'get'], '', ['pods/exec', 'pods/attach', 'nodes/proxy']),
      ...requests(['update', 'patch'], '', ['pods/ephemeralcontainers']),
    ],
    effect: 'run commands in pods',
  },
  {
    // the responses to patch and deletecollection have the content of the objects
    requests: requests(['get', 'list', 'watch', 'patch', 'deletecollection'], '', ['secrets']),
    effect: 'read all Secrets',
    allNames: true,
  },
  {
    requests: [
      ...requests(writes, '', ['pods', 'replicationcontrollers']),
      ...requests(writes, 'apps', ['deployments', 'daemonsets', 'statefulsets', 'replicasets']),
      ...requests(writes, 'batch', ['jobs', 'cronjobs']),
    ],
    effect: 'run pods with any service account and Secret of their namespace',
  },
  { requests: requests(['create'], '', ['persistentvolumes']), effect: 'give pods access to files of nodes' },
  { requests: requests(['update', 'patch'], '', ['namespaces']), effect: 'change the Pod Security Standard of namespaces' },
  {
    requests: [
      ...requests(['update', 'patch'], certificates, ['certificatesigningrequests/approval']),
      ...requests(['approve', 'sign'], certificates, ['signers']),
    ],
    effect: 'approve or sign certificates of other users',
  },
  {
    requests: requests(writes, registration, ['validatingwebhookconfigurations', 'mutatingwebhookconfigurations']),
    effect: 'read and change the objects of all requests with a webhook',
  },
  {
    requests: requests(writes, registration, ['mutatingadmissionpolicies', 'mutatingadmissionpolicybindings']),
    effect: 'change the objects of all requests with a policy',
  },
  {
    requests: [
      ...requests(writes, 'apiregistration.k8s.io', ['apiservices']),
      ...requests(writes, 'apiextensions.k8s.io', ['customresourcedefinitions']),
    ],
    effect: 'let another server receive and answer requests for API groups or convert their objects',
  },
];

/** Returns a warning for each rule that has a wildcard or leads to permissions of other users. */
export function ruleWarnings(rules: readonly PolicyRule[]): readonly string[] {
  return rules.flatMap((rule) => {
    const effects = [...wildcardEffects(rule), ...escalations.filter((each) => isGranted(rule, each)).map(({ effect }) => effect)];
    return effects.length === 0 ? [] : [`Warning: with the rule ${printable(describeRule(rule))} the plugin may ${effects.join('; ')}`];
  });
}

function isGranted(rule: PolicyRule, { requests: candidates, allNames = false }: Escalation): boolean {
  return candidates.some((request) => ruleMismatches(rule, request).every((field) => field === 'resourceNames' && !allNames));
}

function wildcardEffects({ verbs, apiGroups = [], resources = [] }: PolicyRule): string[] {
  const subresources = resources.filter((each) => each.startsWith('*/')).map((each) => `"${each.slice(2)}" of all resources`);
  return [
    ...(verbs.includes('*') ? ['use all verbs'] : []),
    ...(apiGroups.includes('*') ? ['use all API groups, also those that are added later'] : []),
    ...(resources.includes('*') ? ['use all resources of its API groups with their subresources'] : []),
    ...subresources.map((each) => `use ${printable(each)}`),
  ];
}
