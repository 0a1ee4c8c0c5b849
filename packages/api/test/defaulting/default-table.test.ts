import { describe, expect, it } from 'vitest';
import { applyDefaults } from '@oarlock/api/defaulting/apply-defaults';
import { gvkOf, kinds } from '@oarlock/api/kinds';
import { deepFreeze, type KubeObject } from '@oarlock/api/object';

type Fields = Readonly<Record<string, unknown>>;
const now = Date.parse('2026-06-01T12:00:00.750Z');
const time = '2026-06-01T12:00:00Z';

const podSpec: Fields = {
  dnsPolicy: 'ClusterFirst',
  restartPolicy: 'Always',
  schedulerName: 'default-scheduler',
  securityContext: {},
  terminationGracePeriodSeconds: 30,
};
const container = (path: string): Fields => ({
  [`${path}.imagePullPolicy`]: 'Always',
  [`${path}.resources`]: {},
  [`${path}.terminationMessagePath`]: '/dev/termination-log',
  [`${path}.terminationMessagePolicy`]: 'File',
});
const probe = (path: string): Fields => ({
  [`${path}.failureThreshold`]: 3,
  [`${path}.periodSeconds`]: 10,
  [`${path}.successThreshold`]: 1,
  [`${path}.timeoutSeconds`]: 1,
});
const at = (prefix: string, fields: Fields): Fields =>
  Object.fromEntries(Object.entries(fields).map(([path, value]) => [`${prefix}.${path}`, value]));
const template = { metadata: { labels: { a: 'b' } }, spec: { containers: [{ name: 'c', image: 'i' }] } };
const templateDefaults = (path: string): Fields => at(path, { ...at('spec', podSpec), ...container('spec.containers.0') });
const match = { matchPolicy: 'Equivalent', namespaceSelector: {}, objectSelector: {} };
const webhook: Fields = { ...match, failurePolicy: 'Fail', timeoutSeconds: 10, 'clientConfig.service.port': 443, 'rules.0.scope': '*' };
const webhookBody = { webhooks: [{ name: 'w', clientConfig: { service: { name: 's', namespace: 'n' } }, rules: [{}] }] };
const constraints = { matchConstraints: { resourceRules: [{}], excludeResourceRules: [{}] } };
const constraintDefaults = (path: string): Fields =>
  at(path, { ...match, 'resourceRules.0.scope': '*', 'excludeResourceRules.0.scope': '*' });
const request: Fields = { allocationMode: 'ExactCount', count: 1, 'tolerations.0.operator': 'Equal' };
const tolerations = [{ key: 'k' }];
const claim = {
  devices: {
    requests: [
      { name: 'r', exactly: { deviceClassName: 'c', tolerations } },
      { name: 's', firstAvailable: [{ name: 'x', deviceClassName: 'c', tolerations }] },
    ],
  },
};
const claimDefaults: Fields = at('devices.requests', { ...at('0.exactly', request), ...at('1.firstAvailable.0', request) });
const claimV1beta1 = { devices: { requests: [{ name: 'r', deviceClassName: 'c', tolerations }] } };
const allocation = { allocation: { devices: { results: [{ tolerations }] } } };

/** The defaults of each kind: an object, and the fields that defaulting adds to it. */
const table: readonly (readonly [kind: string, object: Fields, added: Fields])[] = [
  [
    'v1/Pod',
    { spec: { containers: [{ name: 'c', image: 'i' }] } },
    { ...at('spec', podSpec), 'spec.enableServiceLinks': true, ...container('spec.containers.0') },
  ],
  ['v1/PodTemplate', { template }, templateDefaults('template')],
  [
    'v1/ReplicationController',
    { spec: { template } },
    { 'spec.replicas': 1, 'spec.selector': { a: 'b' }, 'metadata.labels': { a: 'b' }, ...templateDefaults('spec.template') },
  ],
  [
    'v1/Service',
    { spec: { ports: [{ port: 80 }] } },
    {
      'spec.sessionAffinity': 'None',
      'spec.type': 'ClusterIP',
      'spec.internalTrafficPolicy': 'Cluster',
      'spec.ports.0.protocol': 'TCP',
      'spec.ports.0.targetPort': 80,
    },
  ],
  ['v1/Endpoints', { subsets: [{ ports: [{ port: 1 }] }] }, { 'subsets.0.ports.0.protocol': 'TCP' }],
  ['v1/Namespace', {}, { 'metadata.labels': { 'kubernetes.io/metadata.name': 'a' }, status: { phase: 'Active' } }],
  [
    'v1/Node',
    { spec: { podCIDR: '10.0.0.0/24' }, status: { capacity: { cpu: '1' } } },
    { 'spec.podCIDRs': ['10.0.0.0/24'], 'status.allocatable': { cpu: '1' } },
  ],
  ['v1/Secret', {}, { type: 'Opaque' }],
  [
    'v1/LimitRange',
    { spec: { limits: [{ type: 'Container', max: { cpu: '1' } }] } },
    { 'spec.limits.0.default': { cpu: '1' }, 'spec.limits.0.defaultRequest': { cpu: '1' } },
  ],
  ['v1/PersistentVolumeClaim', { spec: {} }, { 'spec.volumeMode': 'Filesystem', status: { phase: 'Pending' } }],
  [
    'v1/PersistentVolume',
    { spec: { hostPath: { path: '/a' }, iscsi: {}, rbd: {}, azureDisk: {}, scaleIO: {} } },
    {
      'spec.persistentVolumeReclaimPolicy': 'Retain',
      'spec.volumeMode': 'Filesystem',
      status: { phase: 'Pending' },
      'spec.hostPath.type': '',
      'spec.iscsi.iscsiInterface': 'default',
      ...at('spec.rbd', { pool: 'rbd', user: 'admin', keyring: '/etc/ceph/keyring' }),
      ...at('spec.azureDisk', { cachingMode: 'ReadWrite', fsType: 'ext4', readOnly: false, kind: 'Shared' }),
      ...at('spec.scaleIO', { storageMode: 'ThinProvisioned', fsType: 'xfs' }),
    },
  ],
  ['apiregistration.k8s.io/v1/APIService', { spec: { service: {} } }, { 'spec.service.port': 443 }],
  [
    'apps/v1/DaemonSet',
    { spec: { template } },
    {
      'spec.revisionHistoryLimit': 10,
      'spec.updateStrategy': { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: 1, maxSurge: 0 } },
      ...templateDefaults('spec.template'),
    },
  ],
  [
    'apps/v1/Deployment',
    { spec: { template } },
    {
      ...at('spec', { replicas: 1, revisionHistoryLimit: 10, progressDeadlineSeconds: 600 }),
      'spec.strategy': { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: '25%', maxSurge: '25%' } },
      ...templateDefaults('spec.template'),
    },
  ],
  ['apps/v1/ReplicaSet', { spec: { template } }, { 'spec.replicas': 1, ...templateDefaults('spec.template') }],
  [
    'apps/v1/StatefulSet',
    { spec: { template, volumeClaimTemplates: [{ spec: {} }] } },
    {
      ...at('spec', { podManagementPolicy: 'OrderedReady', replicas: 1, revisionHistoryLimit: 10 }),
      'spec.updateStrategy': { type: 'RollingUpdate', rollingUpdate: { partition: 0 } },
      'spec.persistentVolumeClaimRetentionPolicy': { whenDeleted: 'Retain', whenScaled: 'Retain' },
      ...at('spec.volumeClaimTemplates.0', {
        apiVersion: 'v1',
        kind: 'PersistentVolumeClaim',
        'spec.volumeMode': 'Filesystem',
        status: { phase: 'Pending' },
      }),
      ...templateDefaults('spec.template'),
    },
  ],
  ['autoscaling/v1/HorizontalPodAutoscaler', { spec: {} }, { 'spec.minReplicas': 1 }],
  [
    'autoscaling/v2/HorizontalPodAutoscaler',
    { spec: { behavior: {} } },
    {
      'spec.minReplicas': 1,
      'spec.metrics': [{ type: 'Resource', resource: { name: 'cpu', target: { type: 'Utilization', averageUtilization: 80 } } }],
      'spec.behavior.scaleUp': {
        stabilizationWindowSeconds: 0,
        selectPolicy: 'Max',
        policies: [
          { type: 'Pods', value: 4, periodSeconds: 15 },
          { type: 'Percent', value: 100, periodSeconds: 15 },
        ],
      },
      'spec.behavior.scaleDown': { selectPolicy: 'Max', policies: [{ type: 'Percent', value: 100, periodSeconds: 15 }] },
    },
  ],
  [
    'batch/v1/CronJob',
    { spec: { jobTemplate: { spec: { template } } } },
    {
      ...at('spec', { concurrencyPolicy: 'Allow', suspend: false, successfulJobsHistoryLimit: 3, failedJobsHistoryLimit: 1 }),
      ...templateDefaults('spec.jobTemplate.spec.template'),
    },
  ],
  [
    'batch/v1/Job',
    { spec: { template, podFailurePolicy: { rules: [{ onPodConditions: [{ type: 'A' }] }] } } },
    {
      'metadata.labels': { a: 'b' },
      ...at('spec', {
        completions: 1,
        parallelism: 1,
        backoffLimit: 6,
        completionMode: 'NonIndexed',
        suspend: false,
        podReplacementPolicy: 'Failed',
        manualSelector: false,
      }),
      'spec.podFailurePolicy.rules.0.onPodConditions.0.status': 'True',
      ...templateDefaults('spec.template'),
    },
  ],
  ['certificates.k8s.io/v1beta1/PodCertificateRequest', { spec: {} }, { 'spec.maxExpirationSeconds': 86_400 }],
  ['networking.k8s.io/v1/IngressClass', { spec: { parameters: {} } }, { 'spec.parameters.scope': 'Cluster' }],
  [
    'networking.k8s.io/v1/NetworkPolicy',
    { spec: { ingress: [{ ports: [{}] }], egress: [{ ports: [{}] }] } },
    { 'spec.policyTypes': ['Ingress', 'Egress'], 'spec.ingress.0.ports.0.protocol': 'TCP', 'spec.egress.0.ports.0.protocol': 'TCP' },
  ],
  ...['RoleBinding', 'ClusterRoleBinding'].map(
    (kind) =>
      [
        `rbac.authorization.k8s.io/v1/${kind}`,
        { roleRef: {}, subjects: [{ kind: 'User' }, { kind: 'Group' }, { kind: 'ServiceAccount' }] },
        {
          'roleRef.apiGroup': 'rbac.authorization.k8s.io',
          'subjects.0.apiGroup': 'rbac.authorization.k8s.io',
          'subjects.1.apiGroup': 'rbac.authorization.k8s.io',
        },
      ] as const,
  ),
  [
    'storage.k8s.io/v1/CSIDriver',
    { spec: {} },
    at('spec', {
      attachRequired: true,
      podInfoOnMount: false,
      storageCapacity: false,
      fsGroupPolicy: 'ReadWriteOnceWithFSType',
      volumeLifecycleModes: ['Persistent'],
      requiresRepublish: false,
      seLinuxMount: false,
    }),
  ],
  ['storage.k8s.io/v1/StorageClass', {}, { reclaimPolicy: 'Delete', volumeBindingMode: 'Immediate' }],
  ['admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration', webhookBody, at('webhooks.0', webhook)],
  [
    'admissionregistration.k8s.io/v1/MutatingWebhookConfiguration',
    webhookBody,
    at('webhooks.0', { ...webhook, reinvocationPolicy: 'Never' }),
  ],
  [
    'admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy',
    { spec: constraints },
    { 'spec.failurePolicy': 'Fail', ...constraintDefaults('spec.matchConstraints') },
  ],
  [
    'admissionregistration.k8s.io/v1/ValidatingAdmissionPolicyBinding',
    { spec: { matchResources: constraints.matchConstraints } },
    constraintDefaults('spec.matchResources'),
  ],
  ...['v1', 'v1beta1', 'v1alpha1'].flatMap((version) => [
    [
      `admissionregistration.k8s.io/${version}/MutatingAdmissionPolicy`,
      { spec: constraints },
      { 'spec.failurePolicy': 'Fail', 'spec.reinvocationPolicy': 'Never', ...constraintDefaults('spec.matchConstraints') },
    ] as const,
    [
      `admissionregistration.k8s.io/${version}/MutatingAdmissionPolicyBinding`,
      { spec: { matchResources: constraints.matchConstraints } },
      constraintDefaults('spec.matchResources'),
    ] as const,
  ]),
  [
    'apiextensions.k8s.io/v1/CustomResourceDefinition',
    { spec: { names: { kind: 'Thing' } } },
    { 'spec.names.singular': 'thing', 'spec.names.listKind': 'ThingList', 'spec.conversion': { strategy: 'None' } },
  ],
  ['scheduling.k8s.io/v1/PriorityClass', {}, { preemptionPolicy: 'PreemptLowerPriority' }],
  ['discovery.k8s.io/v1/EndpointSlice', { ports: [{ port: 1 }] }, { 'ports.0.name': '', 'ports.0.protocol': 'TCP' }],
  ['flowcontrol.apiserver.k8s.io/v1/FlowSchema', { spec: {} }, { 'spec.matchingPrecedence': 1000 }],
  [
    'flowcontrol.apiserver.k8s.io/v1/PriorityLevelConfiguration',
    { spec: { exempt: {}, limited: { limitResponse: { queuing: {} } } } },
    {
      ...at('spec.exempt', { nominalConcurrencyShares: 0, lendablePercent: 0 }),
      ...at('spec.limited', {
        nominalConcurrencyShares: 30,
        lendablePercent: 0,
        'limitResponse.queuing.queues': 64,
        'limitResponse.queuing.handSize': 8,
        'limitResponse.queuing.queueLengthLimit': 50,
      }),
    },
  ],
  ...['v1', 'v1beta2'].flatMap((version) => [
    [
      `resource.k8s.io/${version}/ResourceClaim`,
      { spec: claim, status: allocation },
      { ...at('spec', claimDefaults), 'status.allocation.devices.results.0.tolerations.0.operator': 'Equal' },
    ] as const,
    [`resource.k8s.io/${version}/ResourceClaimTemplate`, { spec: { spec: claim } }, at('spec.spec', claimDefaults)] as const,
    [
      `resource.k8s.io/${version}/ResourceSlice`,
      { spec: { devices: [{ taints: [{ key: 'k' }] }] } },
      { 'spec.devices.0.taints.0.timeAdded': time },
    ] as const,
  ]),
  ['resource.k8s.io/v1beta1/ResourceClaim', { spec: claimV1beta1 }, at('spec.devices.requests.0', request)],
  ['resource.k8s.io/v1beta1/ResourceClaimTemplate', { spec: { spec: claimV1beta1 } }, at('spec.spec.devices.requests.0', request)],
  [
    'resource.k8s.io/v1beta1/ResourceSlice',
    { spec: { devices: [{ basic: { taints: [{ key: 'k' }] } }] } },
    { 'spec.devices.0.basic.taints.0.timeAdded': time },
  ],
  ...['v1beta2', 'v1alpha3'].map(
    (version) =>
      [`resource.k8s.io/${version}/DeviceTaintRule`, { spec: { taint: { key: 'k' } } }, { 'spec.taint.timeAdded': time }] as const,
  ),
];

/** Kinds for which upstream has no default. */
const withoutDefaults = new Set(
  `v1/Binding v1/ConfigMap v1/Event v1/ResourceQuota v1/ServiceAccount apps/v1/ControllerRevision events.k8s.io/v1/Event
  authentication.k8s.io/v1/SelfSubjectReview authentication.k8s.io/v1/TokenReview authorization.k8s.io/v1/LocalSubjectAccessReview
  authorization.k8s.io/v1/SelfSubjectAccessReview authorization.k8s.io/v1/SelfSubjectRulesReview authorization.k8s.io/v1/SubjectAccessReview
  certificates.k8s.io/v1/CertificateSigningRequest certificates.k8s.io/v1beta1/ClusterTrustBundle certificates.k8s.io/v1alpha1/ClusterTrustBundle
  networking.k8s.io/v1/Ingress networking.k8s.io/v1/IPAddress networking.k8s.io/v1/ServiceCIDR networking.k8s.io/v1beta1/IPAddress
  networking.k8s.io/v1beta1/ServiceCIDR policy/v1/PodDisruptionBudget rbac.authorization.k8s.io/v1/ClusterRole rbac.authorization.k8s.io/v1/Role
  storage.k8s.io/v1/CSINode storage.k8s.io/v1/CSIStorageCapacity storage.k8s.io/v1/VolumeAttachment storage.k8s.io/v1/VolumeAttributesClass
  storage.k8s.io/v1beta1/VolumeAttributesClass scheduling.k8s.io/v1alpha2/PodGroup scheduling.k8s.io/v1alpha2/Workload coordination.k8s.io/v1/Lease
  coordination.k8s.io/v1beta1/LeaseCandidate coordination.k8s.io/v1alpha2/LeaseCandidate node.k8s.io/v1/RuntimeClass
  internal.apiserver.k8s.io/v1alpha1/StorageVersion resource.k8s.io/v1/DeviceClass resource.k8s.io/v1beta2/DeviceClass
  resource.k8s.io/v1beta1/DeviceClass resource.k8s.io/v1alpha3/ResourcePoolStatusRequest storagemigration.k8s.io/v1beta1/StorageVersionMigration`.split(
    /\s+/,
  ),
);

function defaulted(kind: string, fields: Fields): KubeObject {
  const parts = kind.split('/');
  const object = { apiVersion: parts.slice(0, -1).join('/'), kind: parts.at(-1), metadata: { name: 'a' }, ...fields } as KubeObject;
  const result = applyDefaults(gvkOf(object), deepFreeze(structuredClone(object)), now);
  expect(applyDefaults(gvkOf(object), deepFreeze(structuredClone(result)), now + 60_000), 'idempotent').toEqual(result);
  return result;
}

/** Returns the fields of `after` that `before` does not have, by path. */
function addedFields(before: unknown, after: unknown, path: readonly string[] = []): Fields {
  if (before === undefined) return { [path.join('.')]: after };
  if (typeof before !== 'object' || before === null) {
    expect(after, path.join('.')).toBe(before);
    return {};
  }
  const [was, is] = [before as Fields, after as Fields];
  expect(Object.keys(is), path.join('.')).toEqual(expect.arrayContaining(Object.keys(was)));
  return Object.assign({}, ...Object.keys(is).map((key) => addedFields(was[key], is[key], [...path, key]))) as Fields;
}

describe('defaults of built-in kinds', () => {
  it.each(table)('%s', (kind, object, added) => {
    const { apiVersion: _, kind: __, ...result } = defaulted(kind, object);
    expect(addedFields({ metadata: { name: 'a' }, ...object }, result)).toEqual(added);
  });

  it.each([...withoutDefaults])('%s has none', (kind) => {
    const { metadata, ...rest } = defaulted(kind, { spec: {} });
    expect([metadata, rest['spec' as never]]).toEqual([{ name: 'a' }, {}]);
  });

  it('are in the table for all kinds', () => {
    const known = new Set([...table.map(([kind]) => kind), ...withoutDefaults]);
    const all = kinds
      .filter(({ verbs }) => verbs.includes('create'))
      .map(({ group, version, kind }) => [group, version, kind].filter(Boolean).join('/'));
    console.log(`defaults: ${table.reduce((sum, [, , added]) => sum + Object.keys(added).length, 0)} of ${known.size} kinds`);
    expect(all.filter((kind) => !known.has(kind))).toEqual([]);
  });

  it('of containers and volumes', () => {
    const handlers = { postStart: { httpGet: { port: 1 } }, preStop: { httpGet: { port: 1 } } };
    const env = [
      { name: 'a', valueFrom: { fieldRef: { fieldPath: 'x' } } },
      { name: 'b', valueFrom: { fileKeyRef: { volumeName: 'v', path: 'p', key: 'k' } } },
    ];
    const each = {
      image: 'i:1',
      ports: [{ containerPort: 1 }],
      env,
      livenessProbe: { httpGet: { port: 1 } },
      readinessProbe: { grpc: { port: 1 } },
      startupProbe: {},
      lifecycle: handlers,
    };
    const items = [{ path: 'p', fieldRef: { fieldPath: 'x' } }];
    const sources = [{ downwardAPI: { items } }, { serviceAccountToken: {} }, { podCertificate: {} }, { clusterTrustBundle: {} }];
    const volumes = [
      { name: 'a' },
      { name: 'b', secret: {} },
      { name: 'c', configMap: {} },
      { name: 'd', downwardAPI: { items } },
      { name: 'e', projected: { sources } },
      { name: 'f', image: { reference: 'i:1' } },
      { name: 'g', ephemeral: { volumeClaimTemplate: { spec: {} } } },
      { name: 'h', hostPath: {} },
    ];
    const spec = {
      volumes,
      containers: [{ name: 'c', ...each }],
      initContainers: [{ name: 'i', ...each }],
      ephemeralContainers: [{ name: 'e', ...each }],
    };
    const object = { metadata: { name: 'a' }, spec };
    const { apiVersion: _, kind: __, ...result } = defaulted('v1/Pod', { spec });
    const ofContainer: Fields = {
      imagePullPolicy: 'IfNotPresent',
      resources: {},
      terminationMessagePath: '/dev/termination-log',
      terminationMessagePolicy: 'File',
      'ports.0.protocol': 'TCP',
      'env.0.valueFrom.fieldRef.apiVersion': 'v1',
      'env.1.valueFrom.fileKeyRef.optional': false,
      ...probe('livenessProbe'),
      ...probe('readinessProbe'),
      ...probe('startupProbe'),
      'readinessProbe.grpc.service': '',
      ...Object.fromEntries(
        ['livenessProbe', 'lifecycle.postStart', 'lifecycle.preStop'].flatMap((path) => [
          [`${path}.httpGet.path`, '/'],
          [`${path}.httpGet.scheme`, 'HTTP'],
        ]),
      ),
    };
    expect(addedFields(object, result)).toEqual({
      ...at('spec', podSpec),
      'spec.enableServiceLinks': true,
      ...at('spec.containers.0', ofContainer),
      ...at('spec.initContainers.0', ofContainer),
      ...at('spec.ephemeralContainers.0', ofContainer),
      ...at('spec.volumes', {
        '0.emptyDir': {},
        '1.secret.defaultMode': 420,
        '2.configMap.defaultMode': 420,
        '3.downwardAPI.defaultMode': 420,
        '3.downwardAPI.items.0.fieldRef.apiVersion': 'v1',
        '4.projected.defaultMode': 420,
        '4.projected.sources.0.downwardAPI.items.0.fieldRef.apiVersion': 'v1',
        '4.projected.sources.1.serviceAccountToken.expirationSeconds': 3600,
        '5.image.pullPolicy': 'IfNotPresent',
        '6.ephemeral.volumeClaimTemplate.spec.volumeMode': 'Filesystem',
        '7.hostPath.type': '',
      }),
    });
  });
});
