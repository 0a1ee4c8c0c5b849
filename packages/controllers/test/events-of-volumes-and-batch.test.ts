import {
  csiDrivers,
  cronJobs,
  daemonSets,
  deployments,
  jobs,
  nodes,
  persistentVolumeClaims,
  persistentVolumes,
  podDisruptionBudgets,
  pods,
  statefulSets,
  storageClasses,
  volumeAttachments,
} from '@oarlock/api/resources';
import { formatTime } from '@oarlock/api/time';
import type { CronJob } from '@oarlock/api/types/batch-v1';
import attachDetach, { attachmentName } from '@oarlock/controllers/attach-detach/attach-detach-controller';
import cronJob from '@oarlock/controllers/cron-job/cron-job-controller';
import daemonSet from '@oarlock/controllers/daemon-set/daemon-set-controller';
import deployment from '@oarlock/controllers/deployment/deployment-controller';
import disruption from '@oarlock/controllers/disruption/disruption-controller';
import job from '@oarlock/controllers/job/job-controller';
import nodeLifecycle from '@oarlock/controllers/node-lifecycle/node-lifecycle-controller';
import persistentVolume from '@oarlock/controllers/persistent-volume/persistent-volume-controller';
import statefulSet from '@oarlock/controllers/stateful-set/stateful-set-controller';
import taintEviction from '@oarlock/controllers/taint-eviction/taint-eviction-controller';
import type { MemoryApi } from '@oarlock/testing/memory-api';
import { endPod } from '@oarlock/testing/simulated-pods';
import type { Life } from './life.ts';
import { container, labels, meta, node, of, once, selector, template, testRows, type Row } from './said.ts';

const volume = of(
  persistentVolumes,
  { accessModes: ['ReadWriteOnce'], csi: { driver: 'x.io', volumeHandle: 'h' }, claimRef: { namespace: 'd', name: 'data' } },
  { metadata: { name: 'v' }, status: { phase: 'Bound' } },
);
const user = of(pods, {
  nodeName: 'n',
  containers: [container],
  volumes: [{ name: 'v', persistentVolumeClaim: { claimName: 'data' } }],
});
/** A pod on node n that uses a volume of a driver, and what is attached. */
const attaching = (api: MemoryApi, on: string | undefined, status?: unknown) => {
  api.seed(csiDrivers, of(csiDrivers, { attachRequired: true }, { metadata: { name: 'x.io' } }));
  api.seed(nodes, node());
  api.seed(persistentVolumes, volume);
  api.seed(
    persistentVolumeClaims,
    of(persistentVolumeClaims, { volumeName: 'v' }, { metadata: { namespace: 'd', name: 'data' }, status: { phase: 'Bound' } }),
  );
  api.seed(pods, user);
  if (on !== undefined)
    api.seed(
      volumeAttachments,
      of(
        volumeAttachments,
        { attacher: 'x.io', nodeName: on, source: { persistentVolumeName: 'v' } },
        { metadata: { name: attachmentName(volume, on) }, status },
      ),
    );
};

const cron = (more: Partial<CronJob['spec']> = {}, status: unknown = {}, created = '2026-01-01T00:00:00Z') =>
  of(
    cronJobs,
    { schedule: '* * * * *', jobTemplate: { spec: { template: once } }, ...more },
    { metadata: { ...meta, creationTimestamp: created }, status },
  );
const ref = (name: string) => ({ apiVersion: 'batch/v1', kind: 'Job', namespace: 'd', name, uid: `uid-of-${name}` });
const ofCron = (name: string, status: unknown = {}) =>
  of(
    jobs,
    { template: once },
    {
      metadata: {
        namespace: 'd',
        name,
        uid: `uid-of-${name}`,
        ownerReferences: [{ apiVersion: 'batch/v1', kind: 'CronJob', name: 'x', uid: meta.uid, controller: true }],
      },
      status,
    },
  );

const run = (spec: unknown) => (api: MemoryApi) => void api.seed(jobs, of(jobs, { selector, template: once, ...(spec as object) }));
const endAll =
  (code: number) =>
  async ({ api, clock }: Life) => {
    await clock.settle();
    for (const pod of api.objects(pods, 'd')) await endPod(api, pod, code, clock.now());
  };
const onNode = (phase: string) => (api: MemoryApi) => {
  api.seed(nodes, node());
  api.seed(daemonSets, of(daemonSets, { selector, template }));
  const ownerReferences = [{ apiVersion: 'apps/v1', kind: 'DaemonSet', name: 'x', uid: meta.uid, controller: true }];
  api.seed(
    pods,
    of(
      pods,
      { nodeName: 'n', containers: [container] },
      { metadata: { namespace: 'd', name: 'p', labels, ownerReferences }, status: { phase } },
    ),
  );
};
const claim = (spec: unknown) => of(persistentVolumeClaims, { resources: { requests: { storage: '1Gi' } }, ...(spec as object) });

testRows([
  {
    loop: attachDetach,
    does: 'has attached a volume',
    seed: (api) => attaching(api, 'n', { attached: true }),
    says: ['attachdetach-controller', 'Pod x', 'Normal', 'SuccessfulAttachVolume', 'AttachVolume.Attach succeeded for volume "v" '],
  },
  {
    loop: attachDetach,
    does: 'hears why a volume is not attached',
    seed: (api) => attaching(api, 'n', { attached: false, attachError: { message: 'no such disk' } }),
    says: ['attachdetach-controller', 'Pod x', 'Warning', 'FailedAttachVolume', 'AttachVolume.Attach failed for volume "v" : no such disk'],
  },
  {
    loop: attachDetach,
    does: 'finds a volume on another node',
    seed: (api) => attaching(api, 'other', { attached: true }),
    says: [
      'attachdetach-controller',
      'Pod x',
      'Warning',
      'FailedAttachVolume',
      'Multi-Attach error for volume "v" Volume is already exclusively attached to one node and can\'t be attached to another',
    ],
  },
  {
    loop: persistentVolume,
    does: 'waits for a consumer',
    seed: (api) => {
      api.seed(storageClasses, {
        apiVersion: 'storage.k8s.io/v1',
        kind: 'StorageClass',
        metadata: { name: 'late' },
        provisioner: 'x.io',
        volumeBindingMode: 'WaitForFirstConsumer',
      });
      api.seed(persistentVolumeClaims, claim({ storageClassName: 'late' }));
    },
    says: [
      'persistentvolume-controller',
      'PersistentVolumeClaim x',
      'Normal',
      'WaitForFirstConsumer',
      'waiting for first consumer to be created before binding',
    ],
  },
  {
    loop: persistentVolume,
    does: 'finds no class',
    seed: (api) => api.seed(persistentVolumeClaims, claim({ storageClassName: 'none' })),
    says: [
      'persistentvolume-controller',
      'PersistentVolumeClaim x',
      'Warning',
      'ProvisioningFailed',
      'storageclass.storage.k8s.io "none" not found',
    ],
  },
  {
    loop: deployment,
    does: 'scales a set down',
    seed: (api) => api.seed(deployments, of(deployments, { replicas: 3, selector, template })),
    next: ({ api }) => api.client().patch(deployments, { namespace: 'd', name: 'x' }, 'merge', { spec: { replicas: 1 } }),
    says: ['deployment-controller', 'Deployment x', 'Normal', 'ScalingReplicaSet', /^Scaled down replica set x-[a-z0-9]+ from 3 to 1$/],
  },
  {
    loop: statefulSet,
    does: 'removes a pod',
    seed: (api) => {
      api.seed(statefulSets, of(statefulSets, { replicas: 0, selector, template, serviceName: 's' }));
      const ownerReferences = [{ apiVersion: 'apps/v1', kind: 'StatefulSet', name: 'x', uid: meta.uid, controller: true }];
      api.seed(pods, of(pods, template.spec, { metadata: { namespace: 'd', name: 'x-0', labels, ownerReferences } }));
    },
    says: ['statefulset-controller', 'StatefulSet x', 'Normal', 'SuccessfulDelete', 'delete Pod x-0 in StatefulSet x successful'],
  },
  {
    loop: daemonSet,
    does: 'selects everything',
    seed: (api) => api.seed(daemonSets, of(daemonSets, { selector: {}, template })),
    says: [
      'daemonset-controller',
      'DaemonSet x',
      'Warning',
      'SelectingAll',
      'This daemon set is selecting all pods. A non-empty selector is required.',
    ],
  },
  {
    loop: daemonSet,
    does: 'replaces a pod that has failed',
    seed: onNode('Failed'),
    says: [
      'daemonset-controller',
      'DaemonSet x',
      'Warning',
      'FailedDaemonPod',
      'Found failed daemon pod d/p on node n, will try to kill it',
    ],
  },
  {
    loop: daemonSet,
    does: 'replaces a pod that has ended',
    seed: onNode('Succeeded'),
    says: [
      'daemonset-controller',
      'DaemonSet x',
      'Normal',
      'SucceededDaemonPod',
      'Found succeeded daemon pod d/p on node n, will try to delete it',
    ],
  },
  {
    loop: job,
    does: 'is done',
    seed: run({ completions: 1, parallelism: 1 }),
    next: endAll(0),
    says: ['job-controller', 'Job x', 'Normal', 'Completed', 'Job completed'],
  },
  {
    loop: job,
    does: 'has failed too often',
    seed: run({ completions: 1, parallelism: 1, backoffLimit: 0 }),
    next: endAll(1),
    says: ['job-controller', 'Job x', 'Warning', 'BackoffLimitExceeded', 'Job has reached the specified backoff limit'],
  },
  {
    loop: job,
    does: 'goes on',
    seed: run({ completions: 1, parallelism: 1, suspend: true }),
    next: async ({ api, clock }) => {
      await clock.settle();
      await api.client().patch(jobs, { namespace: 'd', name: 'x' }, 'merge', { spec: { suspend: false } });
    },
    says: ['job-controller', 'Job x', 'Normal', 'Resumed', 'Job resumed'],
  },
  {
    loop: cronJob,
    does: 'has missed more than a hundred starts',
    seed: (api) => api.seed(cronJobs, cron({}, { lastScheduleTime: '2025-12-31T22:00:00Z' })),
    says: [
      'cronjob-controller',
      'CronJob x',
      'Warning',
      'TooManyMissedTimes',
      'too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew',
    ],
  },
  {
    loop: cronJob,
    does: 'misses a job of its own',
    seed: (api) => api.seed(cronJobs, cron({ suspend: true }, { active: [ref('first')] })),
    says: ['cronjob-controller', 'CronJob x', 'Normal', 'MissingJob', 'Active job went missing: first'],
  },
  {
    loop: cronJob,
    does: 'is in a zone that is none',
    seed: (api) => api.seed(cronJobs, cron({ timeZone: 'Europe/Nowhere' })),
    says: [
      'cronjob-controller',
      'CronJob x',
      'Warning',
      'UnknownTimeZone',
      'invalid timeZone: "Europe/Nowhere": unknown time zone Europe/Nowhere',
    ],
  },
  {
    loop: cronJob,
    does: 'has its zone in its schedule',
    seed: (api) => api.seed(cronJobs, cron({ schedule: 'TZ=UTC 0 * * * *' })),
    says: [
      'cronjob-controller',
      'CronJob x',
      'Warning',
      'UnsupportedSchedule',
      'CRON_TZ or TZ used in schedule "TZ=UTC 0 * * * *" is not officially supported, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details',
    ],
  },
  {
    loop: cronJob,
    does: 'waits for the job before',
    seed: (api) => {
      api.seed(cronJobs, cron({ concurrencyPolicy: 'Forbid' }, { active: [ref('first')] }));
      api.seed(jobs, ofCron('first'));
    },
    after: 61_000,
    says: [
      'cronjob-controller',
      'CronJob x',
      'Normal',
      'JobAlreadyActive',
      'Not starting job because prior execution is running and concurrency policy is Forbid',
    ],
  },
  {
    loop: cronJob,
    does: 'sees a job end',
    seed: (api, clock) => {
      api.seed(cronJobs, cron({ suspend: true }, { active: [ref('first')] }));
      const condition = { type: 'Complete', status: 'True', lastTransitionTime: formatTime(clock.now()) };
      api.seed(jobs, ofCron('first', { conditions: [condition] }));
    },
    says: ['cronjob-controller', 'CronJob x', 'Normal', 'SawCompletedJob', 'Saw completed job: first, condition: Complete'],
  },
  {
    loop: cronJob,
    does: 'sees a job that it has not made',
    seed: (api) => {
      api.seed(cronJobs, cron({ suspend: true }));
      api.seed(jobs, ofCron('stray'));
    },
    says: ['cronjob-controller', 'CronJob x', 'Warning', 'UnexpectedJob', 'Saw a job that the controller did not create or forgot: stray'],
  },
  {
    loop: cronJob,
    does: 'replaces the job before',
    seed: (api) => {
      api.seed(cronJobs, cron({ concurrencyPolicy: 'Replace' }, { active: [ref('first')] }));
      api.seed(jobs, ofCron('first'));
    },
    after: 61_000,
    says: ['cronjob-controller', 'CronJob x', 'Normal', 'SuccessfulDelete', 'Deleted job first'],
  },
  {
    loop: disruption,
    does: 'finds nothing to look after',
    seed: (api) => api.seed(podDisruptionBudgets, of(podDisruptionBudgets, { minAvailable: 1, selector })),
    says: ['controllermanager', 'PodDisruptionBudget x', 'Normal', 'NoPods', 'No matching pods found'],
  },
  {
    loop: disruption,
    does: 'cannot count what a set should have',
    seed: (api) => {
      api.seed(podDisruptionBudgets, of(podDisruptionBudgets, { maxUnavailable: 1, selector }));
      const ownerReferences = [{ apiVersion: 'example.com/v1', kind: 'Widget', name: 'w', uid: 'w', controller: true }];
      api.seed(pods, of(pods, template.spec, { metadata: { namespace: 'd', name: 'p', labels, ownerReferences } }));
    },
    says: [
      'controllermanager',
      'PodDisruptionBudget x',
      'Warning',
      'CalculateExpectedPodCountFailed',
      /^Failed to calculate the number of expected pods: /,
    ],
  },
  {
    loop: nodeLifecycle,
    does: 'loses a node for good',
    seed: (api) => api.seed(nodes, node()),
    next: ({ api }) => api.remove(nodes, { name: 'n' }),
    says: ['node-controller', 'Node n', 'Normal', 'RemovingNode', 'Node n event: Removing Node n from Controller'],
  },
  {
    loop: nodeLifecycle,
    does: 'cannot vouch for a pod any more',
    seed: (api) => {
      api.seed(nodes, node([{ type: 'Ready', status: 'True' }]));
      const status = { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] };
      api.seed(pods, of(pods, { nodeName: 'n', containers: [container] }, { status }));
    },
    after: 60_000,
    says: ['node-controller', 'Pod x', 'Warning', 'NodeNotReady', 'Node is not ready'],
  },
  {
    loop: taintEviction,
    does: 'leaves a pod that it was to take',
    seed: (api) => {
      api.seed(nodes, node([], { taints: [{ key: 'k', effect: 'NoExecute' }] }));
      const tolerations = [{ key: 'k', operator: 'Exists', effect: 'NoExecute', tolerationSeconds: 60 }];
      api.seed(pods, of(pods, { nodeName: 'n', containers: [container], tolerations }));
    },
    next: async ({ api, clock }) => {
      await clock.settle();
      await api.client().patch(nodes, { name: 'n' }, 'merge', { spec: { taints: null } });
    },
    says: ['taint-eviction-controller', 'Pod x', 'Normal', 'TaintManagerEviction', 'Cancelling deletion of Pod d/x'],
  },
] satisfies readonly Row[]);
