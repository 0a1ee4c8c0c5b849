import {
  cronJobs,
  daemonSets,
  deployments,
  endpoints,
  endpointSlices,
  horizontalPodAutoscalers,
  jobs,
  leases,
  nodes,
  persistentVolumeClaims,
  pods,
  replicaSets,
  services,
  statefulSets,
} from '@oarlock/api/resources';
import { failure } from '@oarlock/api/status';
import cronJob from '@oarlock/controllers/batch/cron-job/cron-job-controller';
import daemonSet from '@oarlock/controllers/apps/daemon-set/daemon-set-controller';
import deployment from '@oarlock/controllers/apps/deployment/deployment-controller';
import endpointSlice from '@oarlock/controllers/network/endpoint-slice/endpoint-slice-controller';
import mirroring from '@oarlock/controllers/network/endpoint-slice-mirroring/endpoint-slice-mirroring-controller';
import endpointsLoop from '@oarlock/controllers/network/endpoints/endpoints-controller';
import ephemeralVolume from '@oarlock/controllers/volume/ephemeral-volume/ephemeral-volume-controller';
import garbageCollector from '@oarlock/controllers/api-machinery/garbage-collector/garbage-collector';
import autoscaler from '@oarlock/controllers/pod-autoscaler/horizontal-pod-autoscaler-controller';
import job from '@oarlock/controllers/batch/job/job-controller';
import nodeLifecycle from '@oarlock/controllers/node/node-lifecycle/node-lifecycle-controller';
import persistentVolume from '@oarlock/controllers/volume/persistent-volume/persistent-volume-controller';
import replicaSet from '@oarlock/controllers/apps/replica-set/replica-set-controller';
import statefulSet from '@oarlock/controllers/apps/stateful-set/stateful-set-controller';
import taintEviction from '@oarlock/controllers/node/taint-eviction/taint-eviction-controller';
import type { MemoryApi } from '@oarlock/testing/memory-api';
import { container, labels, meta, node, newObject, once, selector, template, testEventRows, type EventRow } from '../support/event-rows.ts';

const broken = failure('InternalError', 'no disk');
const service = (spec: unknown = { selector: labels, ports: [{ port: 80 }] }) => newObject(services, spec);
const addresses = (count: number) => Array.from({ length: count }, (_, i) => ({ ip: `10.0.0.${i + 1}` }));

const cpuOf = (target: unknown) => ({ name: 'cpu', target });
const percent = { type: 'Utilization', averageUtilization: 50 };
const average = { type: 'AverageValue', averageValue: '1' };
/** The metric of each row, its reason and message, and the name of the metric in FailedComputeMetricsReplicas. */
const unavailableMetrics: readonly (readonly [metric: unknown, reason: string, message: string, summary: string])[] = [
  [
    { type: 'Resource', resource: cpuOf(percent) },
    'FailedGetResourceMetric',
    'failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API: the server could not find the requested resource (get pods.metrics.k8s.io)',
    'cpu resource metric value',
  ],
  [
    { type: 'ContainerResource', containerResource: { ...cpuOf(average), container: 'c' } },
    'FailedGetContainerResourceMetric',
    'failed to get cpu usage: unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API: the server could not find the requested resource (get pods.metrics.k8s.io)',
    'c container metric value',
  ],
  [
    { type: 'Pods', pods: { metric: { name: 'rate' }, target: average } },
    'FailedGetPodsMetric',
    'unable to get metric rate: unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered',
    'pods metric value',
  ],
  [
    {
      type: 'Object',
      object: {
        metric: { name: 'rate' },
        describedObject: { apiVersion: 'v1', kind: 'Service', name: 's' },
        target: { type: 'Value', value: '1' },
      },
    },
    'FailedGetObjectMetric',
    'unable to get metric rate: Service on d s/unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered',
    'object metric value',
  ],
  [
    { type: 'External', external: { metric: { name: 'depth', selector: { matchLabels: { q: 'a' } } }, target: average } },
    'FailedGetExternalMetric',
    'unable to get external metric d/depth/&LabelSelector{MatchLabels:map[string]string{q: a,},MatchExpressions:[]LabelSelectorRequirement{},}: unable to fetch metrics from external metrics API: the server could not find the requested resource (get depth.external.metrics.k8s.io)',
    'depth external metric value: failed to get depth external metric',
  ],
];
const metricFailures = unavailableMetrics.flatMap(([metric, reason, message, text]): EventRow[] => {
  const row = {
    controller: autoscaler,
    seed: (api: MemoryApi) => {
      api.seed(deployments, newObject(deployments, { replicas: 1, selector, template }));
      const scaleTargetRef = { apiVersion: 'apps/v1', kind: 'Deployment', name: 'x' };
      api.seed(horizontalPodAutoscalers, newObject(horizontalPodAutoscalers, { maxReplicas: 3, scaleTargetRef, metrics: [metric] }));
    },
  };
  const about = ['horizontal-pod-autoscaler', 'HorizontalPodAutoscaler x', 'Warning'] as const;
  const invalid = `invalid metrics (1 invalid out of 1), first error is: failed to get ${text}: ${message}`;
  const summary = text.slice(0, text.indexOf(' metric value'));
  return [
    { ...row, scenario: `for a ${summary} metric without a metrics API`, expected: [...about, reason, message] },
    { ...row, scenario: `for a ${summary} metric without a metrics API`, expected: [...about, 'FailedComputeMetricsReplicas', invalid] },
  ];
});

const rows: readonly EventRow[] = [
  {
    controller: deployment,
    scenario: 'when it scales a ReplicaSet up',
    seed: (api) => api.seed(deployments, newObject(deployments, { replicas: 2, selector, template })),
    expected: ['deployment-controller', 'Deployment x', 'Normal', 'ScalingReplicaSet', /^Scaled up replica set x-[a-z0-9]+ from 0 to 2$/],
  },
  {
    controller: deployment,
    scenario: 'if the creation of a ReplicaSet fails',
    seed: (api) => {
      api.seed(deployments, newObject(deployments, { replicas: 2, selector, template }));
      api.failNext({ verb: 'create', resource: replicaSets }, broken);
    },
    expected: [
      'deployment-controller',
      'Deployment x',
      'Warning',
      'ReplicaSetCreateError',
      /^Failed to create new replica set "x-[a-z0-9]+": .*no disk$/,
    ],
  },
  {
    controller: deployment,
    scenario: 'if the selector is empty',
    seed: (api) => api.seed(deployments, newObject(deployments, { replicas: 1, selector: {}, template })),
    expected: [
      'deployment-controller',
      'Deployment x',
      'Warning',
      'SelectingAll',
      'This deployment is selecting all pods. A non-empty selector is required.',
    ],
  },
  {
    controller: replicaSet,
    scenario: 'when it creates a pod',
    seed: (api) => api.seed(replicaSets, newObject(replicaSets, { replicas: 1, selector, template })),
    expected: ['replicaset-controller', 'ReplicaSet x', 'Normal', 'SuccessfulCreate', /^Created pod: x-[a-z0-9]{5}$/],
  },
  {
    controller: replicaSet,
    scenario: 'if the creation of a pod fails',
    seed: (api) => {
      api.seed(replicaSets, newObject(replicaSets, { replicas: 1, selector, template }));
      api.failNext({ verb: 'create', resource: pods }, broken);
    },
    expected: ['replicaset-controller', 'ReplicaSet x', 'Warning', 'FailedCreate', /^Error creating: .*no disk$/],
  },
  {
    controller: replicaSet,
    scenario: 'when it deletes a pod',
    seed: (api) => {
      api.seed(replicaSets, newObject(replicaSets, { replicas: 0, selector, template }));
      const owner = { apiVersion: 'apps/v1', kind: 'ReplicaSet', name: 'x', uid: meta.uid, controller: true };
      api.seed(pods, newObject(pods, template.spec, { metadata: { namespace: 'd', name: 'p', labels, ownerReferences: [owner] } }));
    },
    expected: ['replicaset-controller', 'ReplicaSet x', 'Normal', 'SuccessfulDelete', 'Deleted pod: p'],
  },
  {
    controller: statefulSet,
    scenario: 'when it creates a pod',
    seed: (api) => api.seed(statefulSets, newObject(statefulSets, { replicas: 1, selector, template, serviceName: 's' })),
    expected: ['statefulset-controller', 'StatefulSet x', 'Normal', 'SuccessfulCreate', 'create Pod x-0 in StatefulSet x successful'],
  },
  {
    controller: statefulSet,
    scenario: 'when it creates a claim',
    seed: (api) => {
      const volumeClaimTemplates = [{ metadata: { name: 'data' }, spec: {} }];
      api.seed(statefulSets, newObject(statefulSets, { replicas: 1, selector, template, serviceName: 's', volumeClaimTemplates }));
    },
    expected: [
      'statefulset-controller',
      'StatefulSet x',
      'Normal',
      'SuccessfulCreate',
      'create Claim data-x-0 Pod x-0 in StatefulSet x success',
    ],
  },
  {
    controller: daemonSet,
    scenario: 'when it creates a pod',
    seed: (api) => {
      api.seed(nodes, node());
      api.seed(daemonSets, newObject(daemonSets, { selector, template }));
    },
    expected: ['daemonset-controller', 'DaemonSet x', 'Normal', 'SuccessfulCreate', /^Created pod: x-[a-z0-9]{5}$/],
  },
  {
    controller: job,
    scenario: 'when it creates a pod',
    seed: (api) => api.seed(jobs, newObject(jobs, { completions: 1, parallelism: 1, selector, template: once })),
    expected: ['job-controller', 'Job x', 'Normal', 'SuccessfulCreate', /^Created pod: x-[a-z0-9]{5}$/],
  },
  {
    controller: job,
    scenario: 'when the Job is suspended',
    seed: (api) => api.seed(jobs, newObject(jobs, { completions: 1, parallelism: 1, selector, template: once, suspend: true })),
    expected: ['job-controller', 'Job x', 'Normal', 'Suspended', 'Job suspended'],
  },
  {
    controller: cronJob,
    scenario: 'when it creates a Job',
    seed: (api) => api.seed(cronJobs, newObject(cronJobs, { schedule: '* * * * *', jobTemplate: { spec: { template: once } } })),
    after: 61_000,
    expected: ['cronjob-controller', 'CronJob x', 'Normal', 'SuccessfulCreate', /^Created job x-\d+$/],
  },
  {
    controller: cronJob,
    scenario: 'for an invalid schedule',
    seed: (api) => api.seed(cronJobs, newObject(cronJobs, { schedule: 'never', jobTemplate: { spec: { template: once } } })),
    expected: ['cronjob-controller', 'CronJob x', 'Warning', 'UnparseableSchedule', /^unparseable schedule: "never" : /],
  },
  {
    controller: autoscaler,
    scenario: 'if the scale target does not exist',
    seed: (api) =>
      api.seed(
        horizontalPodAutoscalers,
        newObject(horizontalPodAutoscalers, {
          maxReplicas: 3,
          scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name: 'none' },
        }),
      ),
    expected: ['horizontal-pod-autoscaler', 'HorizontalPodAutoscaler x', 'Warning', 'FailedGetScale', 'deployments.apps "none" not found'],
  },
  {
    controller: nodeLifecycle,
    scenario: 'when a node is added',
    seed: (api) => api.seed(nodes, node()),
    expected: ['node-controller', 'Node n', 'Normal', 'RegisteredNode', 'Node n event: Registered Node n in Controller'],
  },
  {
    controller: statefulSet,
    scenario: 'if the creation of a claim fails',
    seed: (api) => {
      const volumeClaimTemplates = [{ metadata: { name: 'data' }, spec: {} }];
      api.seed(statefulSets, newObject(statefulSets, { replicas: 1, selector, template, serviceName: 's', volumeClaimTemplates }));
      api.failNext({ verb: 'create', resource: persistentVolumeClaims }, broken);
    },
    expected: [
      'statefulset-controller',
      'StatefulSet x',
      'Warning',
      'FailedCreate',
      'create Claim data-x-0 for Pod x-0 in StatefulSet x failed error: no disk',
    ],
  },
  {
    controller: statefulSet,
    scenario: 'if a pod cannot be created without its claim',
    seed: (api) => {
      const volumeClaimTemplates = [{ metadata: { name: 'data' }, spec: {} }];
      api.seed(statefulSets, newObject(statefulSets, { replicas: 1, selector, template, serviceName: 's', volumeClaimTemplates }));
      api.failNext({ verb: 'create', resource: persistentVolumeClaims }, broken);
    },
    expected: [
      'statefulset-controller',
      'StatefulSet x',
      'Warning',
      'FailedCreate',
      'create Pod x-0 in StatefulSet x failed error: failed to create PVC data-x-0: no disk',
    ],
  },
  {
    controller: cronJob,
    scenario: 'for a date that does not exist',
    seed: (api) => api.seed(cronJobs, newObject(cronJobs, { schedule: '59 23 31 2 *', jobTemplate: { spec: { template: once } } })),
    expected: [
      'cronjob-controller',
      'CronJob x',
      'Warning',
      'InvalidSchedule',
      'invalid schedule: 59 23 31 2 * : time difference between two schedules is less than 1 second',
    ],
  },
  ...metricFailures,
  {
    controller: nodeLifecycle,
    scenario: 'when a node is removed',
    seed: (api) => {
      api.seed(nodes, node([{ type: 'Ready', status: 'True' }]));
      api.seed(leases, newObject(leases, {}, { metadata: { namespace: 'kube-node-lease', name: 'n' } }));
    },
    after: 60_000,
    expected: ['node-controller', 'Node n', 'Normal', 'NodeNotReady', 'Node n status is now: NodeNotReady'],
  },
  {
    controller: taintEviction,
    scenario: 'when it evicts a pod from a tainted node',
    seed: (api) => {
      api.seed(nodes, node([], { taints: [{ key: 'k', effect: 'NoExecute' }] }));
      api.seed(pods, newObject(pods, { nodeName: 'n', containers: [container] }));
    },
    expected: ['taint-eviction-controller', 'Pod x', 'Normal', 'TaintManagerEviction', 'Marking for deletion Pod d/x'],
  },
  {
    controller: persistentVolume,
    scenario: 'without a volume for a claim',
    seed: (api) => api.seed(persistentVolumeClaims, newObject(persistentVolumeClaims, { resources: { requests: { storage: '1Gi' } } })),
    expected: [
      'persistentvolume-controller',
      'PersistentVolumeClaim x',
      'Normal',
      'FailedBinding',
      'no persistent volumes available for this claim and no storage class is set',
    ],
  },
  {
    controller: garbageCollector,
    scenario: 'for an owner in another namespace',
    seed: (api) => {
      api.seed(replicaSets, newObject(replicaSets, { replicas: 0, selector, template }, { metadata: { ...meta, namespace: 'e' } }));
      const owner = { apiVersion: 'apps/v1', kind: 'ReplicaSet', name: 'x', uid: meta.uid };
      api.seed(pods, newObject(pods, template.spec, { metadata: { namespace: 'd', name: 'p', ownerReferences: [owner] } }));
    },
    expected: [
      'garbage-collector-controller',
      'Pod p',
      'Warning',
      'OwnerRefInvalidNamespace',
      `ownerRef [apps/v1/ReplicaSet, namespace: d, name: x, uid: ${meta.uid}] does not exist in namespace "d"`,
    ],
  },
  {
    controller: endpointsLoop,
    scenario: 'if the creation of Endpoints fails',
    seed: (api) => {
      api.seed(services, service());
      api.failNext({ verb: 'create', resource: endpoints }, broken);
    },
    expected: [
      'endpoint-controller',
      'Endpoints x',
      'Warning',
      'FailedToCreateEndpoint',
      /^Failed to create endpoint for service d\/x: .*no disk$/,
    ],
  },
  {
    controller: endpointsLoop,
    scenario: 'if the update of Endpoints fails',
    seed: (api) => {
      api.seed(services, service());
      api.seed(endpoints, newObject(endpoints, undefined, { subsets: [{ addresses: addresses(1) }] }));
      api.failNext({ verb: 'update', resource: endpoints }, broken);
    },
    expected: ['endpoint-controller', 'Endpoints x', 'Warning', 'FailedToUpdateEndpoint', /^Failed to update endpoint d\/x: .*no disk$/],
  },
  {
    controller: endpointSlice,
    scenario: 'if the creation of slices fails',
    seed: (api) => {
      api.seed(services, service());
      api.failNext({ verb: 'create', resource: endpointSlices }, broken);
    },
    expected: [
      'endpoint-slice-controller',
      'Service x',
      'Warning',
      'FailedToUpdateEndpointSlices',
      /^Error updating Endpoint Slices for Service d\/x: .*no disk$/,
    ],
  },
  {
    controller: mirroring,
    scenario: 'if addresses are skipped',
    seed: (api) => {
      api.seed(services, service({ ports: [{ port: 80 }] }));
      const many = Array.from({ length: 1003 }, (_, i) => ({ ip: `10.0.${i >> 8}.${i & 255}` }));
      api.seed(endpoints, newObject(endpoints, undefined, { subsets: [{ addresses: many }] }));
    },
    expected: [
      'endpoint-slice-mirroring-controller',
      'Endpoints x',
      'Warning',
      'TooManyAddressesToMirror',
      'A max of 1000 addresses can be mirrored to EndpointSlices per Endpoints subset. 3 addresses were skipped',
    ],
  },
  {
    controller: mirroring,
    scenario: 'if an address is invalid',
    seed: (api) => {
      api.seed(services, service({ ports: [{ port: 80 }] }));
      api.seed(endpoints, newObject(endpoints, undefined, { subsets: [{ addresses: [{ ip: '10.0.0.1' }, { ip: 'none' }] }] }));
    },
    expected: [
      'endpoint-slice-mirroring-controller',
      'Endpoints x',
      'Warning',
      'InvalidIPAddress',
      'Skipped 1 invalid IP addresses when mirroring to EndpointSlices',
    ],
  },
  {
    controller: ephemeralVolume,
    scenario: 'if the claim has another owner',
    seed: (api) => {
      const volumes = [{ name: 'v', ephemeral: { volumeClaimTemplate: { spec: {} } } }];
      api.seed(persistentVolumeClaims, newObject(persistentVolumeClaims, {}, { metadata: { namespace: 'd', name: 'x-v' } }));
      api.seed(pods, newObject(pods, { containers: [container], volumes }));
    },
    expected: [
      'ephemeral_volume',
      'Pod x',
      'Warning',
      'FailedBinding',
      'ephemeral volume v: PVC "d/x-v" was not created for pod "d/x" (pod is not owner)',
    ],
  },
];

testEventRows(rows);
