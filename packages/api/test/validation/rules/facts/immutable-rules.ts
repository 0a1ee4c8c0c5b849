import type { ValidationRule } from '../rule-samples.ts';

const csiNode = (driver: object) => ({ spec: { drivers: [{ name: 'd.example.com', nodeID: 'n', topologyKeys: ['a'], ...driver }] } });
const service = (spec: object) => ({
  spec: { clusterIP: '10.0.0.1', clusterIPs: ['10.0.0.1'], ipFamilies: ['IPv4'], ipFamilyPolicy: 'SingleStack', ...spec },
});
const balancer = (spec: object) => service({ type: 'LoadBalancer', loadBalancerClass: 'a.b/c', ...spec });
const local = (spec: object) => balancer({ externalTrafficPolicy: 'Local', ...spec });
const frozen = 'field is immutable';
const locked = 'field is immutable when `immutable` is set';

/** Rules about fields that cannot change, of the kinds that other tables do not have. `fields` change `old`. */
export const immutableRules: readonly ValidationRule[] = [
  {
    rule: 'core.ValidateConfigMapUpdate',
    kind: 'ConfigMap',
    fields: { data: { a: 'c' }, binaryData: { b: 'eA==' } },
    old: { immutable: true },
    errors: [`immutable: Forbidden: ${locked}`, `data: Forbidden: ${locked}`, `binaryData: Forbidden: ${locked}`],
  },
  {
    rule: 'core.ValidateSecretUpdate: the type',
    kind: 'Secret',
    fields: { type: 'example.com/other' },
    old: {},
    errors: [`type: Invalid value: "example.com/other": ${frozen}`],
  },
  {
    rule: 'core.ValidateSecretUpdate: an immutable secret',
    kind: 'Secret',
    fields: { immutable: false, data: { a: 'eQ==' } },
    old: { immutable: true },
    errors: [`immutable: Forbidden: ${locked}`, `data: Forbidden: ${locked}`],
  },
  {
    rule: 'core.ValidateServiceClusterIPsRelatedFields: the address',
    kind: 'Service',
    fields: service({ clusterIP: '10.0.0.2', clusterIPs: ['10.0.0.2'] }),
    old: service({}),
    errors: ['spec.clusterIPs[0]: Invalid value: ["10.0.0.2"]: may not change once set'],
  },
  {
    rule: 'core.validateUpgradeDowngradeIPFamilies: the primary family',
    kind: 'Service',
    fields: service({ ipFamilies: ['IPv6'] }),
    old: service({}),
    errors: [
      'spec.ipFamilies[0]: Invalid value: ["IPv6"]: may not change once set',
      'spec.clusterIPs[0]: Invalid value: "10.0.0.1": expected an IPv6 value as indicated by `ipFamilies[0]`',
    ],
  },
  {
    rule: 'core.validateServiceLoadBalancerClassField',
    kind: 'Service',
    fields: balancer({ loadBalancerClass: 'a.b/d' }),
    old: balancer({}),
    errors: ['spec.loadBalancerClass: Invalid value: "a.b/d": may not change once set'],
  },
  {
    rule: 'core.ValidateServiceUpdate: the health check port',
    kind: 'Service',
    fields: local({ healthCheckNodePort: 30001 }),
    old: local({ healthCheckNodePort: 30000 }),
    errors: [`spec.healthCheckNodePort: Forbidden: ${frozen}`],
  },
  {
    rule: 'core.ValidateServiceUpdate: the type may change',
    kind: 'Service',
    fields: service({
      type: 'ExternalName',
      externalName: 'a.b',
      clusterIP: undefined,
      clusterIPs: undefined,
      ipFamilies: undefined,
      ipFamilyPolicy: undefined,
    }),
    old: service({}),
    errors: [],
  },
  {
    rule: 'core.ValidateNodeUpdate',
    kind: 'Node',
    fields: { spec: { podCIDRs: ['10.1.0.0/24'], podCIDR: '10.1.0.0/24', providerID: 'b' } },
    old: { spec: { podCIDRs: ['10.0.0.0/24'], podCIDR: '10.0.0.0/24', providerID: 'a' } },
    errors: [
      'spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid',
      'spec.providerID: Forbidden: node updates may not change providerID except from "" to valid',
    ],
  },
  {
    rule: 'core.ValidateResourceQuotaUpdate',
    kind: 'ResourceQuota',
    fields: { spec: { scopes: ['NotTerminating'] } },
    old: { spec: { scopes: ['Terminating'] } },
    errors: [`spec.scopes: Invalid value: ["NotTerminating"]: ${frozen}`],
  },
  {
    rule: 'apps.ValidateControllerRevisionUpdate',
    kind: 'ControllerRevision',
    fields: { data: { a: 2 } },
    old: {},
    errors: [`data: Invalid value: {"a":2}: ${frozen}`],
  },
  {
    rule: 'apps.ValidateDeploymentUpdate',
    kind: 'Deployment',
    fields: { spec: { selector: { matchLabels: { b: 'c' } }, template: { metadata: { labels: { b: 'c' } } } } },
    old: {},
    errors: [`spec.selector: Invalid value: {"matchLabels":{"app":"x","b":"c"}}: ${frozen}`],
  },
  {
    rule: 'storage.ValidateStorageClassUpdate',
    kind: 'StorageClass',
    fields: {
      provisioner: 'example.com/q',
      parameters: { a: 'c' },
      reclaimPolicy: 'Retain',
      volumeBindingMode: 'WaitForFirstConsumer',
      allowVolumeExpansion: true,
    },
    old: {},
    errors: [
      'parameters: Forbidden: updates to parameters are forbidden.',
      'provisioner: Forbidden: updates to provisioner are forbidden.',
      'reclaimPolicy: Forbidden: updates to reclaimPolicy are forbidden.',
      `volumeBindingMode: Invalid value: "WaitForFirstConsumer": ${frozen}`,
    ],
  },
  {
    rule: 'storage.ValidateVolumeAttributesClassUpdate',
    kind: 'VolumeAttributesClass',
    fields: { driverName: 'example.org', parameters: { a: 'c' } },
    old: {},
    errors: ['driverName: Forbidden: updates to driverName are forbidden.', 'parameters: Forbidden: updates to parameters are forbidden.'],
  },
  {
    rule: 'storage.ValidateCSIDriverUpdate',
    kind: 'CSIDriver',
    fields: { spec: { attachRequired: false, volumeLifecycleModes: ['Ephemeral'], podInfoOnMount: true } },
    old: {},
    errors: [
      `spec.attachedRequired: Invalid value: false: ${frozen}`,
      `spec.volumeLifecycleModes: Invalid value: ["Ephemeral"]: ${frozen}`,
    ],
  },
  {
    rule: 'storage.validateVolumeLifecycleModes',
    kind: 'CSIDriver',
    fields: { spec: { volumeLifecycleModes: ['Other'] } },
    errors: ['spec.volumeLifecycleModes: Unsupported value: "Other": supported values: "Persistent", "Ephemeral"'],
  },
  {
    rule: 'storage.ValidateCSINodeUpdate: a driver',
    kind: 'CSINode',
    fields: csiNode({ nodeID: 'm', allocatable: { count: 1 } }),
    old: {},
    errors: [`spec.drivers: Invalid value: {"Name":"d.example.com","NodeID":"m","TopologyKeys":["a"],"Allocatable":null}: ${frozen}`],
  },
  {
    rule: 'storage.ValidateCSINodeUpdate: the number of volumes may change',
    kind: 'CSINode',
    fields: csiNode({ allocatable: { count: 2 } }),
    old: csiNode({ allocatable: { count: 1 } }),
    errors: [],
  },
  {
    rule: 'storage.validateCSINodeDriver: topology keys',
    kind: 'CSINode',
    fields: csiNode({ topologyKeys: ['a', 'a'], allocatable: { count: -1 } }),
    errors: [
      'spec.drivers[0].allocatable.count: Invalid value: -1: must be greater than or equal to 0',
      'spec.drivers[0]: Duplicate value: "a"',
    ],
  },
  {
    rule: 'storage.ValidateVolumeAttachmentUpdate',
    kind: 'VolumeAttachment',
    fields: { spec: { nodeName: 'm' } },
    old: {},
    errors: [
      `spec: Invalid value: {"Attacher":"d","Source":{"PersistentVolumeName":"v","InlineVolumeSpec":null},"NodeName":"m"}: ${frozen}`,
    ],
  },
  {
    rule: 'storage.ValidateCSIStorageCapacityUpdate',
    kind: 'CSIStorageCapacity',
    fields: { storageClassName: 't', nodeTopology: { matchLabels: { a: 'b' } }, capacity: '1Gi' },
    old: {},
    errors: [`nodeTopology: Invalid value: {"matchLabels":{"a":"b"}}: ${frozen}`, `storageClassName: Invalid value: "t": ${frozen}`],
  },
  {
    rule: 'scheduling.ValidatePriorityClassUpdate',
    kind: 'PriorityClass',
    fields: { value: 2, preemptionPolicy: 'Never', description: 'd' },
    old: {},
    errors: ['value: Forbidden: may not be changed in an update.', `preemptionPolicy: Invalid value: "Never": ${frozen}`],
  },
  {
    rule: 'node.ValidateRuntimeClassUpdate',
    kind: 'RuntimeClass',
    fields: { handler: 'i' },
    old: {},
    errors: [`handler: Invalid value: "i": ${frozen}`],
  },
  {
    rule: 'networking.ValidateIngressClassUpdate',
    kind: 'IngressClass',
    fields: { spec: { controller: 'example.com/d' } },
    old: {},
    errors: [`spec.controller: Invalid value: "example.com/d": ${frozen}`],
  },
  {
    rule: 'networking.ValidateServiceCIDRUpdate',
    kind: 'ServiceCIDR',
    fields: { spec: { cidrs: ['10.1.0.0/24'] } },
    old: {},
    errors: [`spec.cidrs[0]: Invalid value: "10.1.0.0/24": ${frozen}`],
  },
  {
    rule: 'networking.ValidateIPAddressUpdate',
    kind: 'IPAddress',
    fields: { spec: { parentRef: { name: 't' } } },
    old: {},
    errors: [`spec.parentRef: Invalid value: {"Group":"","Resource":"services","Namespace":"d","Name":"t"}: ${frozen}`],
  },
  {
    rule: 'discovery.ValidateEndpointSliceUpdate',
    kind: 'EndpointSlice',
    fields: { addressType: 'IPv6' },
    old: {},
    errors: [`addressType: Invalid value: "IPv6": ${frozen}`],
  },
  {
    rule: 'rbac.ValidateRoleBindingUpdate',
    kind: 'RoleBinding',
    fields: { roleRef: { name: 's' } },
    old: {},
    errors: ['roleRef: Invalid value: {"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"s"}: cannot change roleRef'],
  },
  {
    rule: 'rbac.ValidateClusterRoleBindingUpdate',
    kind: 'ClusterRoleBinding',
    fields: { roleRef: { name: 's' } },
    old: {},
    errors: ['roleRef: Invalid value: {"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"s"}: cannot change roleRef'],
  },
  {
    rule: 'coordination.ValidateLeaseUpdate: every field may change',
    kind: 'Lease',
    fields: { spec: { holderIdentity: 'b', leaseDurationSeconds: 2 } },
    old: { spec: { holderIdentity: 'a', leaseDurationSeconds: 1 } },
    errors: [],
  },
  {
    rule: 'coordination.ValidateLeaseCandidateUpdate',
    kind: 'LeaseCandidate',
    fields: { spec: { leaseName: 'm' } },
    old: {},
    errors: [`spec.leaseName: Invalid value: "m": ${frozen}`],
  },
  {
    rule: 'resource.ValidateResourceClaimUpdate',
    kind: 'ResourceClaim',
    fields: { spec: { devices: { requests: [{ name: 's', exactly: { deviceClassName: 'class' } }] } } },
    old: {},
    errors: [
      `spec: Invalid value: {"devices":{"requests":[{"name":"s","exactly":{"deviceClassName":"class","allocationMode":"ExactCount","count":1}}]}}: ${frozen}`,
    ],
  },
  {
    rule: 'resource.ValidateResourceClaimTemplateUpdate',
    kind: 'ResourceClaimTemplate',
    fields: { spec: { spec: { devices: { requests: [{ name: 's', exactly: { deviceClassName: 'class' } }] } } } },
    old: {},
    errors: [
      `spec: Invalid value: {"spec":{"devices":{"requests":[{"name":"s","exactly":{"deviceClassName":"class","allocationMode":"ExactCount","count":1}}]}}}: ${frozen}`,
    ],
  },
  {
    rule: 'resource.ValidateResourceSliceUpdate',
    kind: 'ResourceSlice',
    fields: { spec: { driver: 'e.example.com', nodeName: 'm', pool: { name: 'm' } } },
    old: {},
    errors: [
      `spec.pool.name: Invalid value: "m": ${frozen}`,
      `spec.driver: Invalid value: "e.example.com": ${frozen}`,
      `spec.nodeName: Invalid value: "m": ${frozen}`,
    ],
  },
];
