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
import cronJob from '@oarlock/controllers/cron-job/cron-job-controller';
import daemonSet from '@oarlock/controllers/daemon-set/daemon-set-controller';
import deployment from '@oarlock/controllers/deployment/deployment-controller';
import endpointSlice from '@oarlock/controllers/endpoint-slice/endpoint-slice-controller';
import mirroring from '@oarlock/controllers/endpoint-slice-mirroring/endpoint-slice-mirroring-controller';
import endpointsLoop from '@oarlock/controllers/endpoints/endpoints-controller';
import ephemeralVolume from '@oarlock/controllers/ephemeral-volume/ephemeral-volume-controller';
import garbageCollector from '@oarlock/controllers/garbage-collector/garbage-collector';
import autoscaler from '@oarlock/controllers/horizontal-pod-autoscaler/horizontal-pod-autoscaler-controller';
import job from '@oarlock/controllers/job/job-controller';
import nodeLifecycle from '@oarlock/controllers/node-lifecycle/node-lifecycle-controller';
import persistentVolume from '@oarlock/controllers/persistent-volume/persistent-volume-controller';
import replicaSet from '@oarlock/controllers/replica-set/replica-set-controller';
import statefulSet from '@oarlock/controllers/stateful-set/stateful-set-controller';
import taintEviction from '@oarlock/controllers/taint-eviction/taint-eviction-controller';
import { container, labels, meta, node, of, once, selector, template, testRows, type Row } from './said.ts';

const broken = failure('InternalError', 'no disk');
const service = (spec: unknown = { selector: labels, ports: [{ port: 80 }] }) => of(services, spec);
const addresses = (count: number) => Array.from({ length: count }, (_, i) => ({ ip: `10.0.0.${i + 1}` }));

const rows: readonly Row[] = [
  {
    loop: deployment,
    does: 'scales a set up',
    seed: (api) => api.seed(deployments, of(deployments, { replicas: 2, selector, template })),
    says: ['deployment-controller', 'Deployment x', 'Normal', 'ScalingReplicaSet', /^Scaled up replica set x-[a-z0-9]+ from 0 to 2$/],
  },
  {
    loop: deployment,
    does: 'cannot make a set',
    seed: (api) => {
      api.seed(deployments, of(deployments, { replicas: 2, selector, template }));
      api.failNext({ verb: 'create', resource: replicaSets }, broken);
    },
    says: [
      'deployment-controller',
      'Deployment x',
      'Warning',
      'ReplicaSetCreateError',
      /^Failed to create new replica set "x-[a-z0-9]+": .*no disk$/,
    ],
  },
  {
    loop: deployment,
    does: 'selects everything',
    seed: (api) => api.seed(deployments, of(deployments, { replicas: 1, selector: {}, template })),
    says: [
      'deployment-controller',
      'Deployment x',
      'Warning',
      'SelectingAll',
      'This deployment is selecting all pods. A non-empty selector is required.',
    ],
  },
  {
    loop: replicaSet,
    does: 'makes a pod',
    seed: (api) => api.seed(replicaSets, of(replicaSets, { replicas: 1, selector, template })),
    says: ['replicaset-controller', 'ReplicaSet x', 'Normal', 'SuccessfulCreate', /^Created pod: x-[a-z0-9]{5}$/],
  },
  {
    loop: replicaSet,
    does: 'cannot make a pod',
    seed: (api) => {
      api.seed(replicaSets, of(replicaSets, { replicas: 1, selector, template }));
      api.failNext({ verb: 'create', resource: pods }, broken);
    },
    says: ['replicaset-controller', 'ReplicaSet x', 'Warning', 'FailedCreate', /^Error creating: .*no disk$/],
  },
  {
    loop: replicaSet,
    does: 'removes a pod',
    seed: (api) => {
      api.seed(replicaSets, of(replicaSets, { replicas: 0, selector, template }));
      const owner = { apiVersion: 'apps/v1', kind: 'ReplicaSet', name: 'x', uid: meta.uid, controller: true };
      api.seed(pods, of(pods, template.spec, { metadata: { namespace: 'd', name: 'p', labels, ownerReferences: [owner] } }));
    },
    says: ['replicaset-controller', 'ReplicaSet x', 'Normal', 'SuccessfulDelete', 'Deleted pod: p'],
  },
  {
    loop: statefulSet,
    does: 'makes a pod',
    seed: (api) => api.seed(statefulSets, of(statefulSets, { replicas: 1, selector, template, serviceName: 's' })),
    says: ['statefulset-controller', 'StatefulSet x', 'Normal', 'SuccessfulCreate', 'create Pod x-0 in StatefulSet x successful'],
  },
  {
    loop: statefulSet,
    does: 'makes a claim',
    seed: (api) => {
      const volumeClaimTemplates = [{ metadata: { name: 'data' }, spec: {} }];
      api.seed(statefulSets, of(statefulSets, { replicas: 1, selector, template, serviceName: 's', volumeClaimTemplates }));
    },
    says: [
      'statefulset-controller',
      'StatefulSet x',
      'Normal',
      'SuccessfulCreate',
      'create Claim data-x-0 Pod x-0 in StatefulSet x success',
    ],
  },
  {
    loop: daemonSet,
    does: 'makes a pod',
    seed: (api) => {
      api.seed(nodes, node());
      api.seed(daemonSets, of(daemonSets, { selector, template }));
    },
    says: ['daemonset-controller', 'DaemonSet x', 'Normal', 'SuccessfulCreate', /^Created pod: x-[a-z0-9]{5}$/],
  },
  {
    loop: job,
    does: 'makes a pod',
    seed: (api) => api.seed(jobs, of(jobs, { completions: 1, parallelism: 1, selector, template: once })),
    says: ['job-controller', 'Job x', 'Normal', 'SuccessfulCreate', /^Created pod: x-[a-z0-9]{5}$/],
  },
  {
    loop: job,
    does: 'is suspended',
    seed: (api) => api.seed(jobs, of(jobs, { completions: 1, parallelism: 1, selector, template: once, suspend: true })),
    says: ['job-controller', 'Job x', 'Normal', 'Suspended', 'Job suspended'],
  },
  {
    loop: cronJob,
    does: 'makes a job',
    seed: (api) => api.seed(cronJobs, of(cronJobs, { schedule: '* * * * *', jobTemplate: { spec: { template: once } } })),
    after: 61_000,
    says: ['cronjob-controller', 'CronJob x', 'Normal', 'SuccessfulCreate', /^Created job x-\d+$/],
  },
  {
    loop: cronJob,
    does: 'has a schedule that is none',
    seed: (api) => api.seed(cronJobs, of(cronJobs, { schedule: 'never', jobTemplate: { spec: { template: once } } })),
    says: ['cronjob-controller', 'CronJob x', 'Warning', 'UnparseableSchedule', /^unparseable schedule: "never" : /],
  },
  {
    loop: autoscaler,
    does: 'finds nothing to scale',
    seed: (api) =>
      api.seed(
        horizontalPodAutoscalers,
        of(horizontalPodAutoscalers, { maxReplicas: 3, scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name: 'none' } }),
      ),
    says: ['horizontal-pod-autoscaler', 'HorizontalPodAutoscaler x', 'Warning', 'FailedGetScale', 'deployments.apps "none" not found'],
  },
  {
    loop: nodeLifecycle,
    does: 'hears of a node',
    seed: (api) => api.seed(nodes, node()),
    says: ['node-controller', 'Node n', 'Normal', 'RegisteredNode', 'Node n event: Registered Node n in Controller'],
  },
  {
    loop: nodeLifecycle,
    does: 'hears of a node no more',
    seed: (api) => {
      api.seed(nodes, node([{ type: 'Ready', status: 'True' }]));
      api.seed(leases, of(leases, {}, { metadata: { namespace: 'kube-node-lease', name: 'n' } }));
    },
    after: 60_000,
    says: ['node-controller', 'Node n', 'Normal', 'NodeNotReady', 'Node n status is now: NodeNotReady'],
  },
  {
    loop: taintEviction,
    does: 'takes a pod off a tainted node',
    seed: (api) => {
      api.seed(nodes, node([], { taints: [{ key: 'k', effect: 'NoExecute' }] }));
      api.seed(pods, of(pods, { nodeName: 'n', containers: [container] }));
    },
    says: ['taint-eviction-controller', 'Pod x', 'Normal', 'TaintManagerEviction', 'Marking for deletion Pod d/x'],
  },
  {
    loop: persistentVolume,
    does: 'has no volume for a claim',
    seed: (api) => api.seed(persistentVolumeClaims, of(persistentVolumeClaims, { resources: { requests: { storage: '1Gi' } } })),
    says: [
      'persistentvolume-controller',
      'PersistentVolumeClaim x',
      'Normal',
      'FailedBinding',
      'no persistent volumes available for this claim and no storage class is set',
    ],
  },
  {
    loop: garbageCollector,
    does: 'finds an owner in another namespace',
    seed: (api) => {
      api.seed(replicaSets, of(replicaSets, { replicas: 0, selector, template }, { metadata: { ...meta, namespace: 'e' } }));
      const owner = { apiVersion: 'apps/v1', kind: 'ReplicaSet', name: 'x', uid: meta.uid };
      api.seed(pods, of(pods, template.spec, { metadata: { namespace: 'd', name: 'p', ownerReferences: [owner] } }));
    },
    says: [
      'garbage-collector-controller',
      'Pod p',
      'Warning',
      'OwnerRefInvalidNamespace',
      `ownerRef [apps/v1/ReplicaSet, namespace: d, name: x, uid: ${meta.uid}] does not exist in namespace "d"`,
    ],
  },
  {
    loop: endpointsLoop,
    does: 'cannot make endpoints',
    seed: (api) => {
      api.seed(services, service());
      api.failNext({ verb: 'create', resource: endpoints }, broken);
    },
    says: [
      'endpoint-controller',
      'Endpoints x',
      'Warning',
      'FailedToCreateEndpoint',
      /^Failed to create endpoint for service d\/x: .*no disk$/,
    ],
  },
  {
    loop: endpointsLoop,
    does: 'cannot update endpoints',
    seed: (api) => {
      api.seed(services, service());
      api.seed(endpoints, of(endpoints, undefined, { subsets: [{ addresses: addresses(1) }] }));
      api.failNext({ verb: 'update', resource: endpoints }, broken);
    },
    says: ['endpoint-controller', 'Endpoints x', 'Warning', 'FailedToUpdateEndpoint', /^Failed to update endpoint d\/x: .*no disk$/],
  },
  {
    loop: endpointSlice,
    does: 'cannot make slices',
    seed: (api) => {
      api.seed(services, service());
      api.failNext({ verb: 'create', resource: endpointSlices }, broken);
    },
    says: [
      'endpoint-slice-controller',
      'Service x',
      'Warning',
      'FailedToUpdateEndpointSlices',
      /^Error updating Endpoint Slices for Service d\/x: .*no disk$/,
    ],
  },
  {
    loop: mirroring,
    does: 'cannot mirror endpoints',
    seed: (api) => {
      api.seed(services, service({ ports: [{ port: 80 }] }));
      api.seed(endpoints, of(endpoints, undefined, { subsets: [{ addresses: addresses(1) }] }));
      api.failNext({ verb: 'create', resource: endpointSlices }, broken);
    },
    says: [
      'endpoint-slice-mirroring-controller',
      'Endpoints x',
      'Warning',
      'FailedToUpdateEndpointSlices',
      /^Error updating Endpoint Slices for Endpoints d\/x: .*no disk$/,
    ],
  },
  {
    loop: mirroring,
    does: 'leaves addresses out',
    seed: (api) => {
      api.seed(services, service({ ports: [{ port: 80 }] }));
      const many = Array.from({ length: 1003 }, (_, i) => ({ ip: `10.0.${i >> 8}.${i & 255}` }));
      api.seed(endpoints, of(endpoints, undefined, { subsets: [{ addresses: many }] }));
    },
    says: [
      'endpoint-slice-mirroring-controller',
      'Endpoints x',
      'Warning',
      'TooManyAddressesToMirror',
      'A max of 1000 addresses can be mirrored to EndpointSlices per Endpoints subset. 3 addresses were skipped',
    ],
  },
  {
    loop: ephemeralVolume,
    does: 'finds the claim of somebody else',
    seed: (api) => {
      const volumes = [{ name: 'v', ephemeral: { volumeClaimTemplate: { spec: {} } } }];
      api.seed(persistentVolumeClaims, of(persistentVolumeClaims, {}, { metadata: { namespace: 'd', name: 'x-v' } }));
      api.seed(pods, of(pods, { containers: [container], volumes }));
    },
    says: [
      'ephemeral_volume',
      'Pod x',
      'Warning',
      'FailedBinding',
      'ephemeral volume v: PVC "d/x-v" was not created for pod "d/x" (pod is not owner)',
    ],
  },
];

testRows(rows);
