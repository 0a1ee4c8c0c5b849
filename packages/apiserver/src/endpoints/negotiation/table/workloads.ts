import { controllerOf } from '@oarlock/api/object';
import type { ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet } from '@oarlock/api/types/apps-v1';
import type { Scale } from '@oarlock/api/types/autoscaling-v1';
import type { HorizontalPodAutoscaler } from '@oarlock/api/types/autoscaling-v2';
import type { CronJob, Job } from '@oarlock/api/types/batch-v1';
import type { PodTemplate, ReplicationController } from '@oarlock/api/types/core-v1';
import type { PodDisruptionBudget } from '@oarlock/api/types/policy-v1';
import { ageOf, containerCells, hasCondition, labelsText, nameOf, none, selectorText, unset } from './cells.ts';
import { humanDuration, since } from './duration.ts';
import { columnsOf, type Printer } from './printer.ts';

const containers = [
  { name: 'Containers', wide: true, description: 'The container names of the template.' },
  { name: 'Images', wide: true, description: 'The container images of the template.' },
];
const selector = { name: 'Selector', wide: true, description: 'The label selector of the pods.' };
const count = (name: string, description: string) => ({ name, type: 'integer' as const, description });

export const deploymentPrinter: Printer<Deployment> = {
  columns: columnsOf(
    'Name',
    { name: 'Ready', description: 'The numbers of ready and desired pods.' },
    { name: 'Up-to-date', description: 'The number of pods of the current template.' },
    { name: 'Available', description: 'The number of available pods.' },
    'Age',
    ...containers,
    selector,
  ),
  cells: (object, now) => [
    nameOf(object),
    `${object.status?.readyReplicas ?? 0}/${object.spec?.replicas ?? 0}`,
    object.status?.updatedReplicas ?? 0,
    object.status?.availableReplicas ?? 0,
    ageOf(object, now),
    ...containerCells(object.spec?.template),
    selectorText(object.spec?.selector),
  ],
};

const replicaColumns = columnsOf(
  'Name',
  count('Desired', 'The desired number of pods.'),
  count('Current', 'The current number of pods.'),
  count('Ready', 'The number of ready pods.'),
  'Age',
  ...containers,
  selector,
);
export const replicaSetPrinter: Printer<ReplicaSet> = {
  columns: replicaColumns,
  cells: (object, now) => [
    nameOf(object),
    object.spec?.replicas ?? 0,
    object.status?.replicas ?? 0,
    object.status?.readyReplicas ?? 0,
    ageOf(object, now),
    ...containerCells(object.spec?.template),
    selectorText(object.spec?.selector),
  ],
};
export const replicationControllerPrinter: Printer<ReplicationController> = {
  columns: replicaColumns,
  cells: (object, now) => [
    nameOf(object),
    object.spec?.replicas ?? 0,
    object.status?.replicas ?? 0,
    object.status?.readyReplicas ?? 0,
    ageOf(object, now),
    ...containerCells(object.spec?.template),
    labelsText(object.spec?.selector),
  ],
};

export const daemonSetPrinter: Printer<DaemonSet> = {
  columns: columnsOf(
    'Name',
    count('Desired', 'The number of nodes that should run the pod.'),
    count('Current', 'The number of nodes that run the pod and should.'),
    count('Ready', 'The number of ready pods.'),
    count('Up-to-date', 'The number of pods of the current template.'),
    count('Available', 'The number of available pods.'),
    { name: 'Node Selector', description: 'The node selector of the pods.' },
    'Age',
    ...containers,
    selector,
  ),
  cells: (object, now) => [
    nameOf(object),
    object.status?.desiredNumberScheduled ?? 0,
    object.status?.currentNumberScheduled ?? 0,
    object.status?.numberReady ?? 0,
    object.status?.updatedNumberScheduled ?? 0,
    object.status?.numberAvailable ?? 0,
    labelsText(object.spec?.template?.spec?.nodeSelector),
    ageOf(object, now),
    ...containerCells(object.spec?.template),
    selectorText(object.spec?.selector),
  ],
};

export const statefulSetPrinter: Printer<StatefulSet> = {
  columns: columnsOf('Name', { name: 'Ready', description: 'The numbers of ready and desired pods.' }, 'Age', ...containers),
  cells: (object, now) => [
    nameOf(object),
    `${object.status?.readyReplicas ?? 0}/${object.spec?.replicas ?? 0}`,
    ageOf(object, now),
    ...containerCells(object.spec?.template),
  ],
};

export const controllerRevisionPrinter: Printer<ControllerRevision> = {
  columns: columnsOf(
    'Name',
    { name: 'Controller', description: 'The controller that owns the revision.' },
    { name: 'Revision', description: 'The number of the revision; increases with each change.' },
    'Age',
  ),
  cells(object, now) {
    const owner = controllerOf(object);
    const [group] = (owner?.apiVersion ?? '').split('/');
    return [
      nameOf(object),
      owner === undefined ? none : `${owner.kind.toLowerCase()}${owner.apiVersion.includes('/') ? `.${group}` : ''}/${owner.name}`,
      object.revision ?? 0,
      ageOf(object, now),
    ];
  },
};

const jobStates = [
  ['Complete', 'Complete'],
  ['Failed', 'Failed'],
  ['', 'Terminating'],
  ['Suspended', 'Suspended'],
  ['FailureTarget', 'FailureTarget'],
  ['SuccessCriteriaMet', 'SuccessCriteriaMet'],
] as const;
function jobState(job: Job): string {
  return (
    jobStates.find(([type]) =>
      type === '' ? Boolean(job.metadata?.deletionTimestamp) : hasCondition(job.status?.conditions, type),
    )?.[1] ?? 'Running'
  );
}
function completions({ spec, status }: Job): string {
  const succeeded = status?.succeeded ?? 0;
  if (spec?.completions !== undefined) return `${succeeded}/${spec.completions}`;
  return (spec?.parallelism ?? 0) > 1 ? `${succeeded}/1 of ${spec?.parallelism}` : `${succeeded}/1`;
}
export const jobPrinter: Printer<Job> = {
  columns: columnsOf(
    'Name',
    { name: 'Status', description: 'The state of the job.' },
    { name: 'Completions', description: 'The numbers of succeeded and required pods.' },
    { name: 'Duration', description: 'The time that the job has taken.' },
    'Age',
    ...containers,
    selector,
  ),
  cells(job, now) {
    const { startTime, completionTime } = job.status ?? {};
    const took = !startTime
      ? ''
      : completionTime
        ? humanDuration(Date.parse(completionTime) - Date.parse(startTime))
        : since(startTime, now);
    return [
      nameOf(job),
      jobState(job),
      completions(job),
      took,
      ageOf(job, now),
      ...containerCells(job.spec?.template),
      selectorText(job.spec?.selector),
    ];
  },
};

export const cronJobPrinter: Printer<CronJob> = {
  columns: columnsOf(
    'Name',
    { name: 'Schedule', description: 'The cron schedule.' },
    { name: 'Timezone', description: 'The time zone of the schedule.' },
    { name: 'Suspend', type: 'boolean', description: 'True if the schedule is suspended.' },
    count('Active', 'The number of running jobs.'),
    { name: 'Last Schedule', description: 'The time since the last schedule.' },
    'Age',
    ...containers,
    selector,
  ),
  cells(object, now) {
    const { spec, status } = object;
    return [
      nameOf(object),
      spec?.schedule ?? '',
      spec?.timeZone ?? none,
      spec?.suspend === undefined ? unset : spec.suspend ? 'True' : 'False',
      status?.active?.length ?? 0,
      status?.lastScheduleTime ? since(status.lastScheduleTime, now) : none,
      ageOf(object, now),
      ...containerCells(spec?.jobTemplate?.spec?.template),
      selectorText(spec?.jobTemplate?.spec?.selector),
    ];
  },
};

export const podTemplatePrinter: Printer<PodTemplate> = {
  columns: columnsOf(
    'Name',
    { name: 'Containers', description: 'The container names.' },
    { name: 'Images', description: 'The container images.' },
    { name: 'Pod Labels', description: 'The labels of the pods.' },
  ),
  cells: (object) => [nameOf(object), ...containerCells(object.template), labelsText(object.template?.metadata?.labels)],
};

export const disruptionBudgetPrinter: Printer<PodDisruptionBudget> = {
  columns: columnsOf(
    'Name',
    { name: 'Min Available', description: 'The minimum number of available pods.' },
    { name: 'Max Unavailable', description: 'The maximum number of unavailable pods.' },
    count('Allowed Disruptions', 'The number of pods that may be evicted now.'),
    'Age',
  ),
  cells: (object, now) => [
    nameOf(object),
    String(object.spec?.minAvailable ?? 'N/A'),
    String(object.spec?.maxUnavailable ?? 'N/A'),
    object.status?.disruptionsAllowed ?? 0,
    ageOf(object, now),
  ],
};

/** Prints autoscalers of v1 and v2, which differ only in the fields of their targets. */
export const autoscalerPrinter: Printer<HorizontalPodAutoscaler> = {
  columns: columnsOf(
    'Name',
    { name: 'Reference', description: 'The scaled object.' },
    { name: 'Targets', description: 'The current and the target value of each metric.' },
    { name: 'MinPods', description: 'The minimum number of pods.' },
    { name: 'MaxPods', description: 'The maximum number of pods.' },
    { name: 'Replicas', description: 'The current number of pods.' },
    'Age',
  ),
  cells(object, now) {
    const { spec, status } = object;
    return [
      nameOf(object),
      `${spec?.scaleTargetRef?.kind ?? ''}/${spec?.scaleTargetRef?.name ?? ''}`,
      targets(object),
      String(spec?.minReplicas ?? unset),
      spec?.maxReplicas ?? 0,
      status?.currentReplicas ?? 0,
      ageOf(object, now),
    ];
  },
};

interface CpuOnly {
  readonly spec?: { readonly targetCPUUtilizationPercentage?: number };
  readonly status?: { readonly currentCPUUtilizationPercentage?: number };
}
function targets(object: HorizontalPodAutoscaler): string {
  const v1 = object as CpuOnly;
  if (v1.spec?.targetCPUUtilizationPercentage !== undefined) {
    const current = v1.status?.currentCPUUtilizationPercentage;
    return `cpu: ${current === undefined ? '<unknown>' : `${current}%`}/${v1.spec.targetCPUUtilizationPercentage}%`;
  }
  const metrics = object.spec?.metrics ?? [];
  const texts = metrics.map((metric, index) => {
    const source = metric.resource ?? metric.containerResource;
    const wanted = (source ?? metric.pods ?? metric.object ?? metric.external)?.target;
    const measured = object.status?.currentMetrics?.[index];
    const current = (measured?.resource ?? measured?.containerResource ?? measured?.pods ?? measured?.object ?? measured?.external)
      ?.current;
    const prefix = source === undefined ? '' : `${source.name}: `;
    if (wanted?.averageUtilization !== undefined)
      return `${prefix}${current?.averageUtilization === undefined ? '<unknown>' : `${current.averageUtilization}%`}/${wanted.averageUtilization}%`;
    if (wanted?.averageValue !== undefined)
      return `${prefix}${current?.averageValue ?? '<unknown>'}/${wanted.averageValue}${source === undefined && metric.pods === undefined ? ' (avg)' : ''}`;
    return `${prefix}${current?.value ?? '<unknown>'}/${wanted?.value ?? '<auto>'}`;
  });
  if (texts.length === 0) return none;
  return texts.length > 2 ? `${texts.slice(0, 2).join(', ')} + ${texts.length - 2} more...` : texts.join(', ');
}

/** Prints the Scale that the scale subresource of any kind returns. */
export const scalePrinter: Printer = {
  columns: columnsOf(
    { name: 'Name', format: '' },
    { name: 'Desired', type: 'integer', description: 'The desired number of pods.' },
    { name: 'Available', type: 'integer', description: 'The current number of pods.' },
    'Age',
  ),
  cells(object, now) {
    const { spec, status } = object as Scale;
    return [nameOf(object), spec?.replicas ?? 0, status?.replicas ?? 0, ageOf(object, now)];
  },
};
