import { authorityPem, certificateRequest, stubRequest } from '@oarlock/testing/sample-certificates';

/** The test data of one kind, by `groupResource`: a minimal valid object, and its operations. */
export interface Sample {
  readonly name?: string;
  readonly object: Readonly<Record<string, unknown>>;
  /** A status that the server drops on create and accepts on the status subresource. */
  readonly status?: Readonly<Record<string, unknown>>;
  /** A merge patch that increments the generation. */
  readonly change?: Readonly<Record<string, unknown>>;
  /** `false`: the kind has no generation. `created`: its generation never changes. */
  readonly generation?: false | 'created';
  /** Merge patches that are rejected, with the field and the end of the message. */
  readonly immutable?: readonly (readonly [patch: Readonly<Record<string, unknown>>, field: string, message: string])[];
  /** The server keeps the status that a client sends on create. */
  readonly keepsStatus?: true;
  /** A deletion does not remove the object at once. */
  readonly stays?: true;
}

const labels = { app: 'x' };
const selector = { matchLabels: labels };
const podSpec = { containers: [{ name: 'c', image: 'i' }] };
const template = { metadata: { labels }, spec: podSpec };
const fixed = 'field is immutable';
const webhook = {
  name: 'hook.example.com',
  clientConfig: { url: 'https://example.com/hook' },
  sideEffects: 'None',
  admissionReviewVersions: ['v1'],
  rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['pods'] }],
};
const rules = [{ apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['pods'] }];
const role = { rules: [{ apiGroups: [''], resources: ['pods'], verbs: ['get'] }] };
const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'r' };
const subjects = [{ kind: 'User', name: 'u', apiGroup: 'rbac.authorization.k8s.io' }];
const classRequest = { devices: { requests: [{ name: 'r', exactly: { deviceClassName: 'c' } }] } };

export const samples: Readonly<Record<string, Sample>> = {
  configmaps: { object: { data: { a: 'b' } }, generation: false },
  endpoints: { object: { subsets: [{ addresses: [{ ip: '10.0.0.1' }], ports: [{ port: 80 }] }] }, generation: false },
  events: {
    object: { involvedObject: { namespace: 'default', name: 'x', kind: 'Pod' }, reason: 'R', message: 'm', type: 'Normal' },
    generation: false,
  },
  limitranges: { object: { spec: { limits: [{ type: 'Container', default: { cpu: '1' } }] } }, generation: false },
  namespaces: {
    object: {},
    status: {
      conditions: [{ type: 'X', status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z', reason: 'R', message: 'm' }],
      phase: 'Active',
    },
    generation: false,
    stays: true,
  },
  nodes: { object: { spec: { podCIDR: '10.1.0.0/24' } }, status: { nodeInfo: {} }, generation: false, keepsStatus: true },
  persistentvolumeclaims: {
    object: { spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } } },
    status: { phase: 'Bound' },
    generation: false,
    immutable: [[{ spec: { accessModes: ['ReadWriteMany'] } }, 'spec', 'spec is immutable after creation']],
  },
  persistentvolumes: {
    object: { spec: { capacity: { storage: '1Gi' }, accessModes: ['ReadWriteOnce'], hostPath: { path: '/x' } } },
    status: { phase: 'Available' },
    generation: false,
    immutable: [[{ spec: { hostPath: { path: '/y' } } }, 'spec.persistentvolumesource', 'immutable after creation']],
  },
  pods: {
    object: { spec: podSpec },
    status: { phase: 'Running' },
    change: { spec: { activeDeadlineSeconds: 5 } },
    immutable: [[{ spec: { nodeName: 'n' } }, 'spec', 'pod updates may not change fields other than']],
  },
  podtemplates: { object: { template }, change: { template: { metadata: { labels: { y: 'z' } } } } },
  replicationcontrollers: {
    object: { spec: { selector: labels, template } },
    status: { replicas: 1 },
    change: { spec: { replicas: 2 } },
  },
  resourcequotas: {
    object: { spec: { hard: { pods: '1' } } },
    status: { hard: { pods: '1' } },
    generation: false,
    immutable: [[{ spec: { scopes: ['BestEffort'] } }, 'spec.scopes', fixed]],
  },
  secrets: { object: { data: { a: 'Yg==' } }, generation: false, immutable: [[{ type: 'other' }, 'type', fixed]] },
  serviceaccounts: { object: {}, generation: false },
  services: {
    object: { spec: { ports: [{ port: 80 }] } },
    status: { loadBalancer: {} },
    generation: false,
    immutable: [[{ spec: { clusterIP: '10.96.0.77', clusterIPs: ['10.96.0.77'] } }, 'spec.clusterIPs[0]', 'may not change once set']],
  },
  'mutatingadmissionpolicies.admissionregistration.k8s.io': {
    object: {
      spec: {
        matchConstraints: { resourceRules: rules },
        reinvocationPolicy: 'Never',
        mutations: [{ patchType: 'JSONPatch', jsonPatch: { expression: '[]' } }],
      },
    },
    change: { spec: { failurePolicy: 'Ignore' } },
  },
  'mutatingadmissionpolicybindings.admissionregistration.k8s.io': {
    object: { spec: { policyName: 'p' } },
    change: { spec: { policyName: 'q' } },
  },
  'mutatingwebhookconfigurations.admissionregistration.k8s.io': {
    object: { webhooks: [webhook] },
    change: { webhooks: [{ ...webhook, timeoutSeconds: 3 }] },
  },
  'validatingadmissionpolicies.admissionregistration.k8s.io': {
    object: { spec: { matchConstraints: { resourceRules: rules }, validations: [{ expression: 'true' }] } },
    status: { observedGeneration: 1 },
    change: { spec: { failurePolicy: 'Ignore' } },
  },
  'validatingadmissionpolicybindings.admissionregistration.k8s.io': {
    object: { spec: { policyName: 'p', validationActions: ['Deny'] } },
    change: { spec: { policyName: 'q' } },
  },
  'validatingwebhookconfigurations.admissionregistration.k8s.io': {
    object: { webhooks: [webhook] },
    change: { webhooks: [{ ...webhook, timeoutSeconds: 3 }] },
  },
  'apiservices.apiregistration.k8s.io': {
    name: 'v1.example.com',
    object: { spec: { group: 'example.com', version: 'v1', groupPriorityMinimum: 1, versionPriority: 1 } },
    status: { conditions: [{ type: 'Available', status: 'True' }] },
    generation: false,
  },
  'controllerrevisions.apps': {
    object: { revision: 1, data: { a: 1 } },
    generation: false,
    immutable: [[{ data: { a: 2 } }, 'data', fixed]],
  },
  'daemonsets.apps': {
    object: { spec: { selector, template } },
    status: { currentNumberScheduled: 1, numberMisscheduled: 0, desiredNumberScheduled: 1, numberReady: 1 },
    change: { spec: { minReadySeconds: 2 } },
    immutable: [
      [{ spec: { selector: { matchLabels: { b: 'c' } }, template: { metadata: { labels: { b: 'c' } } } } }, 'spec.selector', fixed],
    ],
  },
  'deployments.apps': {
    object: { spec: { selector, template } },
    status: { replicas: 1 },
    change: { spec: { replicas: 2 } },
    immutable: [
      [{ spec: { selector: { matchLabels: { b: 'c' } }, template: { metadata: { labels: { b: 'c' } } } } }, 'spec.selector', fixed],
    ],
  },
  'replicasets.apps': {
    object: { spec: { selector, template } },
    status: { replicas: 1 },
    change: { spec: { replicas: 2 } },
    immutable: [
      [{ spec: { selector: { matchLabels: { b: 'c' } }, template: { metadata: { labels: { b: 'c' } } } } }, 'spec.selector', fixed],
    ],
  },
  'statefulsets.apps': {
    object: { spec: { selector, template, serviceName: 's' } },
    status: { replicas: 1 },
    change: { spec: { replicas: 2 } },
    immutable: [[{ spec: { serviceName: 't' } }, 'spec', 'updates to statefulset spec for fields other than']],
  },
  'horizontalpodautoscalers.autoscaling': {
    object: { spec: { scaleTargetRef: { kind: 'Deployment', name: 'd', apiVersion: 'apps/v1' }, maxReplicas: 3 } },
    status: { currentReplicas: 1, desiredReplicas: 2 },
    generation: false,
  },
  'cronjobs.batch': {
    object: { spec: { schedule: '* * * * *', jobTemplate: { spec: { template: { spec: { ...podSpec, restartPolicy: 'Never' } } } } } },
    status: { lastScheduleTime: '2026-01-01T00:00:00Z' },
    change: { spec: { suspend: true } },
  },
  'jobs.batch': {
    object: { spec: { template: { spec: { ...podSpec, restartPolicy: 'Never' } } } },
    status: { active: 1 },
    change: { spec: { parallelism: 2 } },
    immutable: [
      [{ spec: { completions: 7 } }, 'spec.completions', fixed],
      [{ spec: { completionMode: 'Indexed', completions: 1 } }, 'spec.completionMode', fixed],
    ],
  },
  'certificatesigningrequests.certificates.k8s.io': {
    object: { spec: { request: certificateRequest, signerName: 'example.com/s', usages: ['client auth'] } },
    status: { certificate: undefined, conditions: [{ type: 'Failed', status: 'True', reason: 'R' }] },
    generation: false,
  },
  'clustertrustbundles.certificates.k8s.io': { object: { spec: { trustBundle: authorityPem } }, generation: false },
  'podcertificaterequests.certificates.k8s.io': {
    object: {
      spec: {
        signerName: 'example.com/s',
        podName: 'p',
        podUID: 'u',
        serviceAccountName: 's',
        serviceAccountUID: 'u',
        nodeName: 'n',
        nodeUID: 'u',
        stubPKCS10Request: stubRequest,
      },
    },
    immutable: [[{ spec: { podName: 'q' } }, 'spec', fixed]],
    status: { conditions: [{ type: 'Denied', status: 'True', reason: 'R', message: '', lastTransitionTime: '2026-01-01T00:00:00Z' }] },
    generation: false,
  },
  'leases.coordination.k8s.io': { object: { spec: { holderIdentity: 'h' } }, generation: false },
  'leasecandidates.coordination.k8s.io': {
    object: { spec: { leaseName: 'l', binaryVersion: '1.36.0', emulationVersion: '1.36.0', strategy: 'OldestEmulationVersion' } },
    generation: false,
    immutable: [[{ spec: { leaseName: 'm' } }, 'spec.leaseName', fixed]],
  },
  'endpointslices.discovery.k8s.io': {
    object: { addressType: 'IPv4', endpoints: [{ addresses: ['10.0.0.1'] }] },
    change: { endpoints: [] },
    immutable: [[{ addressType: 'FQDN', endpoints: [] }, 'addressType', fixed]],
  },
  'flowschemas.flowcontrol.apiserver.k8s.io': {
    object: { spec: { priorityLevelConfiguration: { name: 'p' }, matchingPrecedence: 5 } },
    status: { conditions: [{ type: 'Dangling', status: 'True' }] },
    change: { spec: { matchingPrecedence: 7 } },
  },
  'prioritylevelconfigurations.flowcontrol.apiserver.k8s.io': {
    object: { spec: { type: 'Limited', limited: { nominalConcurrencyShares: 1, limitResponse: { type: 'Reject' } } } },
    status: { conditions: [{ type: 'X', status: 'True' }] },
    change: { spec: { limited: { nominalConcurrencyShares: 2 } } },
  },
  'storageversions.internal.apiserver.k8s.io': {
    name: 'apps.deployments',
    object: { spec: {} },
    status: { commonEncodingVersion: 'v1' },
    generation: false,
  },
  'ingressclasses.networking.k8s.io': {
    object: { spec: { controller: 'example.com/c' } },
    change: { spec: { parameters: { kind: 'K', name: 'n', apiGroup: 'example.com', scope: 'Cluster' } } },
    immutable: [[{ spec: { controller: 'example.com/d' } }, 'spec.controller', fixed]],
  },
  'ingresses.networking.k8s.io': {
    object: { spec: { defaultBackend: { service: { name: 's', port: { number: 80 } } } } },
    status: { loadBalancer: { ingress: [{ ip: '1.2.3.4' }] } },
    change: { spec: { defaultBackend: { service: { name: 't' } } } },
  },
  'ipaddresses.networking.k8s.io': {
    name: '192.168.7.1',
    object: { spec: { parentRef: { resource: 'services', namespace: 'a', name: 'b' } } },
    generation: false,
    immutable: [[{ spec: { parentRef: { name: 'c' } } }, 'spec.parentRef', fixed]],
  },
  'networkpolicies.networking.k8s.io': {
    object: { spec: { podSelector: {} } },
    change: { spec: { podSelector: { matchLabels: labels } } },
  },
  'servicecidrs.networking.k8s.io': {
    object: { spec: { cidrs: ['10.100.0.0/24'] } },
    status: { conditions: [{ type: 'Ready', status: 'True', reason: 'R', message: '', lastTransitionTime: '2026-01-01T00:00:00Z' }] },
    generation: false,
    immutable: [[{ spec: { cidrs: ['10.101.0.0/24'] } }, 'spec.cidrs[0]', fixed]],
  },
  'runtimeclasses.node.k8s.io': { object: { handler: 'h' }, generation: false, immutable: [[{ handler: 'g' }, 'handler', fixed]] },
  'poddisruptionbudgets.policy': {
    object: { spec: { minAvailable: 1, selector } },
    status: { observedGeneration: 1, disruptionsAllowed: 1, currentHealthy: 1, desiredHealthy: 1, expectedPods: 1 },
    change: { spec: { minAvailable: 2 } },
  },
  'clusterrolebindings.rbac.authorization.k8s.io': {
    object: { subjects, roleRef },
    generation: false,
    immutable: [[{ roleRef: { name: 's' } }, 'roleRef', 'cannot change roleRef']],
  },
  'clusterroles.rbac.authorization.k8s.io': { object: role, generation: false },
  'rolebindings.rbac.authorization.k8s.io': {
    object: { subjects, roleRef },
    generation: false,
    immutable: [[{ roleRef: { name: 's' } }, 'roleRef', 'cannot change roleRef']],
  },
  'roles.rbac.authorization.k8s.io': { object: role, generation: false },
  'deviceclasses.resource.k8s.io': { object: { spec: {} }, change: { spec: { selectors: [{ cel: { expression: 'true' } }] } } },
  'resourceclaims.resource.k8s.io': {
    object: { spec: classRequest },
    status: {},
    generation: false,
    immutable: [[{ spec: { devices: { requests: [] } } }, 'spec', fixed]],
  },
  'resourceclaimtemplates.resource.k8s.io': {
    object: { spec: { spec: classRequest } },
    generation: false,
    immutable: [[{ spec: { spec: { devices: { requests: [] } } } }, 'spec', fixed]],
  },
  'resourceslices.resource.k8s.io': {
    object: {
      spec: { driver: 'd.example.com', nodeName: 'n', pool: { name: 'p', generation: 1, resourceSliceCount: 1 }, devices: [{ name: 'a' }] },
    },
    change: { spec: { devices: [{ name: 'b' }] } },
    immutable: [[{ spec: { driver: 'e.example.com' } }, 'spec.driver', fixed]],
  },
  'devicetaintrules.resource.k8s.io': {
    object: { spec: { deviceSelector: { driver: 'd.example.com' }, taint: { key: 'k', effect: 'NoSchedule' } } },
    status: { conditions: [{ type: 'X', status: 'True', reason: 'R', message: '', lastTransitionTime: '2026-01-01T00:00:00Z' }] },
  },
  'resourcepoolstatusrequests.resource.k8s.io': { object: { spec: { driver: 'd.example.com' } } },
  'priorityclasses.scheduling.k8s.io': {
    object: { value: 5 },
    generation: 'created',
    immutable: [
      [{ value: 6 }, 'value', 'may not be changed in an update.'],
      [{ preemptionPolicy: 'Never' }, 'preemptionPolicy', fixed],
    ],
  },
  'podgroups.scheduling.k8s.io': { object: { spec: { schedulingPolicy: { basic: {} } } } },
  'workloads.scheduling.k8s.io': { object: { spec: { podGroupTemplates: [{ name: 'a', schedulingPolicy: { basic: {} } }] } } },
  'csidrivers.storage.k8s.io': {
    object: { spec: {} },
    immutable: [[{ spec: { attachRequired: false } }, 'spec.attachedRequired', fixed]],
  },
  'csinodes.storage.k8s.io': {
    object: { spec: { drivers: [{ name: 'd', nodeID: 'n' }] } },
    generation: false,
    immutable: [[{ spec: { drivers: [{ name: 'd', nodeID: 'm' }] } }, 'spec.drivers', fixed]],
  },
  'csistoragecapacities.storage.k8s.io': {
    object: { storageClassName: 's', capacity: '1Gi' },
    generation: false,
    immutable: [[{ storageClassName: 't' }, 'storageClassName', fixed]],
  },
  'storageclasses.storage.k8s.io': {
    object: { provisioner: 'p' },
    generation: false,
    immutable: [
      [{ parameters: { a: 'b' } }, 'parameters', 'updates to parameters are forbidden.'],
      [{ provisioner: 'q' }, 'provisioner', 'updates to provisioner are forbidden.'],
      [{ reclaimPolicy: 'Retain' }, 'reclaimPolicy', 'updates to reclaimPolicy are forbidden.'],
    ],
  },
  'volumeattachments.storage.k8s.io': {
    object: { spec: { attacher: 'a', nodeName: 'n', source: { persistentVolumeName: 'p' } } },
    status: { attached: true },
    generation: false,
    immutable: [[{ spec: { nodeName: 'm' } }, 'spec', fixed]],
  },
  'volumeattributesclasses.storage.k8s.io': {
    object: { driverName: 'd', parameters: { a: 'b' } },
    generation: false,
    immutable: [
      [{ driverName: 'e' }, 'driverName', 'updates to driverName are forbidden.'],
      [{ parameters: { a: 'c' } }, 'parameters', 'updates to parameters are forbidden.'],
    ],
  },
  'storageversionmigrations.storagemigration.k8s.io': {
    object: { spec: { resource: { group: 'apps', resource: 'deployments' } } },
    status: { conditions: [{ type: 'Running', status: 'True', reason: 'R', message: '', lastTransitionTime: '2026-01-01T00:00:00Z' }] },
  },
};
