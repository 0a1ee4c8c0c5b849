import { own } from '../json/json.ts';
import {
  atField,
  chain,
  defaults,
  forEachItem,
  objectAt,
  textAt,
  when,
  atStruct,
  withField,
  zeroDefaults,
  type Fields,
  type DefaultingRule,
} from './defaulting-rule.ts';

const rbac = 'rbac.authorization.k8s.io';
const binding = chain(
  atStruct('roleRef', defaults({ apiGroup: rbac })),
  forEachItem(
    'subjects',
    when((subject) => ['User', 'Group'].includes(textAt(subject, 'kind')), defaults({ apiGroup: rbac })),
  ),
);

const networkPolicySpec: DefaultingRule = chain(
  (spec) => {
    const types = own(spec, 'policyTypes');
    if (Array.isArray(types) && types.length > 0) return spec;
    const egress = own(spec, 'egress');
    return { ...spec, policyTypes: Array.isArray(egress) && egress.length > 0 ? ['Ingress', 'Egress'] : ['Ingress'] };
  },
  forEachItem('ingress', forEachItem('ports', defaults({ protocol: 'TCP' }))),
  forEachItem('egress', forEachItem('ports', defaults({ protocol: 'TCP' }))),
);

const matchResources = chain(
  defaults({ matchPolicy: 'Equivalent', namespaceSelector: {}, objectSelector: {} }),
  forEachItem('resourceRules', defaults({ scope: '*' })),
  forEachItem('excludeResourceRules', defaults({ scope: '*' })),
);
const clientConfig = atField('clientConfig', atField('service', defaults({ port: 443 })));
const webhook = (more: Readonly<Record<string, string>>) =>
  forEachItem(
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
      forEachItem('rules', defaults({ scope: '*' })),
      clientConfig,
    ),
  );
const policy = (more: Readonly<Record<string, string>>) =>
  atField('spec', chain(defaults({ failurePolicy: 'Fail', ...more }), atField('matchConstraints', matchResources)));
const policyBinding = atField('spec', atField('matchResources', matchResources));

const priorityLevel: DefaultingRule = chain(
  atField('exempt', defaults({ nominalConcurrencyShares: 0, lendablePercent: 0 })),
  atField(
    'limited',
    chain(
      defaults({ nominalConcurrencyShares: 30, lendablePercent: 0 }),
      atField('limitResponse', atField('queuing', zeroDefaults({ queues: 64, handSize: 8, queueLengthLimit: 50 }))),
    ),
  ),
);

const deviceRequest = chain(
  defaults({ allocationMode: 'ExactCount' }),
  (request: Fields) => (request['allocationMode'] === 'ExactCount' ? zeroDefaults({ count: 1 })(request) : request),
  forEachItem('tolerations', defaults({ operator: 'Equal' })),
);
const allocatedTolerations = atField(
  'status',
  atField('allocation', atField('devices', forEachItem('results', forEachItem('tolerations', defaults({ operator: 'Equal' }))))),
);
const claimSpec = atField(
  'devices',
  forEachItem(
    'requests',
    chain(
      (request) => (textAt(request, 'deviceClassName') === '' ? request : deviceRequest(request)),
      atField('exactly', deviceRequest),
      forEachItem('firstAvailable', deviceRequest),
    ),
  ),
);

const crd: DefaultingRule = atField(
  'spec',
  chain(
    (spec) => {
      const names = objectAt(spec, 'names');
      const kind = textAt(names, 'kind');
      return withField(spec, 'names', defaults({ singular: kind.toLowerCase(), ...(kind !== '' && { listKind: `${kind}List` }) })(names));
    },
    atStruct('conversion', defaults({ strategy: 'None' })),
    atField('conversion', atField('webhook', clientConfig)),
  ),
);

const resourceVersions = (kind: string, rule: DefaultingRule) =>
  ['v1', 'v1beta1', 'v1beta2'].map((version) => [`resource.k8s.io/${version}/${kind}`, rule] as const);
const admission = (kind: string, rule: DefaultingRule) =>
  ['v1', 'v1beta1', 'v1alpha1'].map((version) => [`admissionregistration.k8s.io/${version}/${kind}`, rule] as const);

export const otherRules: Readonly<Record<string, DefaultingRule>> = {
  [`${rbac}/v1/RoleBinding`]: binding,
  [`${rbac}/v1/ClusterRoleBinding`]: binding,
  'networking.k8s.io/v1/NetworkPolicy': atStruct('spec', networkPolicySpec),
  'networking.k8s.io/v1/IngressClass': atField('spec', atField('parameters', defaults({ scope: 'Cluster' }))),
  'storage.k8s.io/v1/StorageClass': defaults({ reclaimPolicy: 'Delete', volumeBindingMode: 'Immediate' }),
  'storage.k8s.io/v1/CSIDriver': atStruct(
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
  'certificates.k8s.io/v1beta1/PodCertificateRequest': atField('spec', defaults({ maxExpirationSeconds: 86_400 })),
  'scheduling.k8s.io/v1/PriorityClass': defaults({ preemptionPolicy: 'PreemptLowerPriority' }),
  'flowcontrol.apiserver.k8s.io/v1/FlowSchema': atStruct('spec', zeroDefaults({ matchingPrecedence: 1000 })),
  'flowcontrol.apiserver.k8s.io/v1/PriorityLevelConfiguration': atField('spec', priorityLevel),
  'admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration': webhook({}),
  'admissionregistration.k8s.io/v1/MutatingWebhookConfiguration': webhook({ reinvocationPolicy: 'Never' }),
  ...Object.fromEntries([
    ...admission('ValidatingAdmissionPolicy', policy({})),
    ...admission('MutatingAdmissionPolicy', policy({ reinvocationPolicy: 'Never' })),
    ...admission('ValidatingAdmissionPolicyBinding', policyBinding),
    ...admission('MutatingAdmissionPolicyBinding', policyBinding),
    ...resourceVersions('ResourceClaim', chain(atField('spec', claimSpec), allocatedTolerations)),
    ...resourceVersions('ResourceClaimTemplate', atField('spec', atField('spec', claimSpec))),
  ]),
  'apiextensions.k8s.io/v1/CustomResourceDefinition': crd,
  'apiregistration.k8s.io/v1/APIService': atField('spec', atField('service', defaults({ port: 443 }))),
};
