import type { ValidationRule } from '../rule-samples.ts';

/** Rules of workloads and autoscalers. */
export const workloadRules: readonly ValidationRule[] = [
  {
    rule: 'batch.validateJobSpec: negative counts',
    kind: 'Job',
    fields: { spec: { parallelism: -1, completions: -1, activeDeadlineSeconds: -1, backoffLimit: -1, ttlSecondsAfterFinished: -1 } },
    errors: [
      'spec.parallelism: Invalid value: -1: must be greater than or equal to 0',
      'spec.completions: Invalid value: -1: must be greater than or equal to 0',
      'spec.activeDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0',
      'spec.backoffLimit: Invalid value: -1: must be greater than or equal to 0',
      'spec.ttlSecondsAfterFinished: Invalid value: -1: must be greater than or equal to 0',
    ],
  },
  {
    rule: 'batch.validateJobSpec: a limit per index of a job without indexes',
    kind: 'Job',
    fields: { spec: { backoffLimitPerIndex: 1 } },
    errors: ['spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode'],
  },
  {
    rule: 'batch.validateJobSpec: failed indexes of a job without indexes',
    kind: 'Job',
    fields: { spec: { maxFailedIndexes: 1 } },
    errors: [
      'spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified',
      'spec.maxFailedIndexes: Invalid value: 1: requires indexed completion mode',
    ],
  },
  {
    rule: 'batch.validateJobSpec: more failed indexes than completions',
    kind: 'Job',
    fields: { spec: { completionMode: 'Indexed', completions: 2, backoffLimitPerIndex: 1, maxFailedIndexes: 3 } },
    errors: ['spec.maxFailedIndexes: Invalid value: 3: must be less than or equal to completions'],
  },
  {
    rule: 'batch.validateJobSpec: failed indexes without a limit per index',
    kind: 'Job',
    fields: { spec: { completionMode: 'Indexed', completions: 2, maxFailedIndexes: 1 } },
    errors: ['spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified'],
  },
  {
    rule: 'batch.validateJobSpec: too many failed indexes',
    kind: 'Job',
    fields: { spec: { completionMode: 'Indexed', completions: 100000, backoffLimitPerIndex: 1, maxFailedIndexes: 100001 } },
    errors: [
      'spec.maxFailedIndexes: Invalid value: 100001: must be less than or equal to completions',
      'spec.maxFailedIndexes: Invalid value: 100001: must be less than or equal to 100000',
    ],
  },
  {
    rule: 'batch.validateJobSpec: many completions need a limit of failed indexes',
    kind: 'Job',
    fields: { spec: { completionMode: 'Indexed', completions: 100001, backoffLimitPerIndex: 1 } },
    errors: ['spec.maxFailedIndexes: Required value: must be specified when completions is above 100000'],
  },
  {
    rule: 'batch.validateJobSpec: many completions and failed indexes',
    kind: 'Job',
    fields: { spec: { completionMode: 'Indexed', completions: 100001, backoffLimitPerIndex: 1, maxFailedIndexes: 10001 } },
    errors: [
      'spec.maxFailedIndexes: Invalid value: 10001: must be less than or equal to 10000 when completions are above 100000 and used with backoff limit per ind…',
    ],
  },
  {
    rule: 'batch.validateJobSpec: many completions and pods at once',
    kind: 'Job',
    fields: { spec: { completionMode: 'Indexed', completions: 100001, backoffLimitPerIndex: 1, maxFailedIndexes: 1, parallelism: 10001 } },
    errors: [
      'spec.parallelism: Invalid value: 10001: must be less than or equal to 10000 when completions are above 100000 and used with backoff limit per index',
    ],
  },
  {
    rule: 'batch.validateJobSpec: an indexed job without completions',
    kind: 'Job',
    fields: { spec: { completionMode: 'Indexed', parallelism: 1 } },
    errors: ['spec.completions: Required value: when completion mode is Indexed'],
  },
  {
    rule: 'batch.validateJobSpec: an indexed job with much parallelism',
    kind: 'Job',
    fields: { spec: { completionMode: 'Indexed', completions: 1, parallelism: 100001 } },
    errors: ['spec.parallelism: Invalid value: 100001: must be less than or equal to 100000 when completion mode is Indexed'],
  },
  {
    rule: 'batch.validateJobSpec: an unknown completion mode',
    kind: 'Job',
    fields: { spec: { completionMode: 'Other' } },
    errors: ['spec.completionMode: Unsupported value: "Other": supported values: "NonIndexed", "Indexed"'],
  },
  {
    rule: 'batch.validateJobSpec: an unknown replacement of pods',
    kind: 'Job',
    fields: { spec: { podReplacementPolicy: 'Other' } },
    errors: ['spec.podReplacementPolicy: Unsupported value: "Other": supported values: "Failed", "TerminatingOrFailed"'],
  },
  {
    rule: 'batch.validateJobSpec: a replacement that the failure policy excludes',
    kind: 'Job',
    fields: {
      spec: {
        podReplacementPolicy: 'TerminatingOrFailed',
        podFailurePolicy: { rules: [{ action: 'Ignore', onPodConditions: [{ type: 'DisruptionTarget', status: 'True' }] }] },
      },
    },
    errors: ['spec.podReplacementPolicy: Unsupported value: "TerminatingOrFailed": supported values: "Failed"'],
  },
  {
    rule: 'batch.validateJobSpec: a manager without a prefix',
    kind: 'Job',
    fields: { spec: { managedBy: 'manager' } },
    errors: ['spec.managedBy: Invalid value: "manager": must be a domain-prefixed path (such as "acme.io/foo")'],
  },
  {
    rule: 'batch.validateJobSpec: a long manager',
    kind: 'Job',
    fields: { spec: { managedBy: 'example.com/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' } },
    errors: ['spec.managedBy: Too long: may not be more than 63 bytes'],
  },
  {
    rule: 'batch.ValidateJobSpec: pods that always restart',
    kind: 'Job',
    fields: { spec: { template: { spec: { containers: [{ name: 'c', image: 'i' }], restartPolicy: 'Always' } } } },
    errors: ['spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"'],
  },
  {
    rule: 'batch.validateJobSpec: a failure policy of pods that restart',
    kind: 'Job',
    fields: {
      spec: {
        template: { spec: { containers: [{ name: 'c', image: 'i' }], restartPolicy: 'OnFailure' } },
        podFailurePolicy: { rules: [] },
      },
    },
    errors: ['spec.template.spec.restartPolicy: Invalid value: "OnFailure": only "Never" is supported when podFailurePolicy is specified'],
  },
  {
    rule: 'batch.validatePodFailurePolicyRule: an unknown action',
    kind: 'Job',
    fields: { spec: { podFailurePolicy: { rules: [{ action: 'Other', onExitCodes: { operator: 'In', values: [1] } }] } } },
    errors: [
      'spec.podFailurePolicy.rules[0].action: Unsupported value: "Other": supported values: "Count", "FailIndex", "FailJob", "Ignore"',
    ],
  },
  {
    rule: 'batch.validatePodFailurePolicyRule: FailIndex without a limit per index',
    kind: 'Job',
    fields: { spec: { podFailurePolicy: { rules: [{ action: 'FailIndex', onExitCodes: { operator: 'In', values: [1] } }] } } },
    errors: ['spec.podFailurePolicy.rules[0].action: Invalid value: "FailIndex": requires the backoffLimitPerIndex to be set'],
  },
  {
    rule: 'batch.validatePodFailurePolicyRule: no requirement',
    kind: 'Job',
    fields: { spec: { podFailurePolicy: { rules: [{ action: 'FailJob' }] } } },
    errors: ['spec.podFailurePolicy.rules[0]: Invalid value: specifying one of OnExitCodes and OnPodConditions is required'],
  },
  {
    rule: 'batch.validatePodFailurePolicyRule: two requirements',
    kind: 'Job',
    fields: {
      spec: {
        podFailurePolicy: {
          rules: [
            { action: 'FailJob', onExitCodes: { operator: 'In', values: [1] }, onPodConditions: [{ type: 'Ready', status: 'True' }] },
          ],
        },
      },
    },
    errors: ['spec.podFailurePolicy.rules[0]: Invalid value: specifying both OnExitCodes and OnPodConditions is not supported'],
  },
  {
    rule: 'batch.validatePodFailurePolicyRuleOnExitCodes: codes',
    kind: 'Job',
    fields: {
      spec: {
        podFailurePolicy: { rules: [{ action: 'FailJob', onExitCodes: { operator: 'In', values: [2, 1, 1, 0], containerName: 'other' } }] },
      },
    },
    errors: [
      'spec.podFailurePolicy.rules[0].onExitCodes.containerName: Invalid value: "other": must be one of the container or initContainer names in the pod templ…',
      'spec.podFailurePolicy.rules[0].onExitCodes.values[2]: Duplicate value: 1',
      'spec.podFailurePolicy.rules[0].onExitCodes.values[3]: Invalid value: 0: must not be 0 for the In operator',
      'spec.podFailurePolicy.rules[0].onExitCodes.values: Invalid value: [2,1,1,0]: must be ordered',
    ],
  },
  {
    rule: 'batch.validatePodFailurePolicyRuleOnExitCodes: no codes and an operator',
    kind: 'Job',
    fields: { spec: { podFailurePolicy: { rules: [{ action: 'FailJob', onExitCodes: { operator: 'Other', values: [] } }] } } },
    errors: [
      'spec.podFailurePolicy.rules[0].onExitCodes.operator: Unsupported value: "Other": supported values: "In", "NotIn"',
      'spec.podFailurePolicy.rules[0].onExitCodes.values: Invalid value: []: at least one value is required',
    ],
  },
  {
    rule: 'batch.validatePodFailurePolicyRuleOnPodConditions: a condition',
    kind: 'Job',
    fields: { spec: { podFailurePolicy: { rules: [{ action: 'FailJob', onPodConditions: [{ type: 'a b', status: 'Maybe' }] }] } } },
    errors: [
      "spec.podFailurePolicy.rules[0].onPodConditions[0].type: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' or '.', and…",
      'spec.podFailurePolicy.rules[0].onPodConditions[0].status: Unsupported value: "Maybe": supported values: "False", "True", "Unknown"',
    ],
  },
  {
    rule: 'batch.validateSuccessPolicy: a job without indexes',
    kind: 'Job',
    fields: { spec: { successPolicy: { rules: [{ succeededCount: 1 }] } } },
    errors: ['spec.successPolicy: Invalid value: {"rules":[{"succeededCount":1}]}: requires indexed completion mode'],
  },
  {
    rule: 'batch.validateSuccessPolicy: no rules',
    kind: 'Job',
    fields: { spec: { completionMode: 'Indexed', completions: 2, successPolicy: { rules: [] } } },
    errors: ['spec.successPolicy.rules: Required value: at least one rules must be specified when the successPolicy is specified'],
  },
  {
    rule: 'batch.validateSuccessPolicyRule: an empty rule',
    kind: 'Job',
    fields: { spec: { completionMode: 'Indexed', completions: 2, successPolicy: { rules: [{}] } } },
    errors: ['spec.successPolicy.rules[0]: Required value: at least one of succeededCount or succeededIndexes must be specified'],
  },
  {
    rule: 'batch.validateSuccessPolicyRule: more than the completions',
    kind: 'Job',
    fields: { spec: { completionMode: 'Indexed', completions: 2, successPolicy: { rules: [{ succeededCount: 3 }] } } },
    errors: [
      'spec.successPolicy.rules[0].succeededCount: Invalid value: 3: must be less than or equal to 2 (the number of specified completions)',
    ],
  },
  {
    rule: 'batch.validateSuccessPolicyRule: more than the indexes',
    kind: 'Job',
    fields: {
      spec: { completionMode: 'Indexed', completions: 5, successPolicy: { rules: [{ succeededCount: 3, succeededIndexes: '0-1' }] } },
    },
    errors: [
      'spec.successPolicy.rules[0].succeededCount: Invalid value: 3: must be less than or equal to 2 (the number of indexes in the specified succeededIndexes…',
    ],
  },
  {
    rule: 'batch.validateSuccessPolicyRule: an index beyond the completions',
    kind: 'Job',
    fields: { spec: { completionMode: 'Indexed', completions: 2, successPolicy: { rules: [{ succeededIndexes: '0-2' }] } } },
    errors: ['spec.successPolicy.rules[0].succeededIndexes: Invalid value: "0-2": error parsing succeededIndexes: too large index: "2"'],
  },
  {
    rule: 'batch.validateSuccessPolicyRule: indexes out of order',
    kind: 'Job',
    fields: { spec: { completionMode: 'Indexed', completions: 9, successPolicy: { rules: [{ succeededIndexes: '3,1' }] } } },
    errors: [
      'spec.successPolicy.rules[0].succeededIndexes: Invalid value: "3,1": error parsing succeededIndexes: non-increasing order, previous: 3, current: 1',
    ],
  },
  {
    rule: 'batch.validateSuccessPolicyRule: indexes that are no numbers',
    kind: 'Job',
    fields: { spec: { completionMode: 'Indexed', completions: 9, successPolicy: { rules: [{ succeededIndexes: 'a-3' }] } } },
    errors: [
      'spec.successPolicy.rules[0].succeededIndexes: Invalid value: "a-3": error parsing succeededIndexes: cannot convert string to integer for index: "a"',
    ],
  },
  {
    rule: 'batch.ValidateJobSpecUpdate: immutable fields',
    kind: 'Job',
    fields: {
      spec: {
        completionMode: 'Indexed',
        completions: 2,
        backoffLimitPerIndex: 1,
        managedBy: 'a.b/c',
        successPolicy: { rules: [{ succeededCount: 1 }] },
      },
    },
    old: { spec: { completionMode: 'Indexed', completions: 2 } },
    errors: [
      'spec.backoffLimitPerIndex: Invalid value: 1: field is immutable',
      'spec.managedBy: Invalid value: "a.b/c": field is immutable',
      'spec.successPolicy: Invalid value: {"rules":[{"succeededCount":1}]}: field is immutable',
    ],
  },
  {
    rule: 'batch.ValidateJobSpecUpdate: the template',
    kind: 'Job',
    fields: { spec: { suspend: false, template: { metadata: { labels: { a: 'b' } } } } },
    old: { spec: { suspend: false } },
    errors: [
      'spec.template: Invalid value: {"metadata":{"labels":{"app":"x","a":"b"}},"spec":{"containers":[{"name":"c","image":"i","imagePullPolicy":"Always","ter…',
    ],
  },
  {
    rule: 'batch.validateJobStatus: counts',
    kind: 'Job',
    fields: { status: { active: -1, succeeded: -1, failed: -1, terminating: -1 } },
    old: {},
    subresource: 'status',
    errors: [
      'status.active: Invalid value: -1: must be greater than or equal to 0',
      'status.succeeded: Invalid value: -1: must be greater than or equal to 0',
      'status.failed: Invalid value: -1: must be greater than or equal to 0',
      'status.terminating: Invalid value: -1: must be greater than or equal to 0',
      'status.failed: Invalid value: -1: cannot decrease the failed counter',
    ],
  },
  {
    rule: 'batch.validateJobStatus: a time of completion of a job that runs',
    kind: 'Job',
    fields: { status: { startTime: '2026-01-01T00:00:00Z', completionTime: '2026-01-01T00:00:01Z' } },
    old: { status: { startTime: '2026-01-01T00:00:00Z' } },
    subresource: 'status',
    errors: [
      'status.completionTime: Invalid value: "2026-01-01T00:00:01Z": cannot set completionTime when there is no Complete=True condition',
    ],
  },
  {
    rule: 'batch.ValidateJobStatusUpdate: a finished job runs again',
    kind: 'Job',
    fields: { status: { startTime: '2026-01-01T00:00:00Z', conditions: [] } },
    old: {
      status: {
        startTime: '2026-01-01T00:00:00Z',
        conditions: [
          { type: 'FailureTarget', status: 'True' },
          { type: 'Failed', status: 'True' },
        ],
      },
    },
    subresource: 'status',
    errors: [
      'status.conditions: Invalid value: cannot disable the terminal Failed=True condition',
      'status.conditions: Invalid value: cannot disable the terminal FailureTarget=True condition',
    ],
  },
  {
    rule: 'batch.ValidateJobStatusUpdate: another start time of a job that runs',
    kind: 'Job',
    fields: { spec: { suspend: false }, status: { startTime: '2026-01-01T00:00:01Z' } },
    old: { status: { startTime: '2026-01-01T00:00:00Z' } },
    subresource: 'status',
    errors: ['status.startTime: Invalid value: "2026-01-01T00:00:01Z": field is immutable for unsuspended job once set'],
  },
  {
    rule: 'batch.ValidateJobStatusUpdate: no start time of a job that runs',
    kind: 'Job',
    fields: { spec: { suspend: false }, status: {} },
    old: { status: { startTime: '2026-01-01T00:00:00Z' } },
    subresource: 'status',
    errors: ['status.startTime: Invalid value: null: field is immutable for unsuspended job once set'],
  },
  {
    rule: 'batch.ValidateCronJobSpec: a negative deadline and history',
    kind: 'CronJob',
    fields: { spec: { startingDeadlineSeconds: -1, successfulJobsHistoryLimit: -1, failedJobsHistoryLimit: -1 } },
    errors: [
      'spec.startingDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0',
      'spec.successfulJobsHistoryLimit: Invalid value: -1: must be greater than or equal to 0',
      'spec.failedJobsHistoryLimit: Invalid value: -1: must be greater than or equal to 0',
    ],
  },
  {
    rule: 'batch.validateScheduleFormat: a zone in the schedule',
    kind: 'CronJob',
    fields: { spec: { schedule: 'TZ=UTC 0 * * * *' } },
    errors: ['spec.schedule: Invalid value: "TZ=UTC 0 * * * *": cannot use TZ or CRON_TZ in schedule, use timeZone field instead'],
  },
  {
    rule: 'batch.validateScheduleFormat: a zone in both',
    kind: 'CronJob',
    fields: { spec: { schedule: 'CRON_TZ=UTC 0 * * * *', timeZone: 'UTC' } },
    errors: ['spec.schedule: Invalid value: "CRON_TZ=UTC 0 * * * *": cannot use TZ or CRON_TZ in schedule, use timeZone field instead'],
  },
  {
    rule: 'batch.validateTimeZone: the zone of the machine',
    kind: 'CronJob',
    fields: { spec: { timeZone: 'Local' } },
    errors: ['spec.timeZone: Invalid value: "Local": timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones'],
  },
  {
    rule: 'batch.validateTimeZone: an empty zone',
    kind: 'CronJob',
    fields: { spec: { timeZone: '' } },
    errors: ['spec.timeZone: Invalid value: "": timeZone must be nil or non-empty string'],
  },
  {
    rule: 'batch.ValidateCronJobCreate: a long name',
    kind: 'CronJob',
    fields: { metadata: { name: 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' } },
    errors: ['metadata.name: Invalid value: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa": must be no more than 52 characters'],
  },
  {
    rule: 'autoscaling.ValidateCrossVersionObjectReference: no group',
    kind: 'HorizontalPodAutoscaler',
    fields: { spec: { scaleTargetRef: { apiVersion: 'v1', kind: 'Deployment', name: 'd' } } },
    errors: ['spec.scaleTargetRef.apiVersion: Invalid value: "v1": apiVersion must specify API group'],
  },
  {
    rule: 'autoscaling.ValidateCrossVersionObjectReference: no kind and name',
    kind: 'HorizontalPodAutoscaler',
    fields: { spec: { scaleTargetRef: { apiVersion: 'apps/v1', kind: undefined, name: undefined } } },
    errors: ['spec.scaleTargetRef.kind: Required value', 'spec.scaleTargetRef.name: Required value'],
  },
  {
    rule: 'autoscaling.ValidateCrossVersionObjectReference: segments',
    kind: 'HorizontalPodAutoscaler',
    fields: { spec: { scaleTargetRef: { apiVersion: 'apps/v1', kind: 'a/b', name: '..' } } },
    errors: [
      'spec.scaleTargetRef.kind: Invalid value: "a/b": may not contain \'/\'',
      'spec.scaleTargetRef.name: Invalid value: "..": may not be \'..\'',
    ],
  },
  {
    rule: 'autoscaling.validateHorizontalPodAutoscalerSpec: the counts',
    kind: 'HorizontalPodAutoscaler',
    fields: { spec: { minReplicas: 3 } },
    errors: ['spec.maxReplicas: Invalid value: 2: must be greater than or equal to `minReplicas`'],
  },
  {
    rule: 'autoscaling.validateHorizontalPodAutoscalerSpec: no replicas',
    kind: 'HorizontalPodAutoscaler',
    fields: { spec: { minReplicas: 0, maxReplicas: 0 } },
    errors: [
      'spec.minReplicas: Invalid value: 0: must be greater than or equal to 1',
      'spec.maxReplicas: Invalid value: 0: must be greater than 0',
    ],
  },
  {
    rule: 'autoscaling.validateMetricSpec: no source',
    kind: 'HorizontalPodAutoscaler',
    fields: { spec: { metrics: [{ type: 'Resource' }] } },
    errors: ['spec.metrics[0].resource: Required value: must populate information for the given metric source'],
  },
  {
    rule: 'autoscaling.validateMetricSpec: an unknown source',
    kind: 'HorizontalPodAutoscaler',
    fields: { spec: { metrics: [{ type: 'Other', resource: { name: 'cpu', target: { type: 'Utilization', averageUtilization: 1 } } }] } },
    errors: [
      'spec.metrics[0].type: Unsupported value: "Other": supported values: "ContainerResource", "External", "Object", "Pods", "Resource"',
      'spec.metrics[0].type: Unsupported value: "Other": supported values: "ContainerResource", "External", "Object", "Pods", "Resource"',
    ],
  },
  {
    rule: 'autoscaling.validateResourceSource: no target',
    kind: 'HorizontalPodAutoscaler',
    fields: { spec: { metrics: [{ type: 'Resource', resource: { name: 'cpu', target: { type: 'Utilization' } } }] } },
    errors: [
      'spec.metrics[0].resource.target.averageUtilization: Required value: must set either a target raw value or a target utilization',
    ],
  },
  {
    rule: 'autoscaling.validateResourceSource: two targets',
    kind: 'HorizontalPodAutoscaler',
    fields: {
      spec: {
        metrics: [
          { type: 'Resource', resource: { name: 'cpu', target: { type: 'Utilization', averageUtilization: 1, averageValue: '1' } } },
        ],
      },
    },
    errors: ['spec.metrics[0].resource.target.averageValue: Forbidden: may not set both a target raw value and a target utilization'],
  },
  {
    rule: 'autoscaling.validateExternalSource: two values',
    kind: 'HorizontalPodAutoscaler',
    fields: {
      spec: {
        metrics: [{ type: 'External', external: { metric: { name: 'm' }, target: { type: 'Value', value: '1', averageValue: '1' } } }],
      },
    },
    errors: ['spec.metrics[0].external.target.value: Forbidden: may not set both a target value for metric and a per-pod target'],
  },
  {
    rule: 'autoscaling.validateScalingRules: no policies',
    kind: 'HorizontalPodAutoscaler',
    fields: { spec: { behavior: { scaleUp: { stabilizationWindowSeconds: 3601, policies: [], selectPolicy: 'Other', tolerance: '-1' } } } },
    errors: [
      'spec.behavior.scaleUp.stabilizationWindowSeconds: Invalid value: 3601: must be less than or equal to 3600',
      'spec.behavior.scaleUp.selectPolicy: Unsupported value: "Other": supported values: "Disabled", "Max", "Min"',
      'spec.behavior.scaleUp.policies: Required value: must specify at least one Policy',
      'spec.behavior.scaleUp.tolerance: Invalid value: "-1": must be greater than or equal to 0',
    ],
  },
  {
    rule: 'autoscaling.validateScalingPolicy: a policy',
    kind: 'HorizontalPodAutoscaler',
    fields: { spec: { behavior: { scaleDown: { policies: [{ type: 'Other', value: 0, periodSeconds: 1801 }] } } } },
    errors: [
      'spec.behavior.scaleDown.policies[0].type: Unsupported value: "Other": supported values: "Percent", "Pods"',
      'spec.behavior.scaleDown.policies[0].value: Invalid value: 0: must be greater than zero',
      'spec.behavior.scaleDown.policies[0].periodSeconds: Invalid value: 1801: must be less than or equal to 1800',
    ],
  },
  {
    rule: 'apps.validateRollingUpdateStatefulSet',
    kind: 'StatefulSet',
    fields: { spec: { updateStrategy: { type: 'RollingUpdate', rollingUpdate: { partition: -1, maxUnavailable: 0 } } } },
    errors: [
      'spec.updateStrategy.rollingUpdate.partition: Invalid value: -1: must be greater than or equal to 0',
      'spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: 0: cannot be 0',
    ],
  },
  {
    rule: 'apps.ValidateDaemonSetUpdateStrategy',
    kind: 'DaemonSet',
    fields: { spec: { updateStrategy: { type: 'Other' } } },
    errors: ['spec.updateStrategy.type: Unsupported value: "Other": supported values: "RollingUpdate", "OnDelete"'],
  },
];
