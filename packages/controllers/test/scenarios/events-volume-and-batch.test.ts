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
import { formatTime } from '@oarlock/api/values/time';
import type { CronJob } from '@oarlock/api/types/batch-v1';
import attachDetach, { attachmentName } from '@oarlock/controllers/volume/attach-detach/attach-detach-controller';
import cronJob from '@oarlock/controllers/batch/cron-job/cron-job-controller';
import daemonSet from '@oarlock/controllers/apps/daemon-set/daemon-set-controller';
import deployment from '@oarlock/controllers/apps/deployment/deployment-controller';
import disruption from '@oarlock/controllers/apps/disruption/disruption-controller';
import job from '@oarlock/controllers/batch/job/job-controller';
import nodeLifecycle from '@oarlock/controllers/node/node-lifecycle/node-lifecycle-controller';
import persistentVolume from '@oarlock/controllers/volume/persistent-volume/persistent-volume-controller';
import statefulSet from '@oarlock/controllers/apps/stateful-set/stateful-set-controller';
import taintEviction from '@oarlock/controllers/node/taint-eviction/taint-eviction-controller';
import type { MemoryApi } from '@oarlock/testing/memory-api';
import { setPodTerminated } from '@oarlock/testing/simulated-pods';
import type { RunningControllers } from '../support/running-controllers.ts';
import { container, labels, meta, node, newObject, once, selector, template, testEventRows, type EventRow } from '../support/event-rows.ts';

const volume = newObject(
  persistentVolumes,
  { accessModes: ['ReadWriteOnce'], csi: { driver: 'x.io', volumeHandle: 'h' }, claimRef: { namespace: 'd', name: 'data' } },
  { metadata: { name: 'v' }, status: { phase: 'Bound' } },
);
const user = newObject(pods, {
  nodeName: 'n',
  containers: [container],
  volumes: [{ name: 'v', persistentVolumeClaim: { claimName: 'data' } }],
});
/** A pod on node n that uses a CSI volume, and its attachments. */
const attaching = (api: MemoryApi, on: string | undefined, status?: unknown) => {
  api.seed(csiDrivers, newObject(csiDrivers, { attachRequired: true }, { metadata: { name: 'x.io' } }));
  api.seed(nodes, node());
  api.seed(persistentVolumes, volume);
  api.seed(
    persistentVolumeClaims,
    newObject(persistentVolumeClaims, { volumeName: 'v' }, { metadata: { namespace: 'd', name: 'data' }, status: { phase: 'Bound' } }),
  );
  api.seed(pods, user);
  if (on !== undefined)
    api.seed(
      volumeAttachments,
      newObject(
        volumeAttachments,
        { attacher: 'x.io', nodeName: on, source: { persistentVolumeName: 'v' } },
        { metadata: { name: attachmentName(volume, on) }, status },
      ),
    );
};

const cron = (more: Partial<CronJob['spec']> = {}, status: unknown = {}, created = '2026-01-01T00:00:00Z') =>
  newObject(
    cronJobs,
    { schedule: '* * * * *', jobTemplate: { spec: { template: once } }, ...more },
    { metadata: { ...meta, creationTimestamp: created }, status },
  );
const ref = (name: string) => ({ apiVersion: 'batch/v1', kind: 'Job', namespace: 'd', name, uid: `uid-of-${name}` });
const ofCron = (name: string, status: unknown = {}) =>
  newObject(
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

const run = (spec: unknown) => (api: MemoryApi) => void api.seed(jobs, newObject(jobs, { selector, template: once, ...(spec as object) }));
const endAll =
  (code: number) =>
  async ({ api, clock }: RunningControllers) => {
    await clock.settle();
    for (const pod of api.objects(pods, 'd')) await setPodTerminated(api, { pod, exitCode: code, at: clock.now() });
  };
const onNode = (phase: string) => (api: MemoryApi) => {
  api.seed(nodes, node());
  api.seed(daemonSets, newObject(daemonSets, { selector, template }));
  const ownerReferences = [{ apiVersion: 'apps/v1', kind: 'DaemonSet', name: 'x', uid: meta.uid, controller: true }];
  api.seed(
    pods,
    newObject(
      pods,
      { nodeName: 'n', containers: [container] },
      { metadata: { namespace: 'd', name: 'p', labels, ownerReferences }, status: { phase } },
    ),
  );
};
const claim = (spec: unknown) => newObject(persistentVolumeClaims, { resources: { requests: { storage: '1Gi' } }, ...(spec as object) });

testEventRows([
  {
    controller: attachDetach,
    scenario: 'after attaching a volume',
    seed: (api) => attaching(api, 'n', { attached: true }),
    expected: ['attachdetach-controller', 'Pod x', 'Normal', 'SuccessfulAttachVolume', 'AttachVolume.Attach succeeded for volume "v" '],
  },
  {
    controller: attachDetach,
    scenario: 'if the attachment of a volume fails',
    seed: (api) => attaching(api, 'n', { attached: false, attachError: { message: 'no such disk' } }),
    expected: [
      'attachdetach-controller',
      'Pod x',
      'Warning',
      'FailedAttachVolume',
      'AttachVolume.Attach failed for volume "v" : no such disk',
    ],
  },
  {
    controller: attachDetach,
    scenario: 'if a volume is attached to another node',
    seed: (api) => {
      // a node that reports the volume in use: otherwise it may be detached before node n is reconciled
      const status = { volumesInUse: [`kubernetes.io/csi/${volume.spec?.csi?.driver}^${volume.spec?.csi?.volumeHandle}`] };
      api.seed(nodes, newObject(nodes, {}, { metadata: { name: 'other' }, status }));
      attaching(api, 'other', { attached: true });
    },
    expected: [
      'attachdetach-controller',
      'Pod x',
      'Warning',
      'FailedAttachVolume',
      'Multi-Attach error for volume "v" Volume is already exclusively attached to one node and can\'t be attached to another',
    ],
  },
  {
    controller: persistentVolume,
    scenario: 'while it waits for the first consumer',
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
    expected: [
      'persistentvolume-controller',
      'PersistentVolumeClaim x',
      'Normal',
      'WaitForFirstConsumer',
      'waiting for first consumer to be created before binding',
    ],
  },
  {
    controller: persistentVolume,
    scenario: 'if the storage class does not exist',
    seed: (api) => api.seed(persistentVolumeClaims, claim({ storageClassName: 'none' })),
    expected: [
      'persistentvolume-controller',
      'PersistentVolumeClaim x',
      'Warning',
      'ProvisioningFailed',
      'storageclass.storage.k8s.io "none" not found',
    ],
  },
  {
    controller: deployment,
    scenario: 'when it scales a ReplicaSet down',
    seed: (api) => api.seed(deployments, newObject(deployments, { replicas: 3, selector, template })),
    next: ({ api }) => api.client().patch(deployments, { namespace: 'd', name: 'x' }, 'merge', { spec: { replicas: 1 } }),
    expected: ['deployment-controller', 'Deployment x', 'Normal', 'ScalingReplicaSet', /^Scaled down replica set x-[a-z0-9]+ from 3 to 1$/],
  },
  {
    controller: statefulSet,
    scenario: 'when it deletes a pod',
    seed: (api) => {
      api.seed(statefulSets, newObject(statefulSets, { replicas: 0, selector, template, serviceName: 's' }));
      const ownerReferences = [{ apiVersion: 'apps/v1', kind: 'StatefulSet', name: 'x', uid: meta.uid, controller: true }];
      api.seed(pods, newObject(pods, template.spec, { metadata: { namespace: 'd', name: 'x-0', labels, ownerReferences } }));
    },
    expected: ['statefulset-controller', 'StatefulSet x', 'Normal', 'SuccessfulDelete', 'delete Pod x-0 in StatefulSet x successful'],
  },
  {
    controller: daemonSet,
    scenario: 'if the selector is empty',
    seed: (api) => api.seed(daemonSets, newObject(daemonSets, { selector: {}, template })),
    expected: [
      'daemonset-controller',
      'DaemonSet x',
      'Warning',
      'SelectingAll',
      'This daemon set is selecting all pods. A non-empty selector is required.',
    ],
  },
  {
    controller: daemonSet,
    scenario: 'when it replaces a failed pod',
    seed: onNode('Failed'),
    expected: [
      'daemonset-controller',
      'DaemonSet x',
      'Warning',
      'FailedDaemonPod',
      'Found failed daemon pod d/p on node n, will try to kill it',
    ],
  },
  {
    controller: daemonSet,
    scenario: 'when it replaces a succeeded pod',
    seed: onNode('Succeeded'),
    expected: [
      'daemonset-controller',
      'DaemonSet x',
      'Normal',
      'SucceededDaemonPod',
      'Found succeeded daemon pod d/p on node n, will try to delete it',
    ],
  },
  {
    controller: job,
    scenario: 'when the Job completes',
    seed: run({ completions: 1, parallelism: 1 }),
    next: endAll(0),
    expected: ['job-controller', 'Job x', 'Normal', 'Completed', 'Job completed'],
  },
  {
    controller: job,
    scenario: 'when the backoff limit is reached',
    seed: run({ completions: 1, parallelism: 1, backoffLimit: 0 }),
    next: endAll(1),
    expected: ['job-controller', 'Job x', 'Warning', 'BackoffLimitExceeded', 'Job has reached the specified backoff limit'],
  },
  {
    controller: job,
    scenario: 'when the Job is resumed',
    seed: run({ completions: 1, parallelism: 1, suspend: true }),
    next: async ({ api, clock }) => {
      await clock.settle();
      await api.client().patch(jobs, { namespace: 'd', name: 'x' }, 'merge', { spec: { suspend: false } });
    },
    expected: ['job-controller', 'Job x', 'Normal', 'Resumed', 'Job resumed'],
  },
  {
    controller: cronJob,
    scenario: 'after more than a hundred missed runs',
    seed: (api) => api.seed(cronJobs, cron({}, { lastScheduleTime: '2025-12-31T22:00:00Z' })),
    expected: [
      'cronjob-controller',
      'CronJob x',
      'Warning',
      'TooManyMissedTimes',
      'too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew',
    ],
  },
  {
    controller: cronJob,
    scenario: 'if an active Job is missing',
    seed: (api) => api.seed(cronJobs, cron({ suspend: true }, { active: [ref('first')] })),
    expected: ['cronjob-controller', 'CronJob x', 'Normal', 'MissingJob', 'Active job went missing: first'],
  },
  {
    controller: cronJob,
    scenario: 'for an unknown time zone',
    seed: (api) => api.seed(cronJobs, cron({ timeZone: 'Europe/Nowhere' })),
    expected: [
      'cronjob-controller',
      'CronJob x',
      'Warning',
      'UnknownTimeZone',
      'invalid timeZone: "Europe/Nowhere": unknown time zone Europe/Nowhere',
    ],
  },
  {
    controller: cronJob,
    scenario: 'for a time zone in the schedule',
    seed: (api) => api.seed(cronJobs, cron({ schedule: 'TZ=UTC 0 * * * *' })),
    expected: [
      'cronjob-controller',
      'CronJob x',
      'Warning',
      'UnsupportedSchedule',
      'CRON_TZ or TZ used in schedule "TZ=UTC 0 * * * *" is not officially supported, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details',
    ],
  },
  {
    controller: cronJob,
    scenario: 'while the previous Job runs with Forbid',
    seed: (api) => {
      api.seed(cronJobs, cron({ concurrencyPolicy: 'Forbid' }, { active: [ref('first')] }));
      api.seed(jobs, ofCron('first'));
    },
    after: 61_000,
    expected: [
      'cronjob-controller',
      'CronJob x',
      'Normal',
      'JobAlreadyActive',
      'Not starting job because prior execution is running and concurrency policy is Forbid',
    ],
  },
  {
    controller: cronJob,
    scenario: 'when a Job finishes',
    seed: (api, clock) => {
      api.seed(cronJobs, cron({ suspend: true }, { active: [ref('first')] }));
      const condition = { type: 'Complete', status: 'True', lastTransitionTime: formatTime(clock.now()) };
      api.seed(jobs, ofCron('first', { conditions: [condition] }));
    },
    expected: ['cronjob-controller', 'CronJob x', 'Normal', 'SawCompletedJob', 'Saw completed job: first, condition: Complete'],
  },
  {
    controller: cronJob,
    scenario: 'for a Job that it did not create',
    seed: (api) => {
      api.seed(cronJobs, cron({ suspend: true }));
      api.seed(jobs, ofCron('stray'));
    },
    expected: [
      'cronjob-controller',
      'CronJob x',
      'Warning',
      'UnexpectedJob',
      'Saw a job that the controller did not create or forgot: stray',
    ],
  },
  {
    controller: cronJob,
    scenario: 'when it replaces the previous Job',
    seed: (api) => {
      api.seed(cronJobs, cron({ concurrencyPolicy: 'Replace' }, { active: [ref('first')] }));
      api.seed(jobs, ofCron('first'));
    },
    after: 61_000,
    expected: ['cronjob-controller', 'CronJob x', 'Normal', 'SuccessfulDelete', 'Deleted job first'],
  },
  {
    controller: disruption,
    scenario: 'without matching pods',
    seed: (api) => api.seed(podDisruptionBudgets, newObject(podDisruptionBudgets, { minAvailable: 1, selector })),
    expected: ['controllermanager', 'PodDisruptionBudget x', 'Normal', 'NoPods', 'No matching pods found'],
  },
  {
    controller: disruption,
    scenario: 'if the scale of an owner cannot be read',
    seed: (api) => {
      api.seed(podDisruptionBudgets, newObject(podDisruptionBudgets, { maxUnavailable: 1, selector }));
      const ownerReferences = [{ apiVersion: 'example.com/v1', kind: 'Widget', name: 'w', uid: 'w', controller: true }];
      api.seed(pods, newObject(pods, template.spec, { metadata: { namespace: 'd', name: 'p', labels, ownerReferences } }));
    },
    expected: [
      'controllermanager',
      'PodDisruptionBudget x',
      'Warning',
      'CalculateExpectedPodCountFailed',
      /^Failed to calculate the number of expected pods: /,
    ],
  },
  {
    controller: nodeLifecycle,
    scenario: 'when a node is deleted',
    seed: (api) => api.seed(nodes, node()),
    next: ({ api }) => api.remove(nodes, { name: 'n' }),
    expected: ['node-controller', 'Node n', 'Normal', 'RemovingNode', 'Node n event: Removing Node n from Controller'],
  },
  {
    controller: nodeLifecycle,
    scenario: 'when a node becomes unreachable',
    seed: (api) => {
      api.seed(nodes, node([{ type: 'Ready', status: 'True' }]));
      const status = { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] };
      api.seed(pods, newObject(pods, { nodeName: 'n', containers: [container] }, { status }));
    },
    after: 60_000,
    expected: ['node-controller', 'Pod x', 'Warning', 'NodeNotReady', 'Node is not ready'],
  },
  {
    controller: taintEviction,
    scenario: 'when the taint is removed before the eviction',
    seed: (api) => {
      api.seed(nodes, node([], { taints: [{ key: 'k', effect: 'NoExecute' }] }));
      const tolerations = [{ key: 'k', operator: 'Exists', effect: 'NoExecute', tolerationSeconds: 60 }];
      api.seed(pods, newObject(pods, { nodeName: 'n', containers: [container], tolerations }));
    },
    next: async ({ api, clock }) => {
      await clock.settle();
      await api.client().patch(nodes, { name: 'n' }, 'merge', { spec: { taints: null } });
    },
    expected: ['taint-eviction-controller', 'Pod x', 'Normal', 'TaintManagerEviction', 'Cancelling deletion of Pod d/x'],
  },
] satisfies readonly EventRow[]);
