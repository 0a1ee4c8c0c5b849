import { own } from '../json.ts';
import { at, chain, defaults, each, objectAt, textAt, when, within, withField, zeroDefaults, type Fields, type Rule } from './rule.ts';

const rbac = 'rbac.authorization.k8s.io';
const binding = chain(
  within('roleRef', defaults({ apiGroup: rbac })),
  each(
    'subjects',
    when((subject) => ['User', 'Group'].includes(textAt(subject, 'kind')), defaults({ apiGroup: rbac })),
  ),
);

const networkPolicySpec: Rule = chain(
  (spec) => {
    const types = own(spec, 'policyTypes');
    if (Array.isArray(types) && types.length > 0) return spec;
    const egress = own(spec, 'egress');
    return { ...spec, policyTypes: Array.isArray(egress) && egress.length > 0 ? ['Ingress', 'Egress'] : ['Ingress'] };
  },
  each('ingress', each('ports', defaults({ protocol: 'TCP' }))),
  each('egress', each('ports', defaults({ protocol: 'TCP' }))),
);

const matchResources = chain(
  defaults({ matchPolicy: 'Equivalent', namespaceSelector: {}, objectSelector: {} }),
  each('resourceRules', defaults({ scope: '*' })),
  each('excludeResourceRules', defaults({ scope: '*' })),
);
const clientConfig = at('clientConfig', at('service', defaults({ port: 443 })));
const webhook = (more: Readonly<Record<string, string>>) =>
  each(
    'webhooks',
    chain(
      defaults({
        failurePolicy: 'Fail',
        matchPolicy: 'Equivalent',
        namespaceSelector: {},
        objectSelector: {},
        timeoutSeconds: 10,
        ...more,
      }),
      each('rules', defaults({ scope: '*' })),
      clientConfig,
    ),
  );
const policy = (more: Readonly<Record<string, string>>) =>
  at('spec', chain(defaults({ failurePolicy: 'Fail', ...more }), at('matchConstraints', matchResources)));
const policyBinding = at('spec', at('matchResources', matchResources));

const priorityLevel: Rule = chain(
  at('exempt', defaults({ nominalConcurrencyShares: 0, lendablePercent: 0 })),
  at(
    'limited',
    chain(
      defaults({ nominalConcurrencyShares: 30, lendablePercent: 0 }),
      at('limitResponse', at('queuing', zeroDefaults({ queues: 64, handSize: 8, queueLengthLimit: 50 }))),
    ),
  ),
);

const deviceRequest = chain(
  defaults({ allocationMode: 'ExactCount' }),
  (request: Fields) => (request['allocationMode'] === 'ExactCount' ? zeroDefaults({ count: 1 })(request) : request),
  each('tolerations', defaults({ operator: 'Equal' })),
);
const claimSpec = at(
  'devices',
  each(
    'requests',
    chain(
      (request) => (textAt(request, 'deviceClassName') === '' ? request : deviceRequest(request)),
      at('exactly', deviceRequest),
      each('firstAvailable', deviceRequest),
    ),
  ),
);

const crd: Rule = at(
  'spec',
  chain(
    (spec) => {
      const names = objectAt(spec, 'names');
      const kind = textAt(names, 'kind');
      return withField(spec, 'names', defaults({ singular: kind.toLowerCase(), ...(kind !== '' && { listKind: `${kind}List` }) })(names));
    },
    within('conversion', defaults({ strategy: 'None' })),
    at('conversion', at('webhook', clientConfig)),
  ),
);

const resourceVersions = (kind: string, rule: Rule) =>
  ['v1', 'v1beta1', 'v1beta2'].map((version) => [`resource.k8s.io/${version}/${kind}`, rule] as const);
const admission = (kind: string, rule: Rule) =>
  ['v1', 'v1beta1', 'v1alpha1'].map((version) => [`admissionregistration.k8s.io/${version}/${kind}`, rule] as const);

export const otherRules: Readonly<Record<string, Rule>> = {
  [`${rbac}/v1/RoleBinding`]: binding,
  [`${rbac}/v1/ClusterRoleBinding`]: binding,
  'networking.k8s.io/v1/NetworkPolicy': within('spec', networkPolicySpec),
  'networking.k8s.io/v1/IngressClass': at('spec', at('parameters', defaults({ scope: 'Cluster' }))),
  'storage.k8s.io/v1/StorageClass': defaults({ reclaimPolicy: 'Delete', volumeBindingMode: 'Immediate' }),
  'storage.k8s.io/v1/CSIDriver': within(
    'spec',
    defaults({
      attachRequired: true,
      podInfoOnMount: false,
      storageCapacity: false,
      fsGroupPolicy: 'ReadWriteOnceWithFSType',
      volumeLifecycleModes: ['Persistent'],
      requiresRepublish: false,
      seLinuxMount: false,
    }),
  ),
  'scheduling.k8s.io/v1/PriorityClass': defaults({ preemptionPolicy: 'PreemptLowerPriority' }),
  'flowcontrol.apiserver.k8s.io/v1/FlowSchema': within('spec', zeroDefaults({ matchingPrecedence: 1000 })),
  'flowcontrol.apiserver.k8s.io/v1/PriorityLevelConfiguration': at('spec', priorityLevel),
  'admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration': webhook({}),
  'admissionregistration.k8s.io/v1/MutatingWebhookConfiguration': webhook({ reinvocationPolicy: 'Never' }),
  ...Object.fromEntries([
    ...admission('ValidatingAdmissionPolicy', policy({})),
    ...admission('MutatingAdmissionPolicy', policy({ reinvocationPolicy: 'Never' })),
    ...admission('ValidatingAdmissionPolicyBinding', policyBinding),
    ...admission('MutatingAdmissionPolicyBinding', policyBinding),
    ...resourceVersions('ResourceClaim', at('spec', claimSpec)),
    ...resourceVersions('ResourceClaimTemplate', at('spec', at('spec', claimSpec))),
  ]),
  'apiextensions.k8s.io/v1/CustomResourceDefinition': crd,
  'apiregistration.k8s.io/v1/APIService': at('spec', at('service', defaults({ port: 443 }))),
};
