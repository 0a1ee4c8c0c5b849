import { duplicate, invalid, notSupported, required, tooMany } from '../../field/field-error.ts';
import type { CronJob, Job, JobSpec, PodFailurePolicyOnExitCodesRequirement } from '../../generated/types/batch-v1.ts';
import { jsonEqual } from '../../json/json.ts';
import { selectorFromLabelSelector } from '../../selectors/label-selector.ts';
import { ParseError } from '../../values/parse-error.ts';
import {
  validateOptionalEnum,
  validateImmutable,
  addInvalid,
  validateNonNegative,
  validateEnum,
  validateQualifiedName,
  type Errors,
} from './checks.ts';
import { cronScheduleError } from './cron-schedule.ts';
import { validateLabelSelector } from '../meta.ts';
import { validatePodTemplate } from './core/pod-spec.ts';

const maxIndexedParallelism = 100_000;
const maxPolicyRules = 20;
const maxExitCodes = 255;
type ExitCodes = PodFailurePolicyOnExitCodesRequirement;
const controllerUid = 'batch.kubernetes.io/controller-uid';
const noMatch = '`selector` does not match template `labels`';

function validateJobSpec(errors: Errors, path: string, spec: JobSpec): void {
  for (const key of [
    'parallelism',
    'completions',
    'activeDeadlineSeconds',
    'backoffLimit',
    'ttlSecondsAfterFinished',
    'backoffLimitPerIndex',
    'maxFailedIndexes',
  ] as const)
    validateNonNegative(errors, `${path}.${key}`, spec[key]);
  if (spec.maxFailedIndexes !== undefined && spec.backoffLimitPerIndex === undefined)
    errors.push(required(`${path}.backoffLimitPerIndex`, 'when maxFailedIndexes is specified'));
  if (spec.managedBy !== undefined) {
    validateQualifiedName(errors, `${path}.managedBy`, spec.managedBy);
    if (!spec.managedBy.includes('/'))
      errors.push(invalid(`${path}.managedBy`, spec.managedBy, 'must be a domain-prefixed path (such as "acme.io/foo")'));
  }
  validateIndexed(errors, path, spec);
  validateFailurePolicy(errors, path, spec);
  if (spec.podReplacementPolicy !== undefined) {
    if (spec.podFailurePolicy !== undefined)
      validateOptionalEnum(errors, `${path}.podReplacementPolicy`, spec.podReplacementPolicy, ['Failed']);
    else validateOptionalEnum(errors, `${path}.podReplacementPolicy`, spec.podReplacementPolicy, ['Failed', 'TerminatingOrFailed']);
  }
  if (spec.successPolicy !== undefined) {
    const rules = spec.successPolicy.rules ?? [];
    if (spec.completionMode !== 'Indexed')
      errors.push(invalid(`${path}.successPolicy`, spec.successPolicy, 'requires indexed completion mode'));
    if (rules.length === 0)
      errors.push(required(`${path}.successPolicy.rules`, 'at least one rules must be specified when the successPolicy is specified'));
    if (rules.length > maxPolicyRules) errors.push(tooMany(`${path}.successPolicy.rules`, rules.length, maxPolicyRules));
  }
  validatePodTemplate(errors, `${path}.template`, spec.template ?? {});
  const restart = spec.template?.spec?.restartPolicy ?? '';
  const restartPath = `${path}.template.spec.restartPolicy`;
  if (restart === '' || restart === 'Always') errors.push(required(restartPath, 'valid values: "OnFailure", "Never"'));
  else validateOptionalEnum(errors, restartPath, restart, ['OnFailure', 'Never']);
  if (spec.podFailurePolicy !== undefined && restart !== 'Never')
    errors.push(invalid(restartPath, restart, 'only "Never" is supported when podFailurePolicy is specified'));
}

function validateIndexed(errors: Errors, path: string, spec: JobSpec): void {
  const { completionMode, completions, parallelism, backoffLimitPerIndex } = spec;
  if (completionMode !== undefined && completionMode !== 'NonIndexed' && completionMode !== 'Indexed')
    errors.push(notSupported(`${path}.completionMode`, completionMode, ['Indexed', 'NonIndexed']));
  if (completionMode === 'Indexed') {
    if (completions === undefined) errors.push(required(`${path}.completions`, 'when completion mode is Indexed'));
    if (parallelism !== undefined && parallelism > maxIndexedParallelism)
      errors.push(
        invalid(
          `${path}.parallelism`,
          parallelism,
          `must be less than or equal to ${maxIndexedParallelism} when completion mode is Indexed`,
        ),
      );
  } else if (backoffLimitPerIndex !== undefined)
    errors.push(invalid(`${path}.backoffLimitPerIndex`, backoffLimitPerIndex, 'requires indexed completion mode'));
}

/** KEP-3329. */
function validateFailurePolicy(errors: Errors, path: string, { podFailurePolicy, template }: JobSpec): void {
  const rules = podFailurePolicy?.rules ?? [];
  const at = `${path}.podFailurePolicy.rules`;
  const names = [...(template?.spec?.containers ?? []), ...(template?.spec?.initContainers ?? [])].map(({ name }) => name);
  if (rules.length > maxPolicyRules) errors.push(tooMany(at, rules.length, maxPolicyRules));
  for (const [i, { action, onExitCodes, onPodConditions = [] }] of rules.entries()) {
    const rule = `${at}[${i}]`;
    validateEnum(errors, `${rule}.action`, action, ['Count', 'FailIndex', 'FailJob', 'Ignore']);
    if (onExitCodes !== undefined) validateExitCodes(errors, `${rule}.onExitCodes`, onExitCodes, names);
    for (const [j, { type, status }] of onPodConditions.entries()) {
      validateQualifiedName(errors, `${rule}.onPodConditions[${j}].type`, type ?? '');
      validateEnum(errors, `${rule}.onPodConditions[${j}].status`, status, ['False', 'True', 'Unknown']);
    }
    if (onExitCodes !== undefined && onPodConditions.length > 0)
      errors.push(invalid(rule, rules[i], 'specifying both OnExitCodes and OnPodConditions is not supported'));
    else if (onExitCodes === undefined && onPodConditions.length === 0)
      errors.push(invalid(rule, rules[i], 'specifying one of OnExitCodes and OnPodConditions is required'));
  }
}

function validateExitCodes(
  errors: Errors,
  path: string,
  { operator, values = [], containerName }: ExitCodes,
  names: readonly string[],
): void {
  validateEnum(errors, `${path}.operator`, operator, ['In', 'NotIn']);
  if (containerName !== undefined && !names.includes(containerName)) {
    const text = 'must be one of the container or initContainer names in the pod template';
    errors.push(invalid(`${path}.containerName`, containerName, text));
  }
  if (values.length === 0) errors.push(invalid(`${path}.values`, values, 'at least one value is required'));
  if (values.length > maxExitCodes) errors.push(tooMany(`${path}.values`, values.length, maxExitCodes));
  const seen = new Set<number>();
  for (const [j, value] of values.entries()) {
    if (operator === 'In' && value === 0) errors.push(invalid(`${path}.values[${j}]`, value, 'must not be 0 for the In operator'));
    if (seen.has(value)) errors.push(duplicate(`${path}.values[${j}]`, value));
    seen.add(value);
  }
  if (values.some((value, j) => value < (values[j - 1] ?? value))) errors.push(invalid(`${path}.values`, values, 'must be ordered'));
}

/** Returns the spec without the template fields that may change while a suspended job has not started (KEP-2926). */
function scheduled(spec: JobSpec): unknown {
  const {
    nodeSelector: _nodes,
    tolerations: _tolerations,
    affinity: _affinity,
    schedulingGates: _gates,
    ...pod
  } = spec.template?.spec ?? { containers: [] };
  const containers = (pod.containers ?? []).map(({ resources: _resources, ...container }) => container);
  return { ...pod, containers };
}

export function validateJob(errors: Errors, { spec, status }: Job, old?: Job): void {
  if (spec === undefined) {
    errors.push(required('spec'));
    return;
  }
  validateJobSpec(errors, 'spec', spec);
  const { selector } = spec;
  if (selector === undefined) errors.push(required('spec.selector'));
  else {
    validateLabelSelector(errors, 'spec.selector', selector);
    const labels = spec.template?.metadata?.labels ?? {};
    try {
      if (!selectorFromLabelSelector(selector).matches(labels)) errors.push(invalid('spec.template.metadata.labels', labels, noMatch));
    } catch (error) {
      if (!(error instanceof ParseError)) throw error; // reported by validateLabelSelector
    }
    if (
      old === undefined &&
      spec.manualSelector !== true &&
      Object.keys(selector.matchLabels ?? {}).some((key) => key !== controllerUid && key !== 'controller-uid')
    )
      errors.push(invalid('spec.selector', selector, '`selector` not auto-generated'));
  }
  const before = old?.spec;
  if (before === undefined) return;
  const elastic =
    spec.completionMode === 'Indexed' &&
    before.completionMode === 'Indexed' &&
    spec.completions === spec.parallelism &&
    spec.completions !== undefined;
  if (!elastic) validateImmutable(errors, 'spec.completions', spec.completions, before.completions);
  validateImmutable(errors, 'spec.selector', spec.selector, before.selector);
  const suspended = before.suspend === true && (old?.status?.startTime === undefined || status?.startTime === undefined);
  if (!jsonEqual(spec.template, before.template) && !(suspended && jsonEqual(scheduled(spec), scheduled(before))))
    validateImmutable(errors, 'spec.template', spec.template, before.template);
  for (const key of ['completionMode', 'podFailurePolicy', 'backoffLimitPerIndex', 'managedBy', 'successPolicy'] as const)
    validateImmutable(errors, `spec.${key}`, spec[key], before[key]);
}

export function validateCronJob(errors: Errors, { spec }: CronJob): void {
  const { schedule = '', concurrencyPolicy, timeZone, jobTemplate } = spec ?? {};
  if (schedule === '') errors.push(required('spec.schedule'));
  else {
    const fault = cronScheduleError(schedule.replace(/^(?:CRON_)?TZ=\S*\s*/, ''));
    if (fault !== undefined) errors.push(invalid('spec.schedule', schedule, fault));
    if (schedule.includes('TZ'))
      errors.push(invalid('spec.schedule', schedule, 'cannot use TZ or CRON_TZ in schedule, use timeZone field instead'));
  }
  validateNonNegative(errors, 'spec.startingDeadlineSeconds', spec?.startingDeadlineSeconds);
  validateEnum(errors, 'spec.concurrencyPolicy', concurrencyPolicy, ['Allow', 'Forbid', 'Replace']);
  if (timeZone !== undefined) {
    if (timeZone === '') errors.push(invalid('spec.timeZone', timeZone, 'timeZone must be nil or non-empty string'));
    else if (!isTimeZone(timeZone)) errors.push(invalid('spec.timeZone', timeZone, `unknown time zone ${timeZone}`));
  }
  validateNonNegative(errors, 'spec.successfulJobsHistoryLimit', spec?.successfulJobsHistoryLimit);
  validateNonNegative(errors, 'spec.failedJobsHistoryLimit', spec?.failedJobsHistoryLimit);
  const template = jobTemplate?.spec;
  if (template === undefined) errors.push(required('spec.jobTemplate.spec'));
  else {
    validateJobSpec(errors, 'spec.jobTemplate.spec', template);
    if (template.manualSelector === true) errors.push(notSupported('spec.jobTemplate.spec.manualSelector', true, ['nil', 'false']));
    if (template.selector !== undefined)
      errors.push(invalid('spec.jobTemplate.spec.selector', template.selector, '`selector` will be auto-generated'));
  }
}

function isTimeZone(name: string): boolean {
  if (name.toLowerCase() === 'local') return false;
  try {
    new Intl.DateTimeFormat('en', { timeZone: name });
    return true;
  } catch {
    return false; // RangeError: unknown time zone
  }
}

export function validateJobStatus(errors: Errors, { status = {} }: Job): void {
  for (const key of ['active', 'succeeded', 'failed', 'ready', 'terminating'] as const)
    validateNonNegative(errors, `status.${key}`, status[key]);
  const both = (status.conditions ?? []).filter(({ type, status: is }) => (type === 'Complete' || type === 'Failed') && is === 'True');
  if (new Set(both.map(({ type }) => type)).size > 1)
    addInvalid(errors, 'status.conditions', status.conditions, ['cannot set Complete=True and Failed=true conditions']);
}
