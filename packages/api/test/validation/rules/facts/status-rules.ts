import type { ValidationRule } from '../rule-samples.ts';

const subresource = 'status';
const containers = [{ name: 'c', image: 'i', resources: { requests: { 'example.com/gpu': '1' }, limits: { 'example.com/gpu': '1' } } }];
const terminated = (exitCode: number) => [{ name: 'c', state: { terminated: { exitCode } } }];
const running = [{ name: 'c', state: { running: {} } }];
const allocated = (name: string, ...resources: readonly object[]) => ({
  status: { containerStatuses: [{ name: 'c', allocatedResourcesStatus: [{ name, resources }] }] },
});
const mapping = { containerName: 'c', resourceName: 'example.com/gpu', requestName: 'r' };

const podStatusRules: readonly ValidationRule[] = [
  {
    rule: 'core.validatePodConditions',
    kind: 'Pod',
    subresource,
    fields: { status: { conditions: [{ type: 'Bad!', status: 'True', observedGeneration: -1 }], observedGeneration: -2 } },
    old: {},
    errors: [
      'status.conditions[0].observedGeneration: Invalid value: -1: must be a non-negative integer',
      'status.conditions[0].Type: Invalid value: "Bad!": …',
      'status.observedGeneration: Invalid value: -2: must be a non-negative integer',
    ],
  },
  {
    rule: 'core.ValidatePodStatusUpdate: the nomination of a bound pod',
    kind: 'Pod',
    subresource,
    fields: { spec: { nodeName: 'n' }, status: { nominatedNodeName: 'm' } },
    old: { spec: { nodeName: 'n' } },
    errors: ['status.nominatedNodeName: Forbidden: may not be set on pods that are already bound to a node'],
  },
  {
    rule: 'core.ValidatePodStatusUpdate: the class of service',
    kind: 'Pod',
    subresource,
    fields: { status: { qosClass: 'Burstable' } },
    old: { status: { qosClass: 'BestEffort' } },
    errors: ['status.qosClass: Invalid value: "Burstable": field is immutable'],
  },
  {
    rule: 'core.ValidateContainerStateTransition: a rule that does not match the exit code',
    kind: 'Pod',
    subresource,
    fields: { status: { containerStatuses: running } },
    old: {
      spec: {
        restartPolicy: 'Never',
        containers: [
          {
            name: 'c',
            image: 'i',
            restartPolicy: 'Never',
            restartPolicyRules: [{ action: 'Restart', exitCodes: { operator: 'In', values: [42] } }],
          },
        ],
      },
      status: { containerStatuses: terminated(1) },
    },
    errors: ['status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state'],
  },
  {
    rule: 'core.ValidateEphemeralContainerStateTransition',
    kind: 'Pod',
    subresource,
    fields: { status: { ephemeralContainerStatuses: running } },
    old: { status: { ephemeralContainerStatuses: terminated(0) } },
    errors: ['status.ephemeralContainerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state'],
  },
  {
    rule: 'core.validatePodResourceClaimStatuses',
    kind: 'Pod',
    subresource,
    fields: {
      status: {
        resourceClaimStatuses: [{ name: 'a' }, { name: 'a', resourceClaimName: 'x' }, { name: 'b', resourceClaimName: 'X' }],
      },
    },
    old: { spec: { resourceClaims: [{ name: 'a', resourceClaimName: 'x' }] } },
    errors: [
      'status.resourceClaimStatuses[1].name: Duplicate value: "a"',
      'status.resourceClaimStatuses[2].name: Invalid value: "b": must match the name of an entry in `spec.resourceClaims`',
      'status.resourceClaimStatuses[2].resourceClaimName: Invalid value: "X": a lowercase RFC 1123 subdomain must consist of…',
    ],
  },
  {
    rule: 'core.validatePodExtendedResourceClaimStatus: names',
    kind: 'Pod',
    subresource,
    fields: {
      status: {
        extendedResourceClaimStatus: {
          requestMappings: [mapping, mapping, { ...mapping, containerName: 'd' }, { ...mapping, resourceName: 'cpu' }],
          resourceClaimName: '',
        },
      },
    },
    old: { spec: { containers } },
    errors: [
      'status.extendedResourceClaimStatus.requestMappings[1].containerName: Duplicate value: "c"',
      'status.extendedResourceClaimStatus.requestMappings[1].resourceName: Duplicate value: "example.com/gpu"',
      'status.extendedResourceClaimStatus.requestMappings[1].requestName: Duplicate value: "r"',
      'status.extendedResourceClaimStatus.requestMappings[2].containerName: Invalid value: "d": must match the name of an entry in spec.initContainers.name or spec.containers.name',
      'status.extendedResourceClaimStatus.requestMappings[3].resourceName: Invalid value: "cpu": must match the extended resource name of an entry in spec.initContainers.resources.requests or spec.containers.resources.requests',
      'status.extendedResourceClaimStatus.resourceClaimName: Required value',
    ],
  },
  {
    rule: 'core.validatePodExtendedResourceClaimStatus: no mapping',
    kind: 'Pod',
    subresource,
    fields: { status: { extendedResourceClaimStatus: { requestMappings: [], resourceClaimName: 'x' } } },
    old: {},
    errors: ['status.extendedResourceClaimStatus.requestMappings: Required value: at least one request mapping is required'],
  },
  {
    rule: 'core.validatePodIPs: an invalid address in the stored pod',
    kind: 'Pod',
    subresource,
    fields: { status: { podIPs: [{ ip: 'bad' }] } },
    old: { status: { podIPs: [{ ip: 'bad' }] } },
    errors: [],
  },
  {
    rule: 'core.validateContainerStatusUsers: a pod for Linux',
    kind: 'Pod',
    subresource,
    fields: { status: { containerStatuses: [{ name: 'c', user: { linux: { uid: -1, gid: 2147483648, supplementalGroups: [-2] } } }] } },
    old: {},
    errors: [
      'status.containerStatuses[0].user.linux.uid: Invalid value: -1: must be between 0 and 2147483647, inclusive',
      'status.containerStatuses[0].user.linux.gid: Invalid value: 2147483648: must be between 0 and 2147483647, inclusive',
      'status.containerStatuses[0].user.linux.supplementalGroups[0]: Invalid value: -2: must be between 0 and 2147483647, inclusive',
    ],
  },
  {
    rule: 'core.validateContainerStatusUsers: a pod for Windows',
    kind: 'Pod',
    subresource,
    fields: { status: { containerStatuses: [{ name: 'c', user: { linux: { uid: 1, gid: 1 } } }] } },
    old: { spec: { os: { name: 'windows' } } },
    errors: ['status.containerStatuses[0].user.linux: Forbidden: cannot be set for a windows pod'],
  },
  {
    rule: 'core.validateContainerStatusAllocatedResourcesStatus: a resource that is not requested',
    kind: 'Pod',
    subresource,
    fields: allocated('example.com/other'),
    old: { spec: { containers } },
    errors: [
      'status.containerStatuses[0].allocatedResourcesStatus[0].name: Invalid value: "example.com/other": must match one of the container\'s resource requests',
    ],
  },
  {
    rule: 'core.validateContainerStatusAllocatedResourcesStatus: health and ids',
    kind: 'Pod',
    subresource,
    fields: allocated('example.com/gpu', { resourceID: 'a', health: 'Healthy' }, { resourceID: 'a', health: 'Other' }),
    old: { spec: { containers } },
    errors: [
      'status.containerStatuses[0].allocatedResourcesStatus[0].resources[1].health: Unsupported value: "Other": supported values: "Healthy", "Unhealthy", "Unknown"',
      'status.containerStatuses[0].allocatedResourcesStatus[0].resources[1].resourceID: Duplicate value: "a"',
    ],
  },
];

const annotated = (annotations: Readonly<Record<string, string>>) => ({ metadata: { annotations } });
const appArmor = 'container.apparmor.security.beta.kubernetes.io/';
const seccomp = 'container.seccomp.security.alpha.kubernetes.io/c';

const annotationRules: readonly ValidationRule[] = [
  {
    rule: 'core.ValidateSeccompPodAnnotations',
    kind: 'Pod',
    fields: annotated({ 'seccomp.security.alpha.kubernetes.io/pod': 'other', [seccomp]: 'localhost/../a' }),
    errors: [
      'metadata.annotations.seccomp.security.alpha.kubernetes.io/pod: Invalid value: "other": must be a valid seccomp profile',
      `metadata.annotations.${seccomp}: Invalid value: "../a": must not contain '..'`,
    ],
  },
  {
    rule: 'core.ValidateAppArmorPodAnnotations: in a template',
    kind: 'Deployment',
    fields: { spec: { template: annotated({ [`${appArmor}d`]: 'other' }) } },
    errors: [
      `spec.template.annotations[${appArmor}d]: Invalid value: "d": container not found`,
      `spec.template.annotations[${appArmor}d]: Invalid value: "other": invalid AppArmor profile name: "other"`,
    ],
  },
  {
    rule: 'core.ValidatePodSpecificAnnotationUpdates: AppArmor',
    kind: 'Pod',
    fields: annotated({ [`${appArmor}c`]: 'unconfined' }),
    old: {},
    errors: [`metadata.annotations[${appArmor}c]: Forbidden: may not add AppArmor annotations`],
  },
  {
    rule: 'core.ValidateTolerationsInPodAnnotations',
    kind: 'Pod',
    fields: annotated({ 'scheduler.alpha.kubernetes.io/tolerations': '[{"operator":"Exists","value":"v"}]' }),
    errors: ['metadata.annotations.scheduler.alpha.kubernetes.io/tolerations[0].operator: Invalid value: …'],
  },
  {
    rule: 'core.ValidatePodSpecificAnnotations: a deletion cost that the stored pod has',
    kind: 'Pod',
    fields: annotated({ 'controller.kubernetes.io/pod-deletion-cost': '+1' }),
    old: annotated({ 'controller.kubernetes.io/pod-deletion-cost': '01' }),
    errors: [],
  },
];

const workloadStatusRules: readonly ValidationRule[] = [
  {
    rule: 'apps.ValidateStatefulSetStatusUpdate',
    kind: 'StatefulSet',
    subresource,
    fields: { status: { replicas: 1, readyReplicas: 1, currentReplicas: 3, updatedReplicas: -1, availableReplicas: 2 } },
    old: { status: { replicas: 1, collisionCount: 1 } },
    errors: [
      'status.updatedReplicas: Invalid value: -1: must be greater than or equal to 0',
      'status.currentReplicas: Invalid value: 3: cannot be greater than status.replicas',
      'status.availableReplicas: Invalid value: 2: cannot be greater than status.replicas',
      'status.availableReplicas: Invalid value: 2: cannot be greater than status.readyReplicas',
      'status.collisionCount: Invalid value: 0: cannot be decremented',
    ],
  },
  {
    rule: 'apps.ValidateDaemonSetStatusUpdate',
    kind: 'DaemonSet',
    subresource,
    fields: {
      status: { currentNumberScheduled: -1, numberMisscheduled: 0, desiredNumberScheduled: 0, numberReady: -2, collisionCount: 1 },
    },
    old: { status: { currentNumberScheduled: 0, numberMisscheduled: 0, desiredNumberScheduled: 0, numberReady: 0, collisionCount: 2 } },
    errors: [
      'status.currentNumberScheduled: Invalid value: -1: must be greater than or equal to 0',
      'status.numberReady: Invalid value: -2: must be greater than or equal to 0',
      'status.collisionCount: Invalid value: 1: cannot be decremented',
    ],
  },
];

/** Rules of statuses, and of the annotations of pods. */
export const statusRules: readonly ValidationRule[] = [...podStatusRules, ...annotationRules, ...workloadStatusRules];
