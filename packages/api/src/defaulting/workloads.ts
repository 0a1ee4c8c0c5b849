import { own } from '../json.ts';
import { claim } from './core.ts';
import { labelsFromTemplate, podTemplate } from './pod.ts';
import { at, chain, defaults, each, is, objectAt, textAt, when, within, withField, type Rule } from './rule.ts';

const template: Rule = (spec) => withField(spec, 'template', podTemplate(objectAt(spec, 'template')));
const rolling = (rollingUpdate: Rule): Rule =>
  chain(defaults({ type: 'RollingUpdate' }), when(is('type', 'RollingUpdate'), within('rollingUpdate', rollingUpdate)));

const statefulSetStrategy: Rule = (strategy) => {
  const typed = textAt(strategy, 'type') === '' ? defaults({ rollingUpdate: {} })({ ...strategy, type: 'RollingUpdate' }) : strategy;
  return when(is('type', 'RollingUpdate'), at('rollingUpdate', defaults({ partition: 0, maxUnavailable: 1 })))(typed);
};
const claimTemplate = chain(claim, (value) => withField(withField(value, 'kind', 'PersistentVolumeClaim'), 'apiVersion', 'v1'));

const job: Rule = chain(
  defaults({
    completions: (spec) => (own(spec, 'parallelism') === undefined ? 1 : undefined),
    parallelism: 1,
    backoffLimit: (spec) => (own(spec, 'backoffLimitPerIndex') === undefined ? 6 : 2 ** 31 - 1),
    completionMode: 'NonIndexed',
    suspend: false,
    podReplacementPolicy: (spec) => (own(spec, 'podFailurePolicy') === undefined ? 'TerminatingOrFailed' : 'Failed'),
  }),
  at('podFailurePolicy', each('rules', each('onPodConditions', defaults({ status: 'True' })))),
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

export const workloadRules: Readonly<Record<string, Rule>> = {
  'apps/v1/Deployment': within(
    'spec',
    chain(
      defaults({ replicas: 1, revisionHistoryLimit: 10, progressDeadlineSeconds: 600 }),
      within('strategy', rolling(defaults({ maxUnavailable: '25%', maxSurge: '25%' }))),
      template,
    ),
  ),
  'apps/v1/ReplicaSet': within('spec', chain(defaults({ replicas: 1 }), template)),
  'apps/v1/DaemonSet': within(
    'spec',
    chain(
      defaults({ revisionHistoryLimit: 10 }),
      within('updateStrategy', rolling(defaults({ maxUnavailable: 1, maxSurge: 0 }))),
      template,
    ),
  ),
  'apps/v1/StatefulSet': within(
    'spec',
    chain(
      defaults({ podManagementPolicy: 'OrderedReady', replicas: 1, revisionHistoryLimit: 10 }),
      within('updateStrategy', statefulSetStrategy),
      within('persistentVolumeClaimRetentionPolicy', defaults({ whenDeleted: 'Retain', whenScaled: 'Retain' })),
      each('volumeClaimTemplates', claimTemplate),
      template,
    ),
  ),
  'batch/v1/Job': chain(labelsFromTemplate, within('spec', chain(job, template))),
  'batch/v1/CronJob': within(
    'spec',
    chain(
      defaults({ concurrencyPolicy: 'Allow', suspend: false, successfulJobsHistoryLimit: 3, failedJobsHistoryLimit: 1 }),
      within(
        'jobTemplate',
        within('spec', chain(at('podFailurePolicy', each('rules', each('onPodConditions', defaults({ status: 'True' })))), template)),
      ),
    ),
  ),
  'autoscaling/v1/HorizontalPodAutoscaler': within('spec', defaults({ minReplicas: 1 })),
  'autoscaling/v2/HorizontalPodAutoscaler': within(
    'spec',
    chain(
      defaults({ minReplicas: 1 }),
      (spec) =>
        Array.isArray(own(spec, 'metrics')) && (spec['metrics'] as unknown[]).length > 0 ? spec : { ...spec, metrics: cpuUtilization },
      at('behavior', chain(within('scaleUp', scaleUp), within('scaleDown', scaleDown))),
    ),
  ),
};
