import { own } from '../json/json.ts';
import { claim } from './core.ts';
import { labelsFromTemplate, podTemplate } from './pod.ts';
import {
  atField,
  chain,
  defaults,
  forEachItem,
  fieldEquals,
  objectAt,
  textAt,
  when,
  atStruct,
  withField,
  type DefaultingRule,
} from './defaulting-rule.ts';

const template: DefaultingRule = (spec) => withField(spec, 'template', podTemplate(objectAt(spec, 'template')));
const rolling = (rollingUpdate: DefaultingRule): DefaultingRule =>
  chain(defaults({ type: 'RollingUpdate' }), when(fieldEquals('type', 'RollingUpdate'), atStruct('rollingUpdate', rollingUpdate)));

const statefulSetStrategy: DefaultingRule = (strategy) => {
  const typed = textAt(strategy, 'type') === '' ? defaults({ rollingUpdate: {} })({ ...strategy, type: 'RollingUpdate' }) : strategy;
  return when(fieldEquals('type', 'RollingUpdate'), atField('rollingUpdate', defaults({ partition: 0 })))(typed);
};
const claimTemplate = chain(claim, (value) => withField(withField(value, 'kind', 'PersistentVolumeClaim'), 'apiVersion', 'v1'));

const job: DefaultingRule = chain(
  defaults({
    completions: (spec) => (own(spec, 'parallelism') === undefined ? 1 : undefined),
    parallelism: 1,
    backoffLimit: (spec) => (own(spec, 'backoffLimitPerIndex') === undefined ? 6 : 2 ** 31 - 1),
    completionMode: 'NonIndexed',
    suspend: false,
    podReplacementPolicy: (spec) => (own(spec, 'podFailurePolicy') === undefined ? 'TerminatingOrFailed' : 'Failed'),
    manualSelector: false,
  }),
  atField('podFailurePolicy', forEachItem('rules', forEachItem('onPodConditions', defaults({ status: 'True' })))),
);

const scaleUp = defaults({
  stabilizationWindowSeconds: 0,
  selectPolicy: 'Max',
  policies: [
    { type: 'Pods', value: 4, periodSeconds: 15 },
    { type: 'Percent', value: 100, periodSeconds: 15 },
  ],
});
const scaleDown = defaults({ selectPolicy: 'Max', policies: [{ type: 'Percent', value: 100, periodSeconds: 15 }] });
const cpuUtilization = [{ type: 'Resource', resource: { name: 'cpu', target: { type: 'Utilization', averageUtilization: 80 } } }];

export const workloadRules: Readonly<Record<string, DefaultingRule>> = {
  'apps/v1/Deployment': atStruct(
    'spec',
    chain(
      defaults({ replicas: 1, revisionHistoryLimit: 10, progressDeadlineSeconds: 600 }),
      atStruct('strategy', rolling(defaults({ maxUnavailable: '25%', maxSurge: '25%' }))),
      template,
    ),
  ),
  'apps/v1/ReplicaSet': atStruct('spec', chain(defaults({ replicas: 1 }), template)),
  'apps/v1/DaemonSet': atStruct(
    'spec',
    chain(
      defaults({ revisionHistoryLimit: 10 }),
      atStruct('updateStrategy', rolling(defaults({ maxUnavailable: 1, maxSurge: 0 }))),
      template,
    ),
  ),
  'apps/v1/StatefulSet': atStruct(
    'spec',
    chain(
      defaults({ podManagementPolicy: 'OrderedReady', replicas: 1, revisionHistoryLimit: 10 }),
      atStruct('updateStrategy', statefulSetStrategy),
      atStruct('persistentVolumeClaimRetentionPolicy', defaults({ whenDeleted: 'Retain', whenScaled: 'Retain' })),
      forEachItem('volumeClaimTemplates', claimTemplate),
      template,
    ),
  ),
  'batch/v1/Job': chain(labelsFromTemplate, atStruct('spec', chain(job, template))),
  'batch/v1/CronJob': atStruct(
    'spec',
    chain(
      defaults({ concurrencyPolicy: 'Allow', suspend: false, successfulJobsHistoryLimit: 3, failedJobsHistoryLimit: 1 }),
      atStruct(
        'jobTemplate',
        atStruct(
          'spec',
          chain(atField('podFailurePolicy', forEachItem('rules', forEachItem('onPodConditions', defaults({ status: 'True' })))), template),
        ),
      ),
    ),
  ),
  'autoscaling/v1/HorizontalPodAutoscaler': atStruct('spec', defaults({ minReplicas: 1 })),
  'autoscaling/v2/HorizontalPodAutoscaler': atStruct(
    'spec',
    chain(
      defaults({ minReplicas: 1 }),
      (spec) =>
        Array.isArray(own(spec, 'metrics')) && (spec['metrics'] as unknown[]).length > 0 ? spec : { ...spec, metrics: cpuUtilization },
      atField('behavior', chain(atStruct('scaleUp', scaleUp), atStruct('scaleDown', scaleDown))),
    ),
  ),
};
