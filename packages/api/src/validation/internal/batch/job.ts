import { duplicate, invalid, invalidOmittingValue, notSupportedInOrder, required, tooLong, tooMany } from '../../../field/field-error.ts';
import type { Job, JobSpec, PodFailurePolicyOnExitCodesRequirement } from '../../../generated/types/batch-v1.ts';
import type { Container } from '../../../generated/types/core-v1.ts';
import type { LabelSelector, ObjectMeta } from '../../../generated/types/meta-v1.ts';
import { jsonEqual } from '../../../json/json.ts';
import { selectorFromLabelSelector } from '../../../selectors/label-selector.ts';
import { isDns1123Label } from '../../../values/names.ts';
import { ParseError } from '../../../values/parse-error.ts';
import {
  validateOptionalEnum,
  validateImmutable,
  validateNonNegative,
  sortedMap,
  validateDomainPrefixedPath,
  validateQualifiedName,
  type Errors,
} from '../checks.ts';
import { parseIndexes } from './indexes.ts';
import { validateLabelSelector } from '../../meta.ts';
import { validatePodTemplate } from '../core/pods/pod-spec.ts';

const maxIndexedParallelism = 100_000;
const maxFailedIndexesLimit = 100_000;
const completionsSoftLimit = 100_000;
/** The limit of parallelism and maxFailedIndexes for more completions than `completionsSoftLimit`. */
const highCompletionsLimit = 10_000;
const maxManagedByLength = 63;
const maxPodConditions = 20;
const maxSucceededIndexesLength = 64 * 1024;
const maxPolicyRules = 20;
const maxExitCodes = 255;
type ExitCodes = PodFailurePolicyOnExitCodesRequirement;
const controllerUid = 'batch.kubernetes.io/controller-uid';
const jobName = 'batch.kubernetes.io/job-name';
const noMatch = '`selector` does not match template `labels`';
const templateLabels = 'spec.template.metadata.labels';

/** Validates the spec of a Job or of the template of a CronJob, except the selector. */
export function validateJobSpec(errors: Errors, path: string, spec: JobSpec): void {
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
    validateDomainPrefixedPath(errors, `${path}.managedBy`, spec.managedBy);
    if (spec.managedBy.length > maxManagedByLength) errors.push(tooLong(`${path}.managedBy`, maxManagedByLength));
  }
  validateCompletionMode(errors, path, spec);
  if (spec.podFailurePolicy !== undefined) validateFailurePolicy(errors, path, spec);
  if (spec.successPolicy !== undefined) {
    if (spec.completionMode === 'Indexed') validateSuccessPolicy(errors, `${path}.successPolicy.rules`, spec);
    else errors.push(invalid(`${path}.successPolicy`, spec.successPolicy, 'requires indexed completion mode'));
  }
  const replacementPolicies = spec.podFailurePolicy === undefined ? ['Failed', 'TerminatingOrFailed'] : ['Failed'];
  validateOptionalEnum(errors, `${path}.podReplacementPolicy`, spec.podReplacementPolicy, replacementPolicies);
  validatePodTemplate(errors, `${path}.template`, spec.template ?? {});
  const restart = spec.template?.spec?.restartPolicy ?? '';
  const restartPath = `${path}.template.spec.restartPolicy`;
  if (restart === '' || restart === 'Always') errors.push(required(restartPath, 'valid values: "OnFailure", "Never"'));
  else if (restart !== 'OnFailure' && restart !== 'Never') errors.push(notSupportedInOrder(restartPath, restart, ['OnFailure', 'Never']));
  else if (spec.podFailurePolicy !== undefined && restart !== 'Never')
    errors.push(invalid(restartPath, restart, 'only "Never" is supported when podFailurePolicy is specified'));
}

function validateCompletionMode(errors: Errors, path: string, spec: JobSpec): void {
  const { completionMode, backoffLimitPerIndex, maxFailedIndexes } = spec;
  if (completionMode !== undefined && completionMode !== 'NonIndexed' && completionMode !== 'Indexed')
    errors.push(notSupportedInOrder(`${path}.completionMode`, completionMode, ['NonIndexed', 'Indexed']));
  if (completionMode === 'Indexed') validateIndexed(errors, path, spec);
  if (completionMode !== undefined && completionMode !== 'NonIndexed') return;
  if (backoffLimitPerIndex !== undefined)
    errors.push(invalid(`${path}.backoffLimitPerIndex`, backoffLimitPerIndex, 'requires indexed completion mode'));
  if (maxFailedIndexes !== undefined)
    errors.push(invalid(`${path}.maxFailedIndexes`, maxFailedIndexes, 'requires indexed completion mode'));
}

function validateIndexed(errors: Errors, path: string, spec: JobSpec): void {
  const { completions, backoffLimitPerIndex, maxFailedIndexes } = spec;
  const validateMax = (key: 'parallelism' | 'maxFailedIndexes', max: number, detail: string) => {
    const value = spec[key];
    if (value !== undefined && value > max) errors.push(invalid(`${path}.${key}`, value, detail));
  };
  if (completions === undefined) errors.push(required(`${path}.completions`, 'when completion mode is Indexed'));
  validateMax(
    'parallelism',
    maxIndexedParallelism,
    `must be less than or equal to ${maxIndexedParallelism} when completion mode is Indexed`,
  );
  if (completions !== undefined) validateMax('maxFailedIndexes', completions, 'must be less than or equal to completions');
  validateMax('maxFailedIndexes', maxFailedIndexesLimit, `must be less than or equal to ${maxFailedIndexesLimit}`);
  if (completions === undefined || completions <= completionsSoftLimit || backoffLimitPerIndex === undefined) return;
  if (maxFailedIndexes === undefined)
    errors.push(required(`${path}.maxFailedIndexes`, `must be specified when completions is above ${completionsSoftLimit}`));
  for (const key of ['parallelism', 'maxFailedIndexes'] as const)
    validateMax(
      key,
      highCompletionsLimit,
      `must be less than or equal to ${highCompletionsLimit} when completions are above ${completionsSoftLimit} and used with backoff limit per index`,
    );
}

/** Validates the rules of a success policy (KEP-3998). */
function validateSuccessPolicy(errors: Errors, path: string, { successPolicy, completions = 0 }: JobSpec): void {
  const rules = successPolicy?.rules ?? [];
  if (rules.length === 0) errors.push(required(path, 'at least one rules must be specified when the successPolicy is specified'));
  if (rules.length > maxPolicyRules) errors.push(tooMany(path, rules.length, maxPolicyRules));
  for (const [i, { succeededCount: count, succeededIndexes: indexes }] of rules.entries()) {
    const at = `${path}[${i}]`;
    if (count === undefined && indexes === undefined)
      errors.push(required(at, 'at least one of succeededCount or succeededIndexes must be specified'));
    let total = 0;
    if (indexes !== undefined) {
      if (indexes.length > maxSucceededIndexesLength) errors.push(tooLong(`${at}.succeededIndexes`, maxSucceededIndexesLength));
      const parsed = parseIndexes(indexes, completions);
      if (typeof parsed === 'string') errors.push(invalid(`${at}.succeededIndexes`, indexes, `error parsing succeededIndexes: ${parsed}`));
      else total = parsed.reduce((sum, [first, last]) => sum + last - first + 1, 0);
    }
    if (count === undefined) continue;
    const countPath = `${at}.succeededCount`;
    validateNonNegative(errors, countPath, count);
    if (count > completions)
      errors.push(invalid(countPath, count, `must be less than or equal to ${completions} (the number of specified completions)`));
    if (indexes !== undefined && count > total)
      errors.push(
        invalid(countPath, count, `must be less than or equal to ${total} (the number of indexes in the specified succeededIndexes field)`),
      );
  }
}

/** KEP-3329. */
function validateFailurePolicy(errors: Errors, path: string, { podFailurePolicy, template, backoffLimitPerIndex }: JobSpec): void {
  const rules = podFailurePolicy?.rules ?? [];
  const at = `${path}.podFailurePolicy.rules`;
  const names = new Set([...(template?.spec?.containers ?? []), ...(template?.spec?.initContainers ?? [])].map(({ name }) => name));
  if (rules.length > maxPolicyRules) errors.push(tooMany(at, rules.length, maxPolicyRules));
  for (const [i, { action, onExitCodes, onPodConditions = [] }] of rules.entries()) {
    const rule = `${at}[${i}]`;
    validateNamedEnum(errors, `${rule}.action`, { value: action, supported: ['Count', 'FailIndex', 'FailJob', 'Ignore'] });
    if (action === 'FailIndex' && backoffLimitPerIndex === undefined)
      errors.push(invalid(`${rule}.action`, action, 'requires the backoffLimitPerIndex to be set'));
    if (onExitCodes !== undefined) validateExitCodes(errors, `${rule}.onExitCodes`, onExitCodes, names);
    if (onPodConditions.length > maxPodConditions)
      errors.push(tooMany(`${rule}.onPodConditions`, onPodConditions.length, maxPodConditions));
    for (const [j, { type, status }] of onPodConditions.entries()) {
      validateQualifiedName(errors, `${rule}.onPodConditions[${j}].type`, type ?? '');
      validateNamedEnum(errors, `${rule}.onPodConditions[${j}].status`, { value: status, supported: ['False', 'True', 'Unknown'] });
    }
    if (onExitCodes !== undefined && onPodConditions.length > 0)
      errors.push(invalidOmittingValue(rule, 'specifying both OnExitCodes and OnPodConditions is not supported'));
    else if (onExitCodes === undefined && onPodConditions.length === 0)
      errors.push(invalidOmittingValue(rule, 'specifying one of OnExitCodes and OnPodConditions is required'));
  }
}

/** Validates a required field with a fixed set of values, which the error names. */
function validateNamedEnum(
  errors: Errors,
  path: string,
  { value, supported }: { readonly value: string | undefined; readonly supported: readonly string[] },
): void {
  if (value === undefined || value === '')
    errors.push(required(path, `valid values: [${supported.map((name) => JSON.stringify(name)).join(' ')}]`));
  else validateOptionalEnum(errors, path, value, supported);
}

function validateExitCodes(
  errors: Errors,
  path: string,
  { operator, values = [], containerName }: ExitCodes,
  names: ReadonlySet<string>,
): void {
  validateNamedEnum(errors, `${path}.operator`, { value: operator, supported: ['In', 'NotIn'] });
  if (containerName !== undefined && !names.has(containerName)) {
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

/** Returns the pod without the fields that may change while a suspended job has not started (KEP-2926). */
function withoutMutableFields(spec: JobSpec): unknown {
  const {
    nodeSelector: _nodes,
    tolerations: _tolerations,
    affinity,
    schedulingGates: _gates,
    ...pod
  } = spec.template?.spec ?? { containers: [] };
  const { nodeAffinity: _nodeAffinity, ...podAffinity } = affinity ?? {};
  const withoutResources = (list: readonly Container[] = []) => list.map(({ resources: _resources, ...container }) => container);
  return { ...pod, containers: withoutResources(pod.containers), initContainers: withoutResources(pod.initContainers), podAffinity };
}

/** Reports names to which the controller cannot append the index of a pod. */
function validateIndexedName(errors: Errors, name: string, { completionMode, completions = 0 }: JobSpec): void {
  if (completionMode !== 'Indexed' || completions <= 0) return;
  const hostname = `${name}-${completions - 1}`;
  if (isDns1123Label(hostname).length > 0)
    errors.push(invalid('metadata.name', name, `will not able to create pod with invalid DNS label: ${hostname}`));
}

/** Requires the labels and the selector that the API server generates for a Job without manualSelector. */
function validateGeneratedSelector(
  errors: Errors,
  { manualSelector, selector, template }: JobSpec,
  { uid = '', name = '' }: ObjectMeta = {},
): void {
  if (manualSelector === true || selector === undefined) return;
  if (uid === '') errors.push(required('metadata.uid'));
  const labels = template?.metadata?.labels ?? {};
  const generated = { 'controller-uid': uid, 'job-name': name, [controllerUid]: uid, [jobName]: name };
  for (const [key, value] of Object.entries(generated))
    if (!Object.hasOwn(labels, key)) errors.push(required(`${templateLabels}[${key}]`, `must be '${value}'`));
    else if (labels[key] !== value) errors.push(invalid(`${templateLabels}[${key}]`, sortedMap(labels), `must be '${value}'`));
  if (matches(selector, generated) === false) errors.push(invalid('spec.selector', selector, '`selector` not auto-generated'));
}

/** Returns undefined for an invalid selector, which other rules report. */
function matches(selector: LabelSelector, labels: Readonly<Record<string, string>>): boolean | undefined {
  try {
    return selectorFromLabelSelector(selector).matches(labels);
  } catch (error) {
    if (!(error instanceof ParseError)) throw error;
    return undefined;
  }
}

export function validateJob(errors: Errors, { metadata, spec, status }: Job, old?: Job): void {
  if (spec === undefined) {
    errors.push(required('spec'));
    return;
  }
  if (old === undefined) validateGeneratedSelector(errors, spec, metadata);
  validateJobSpec(errors, 'spec', spec);
  if (old === undefined) validateIndexedName(errors, metadata?.name ?? '', spec);
  const { selector } = spec;
  if (selector === undefined) errors.push(required('spec.selector'));
  else {
    validateLabelSelector(errors, 'spec.selector', selector);
    const labels = spec.template?.metadata?.labels ?? {};
    if (matches(selector, labels) === false) errors.push(invalid(templateLabels, sortedMap(labels), noMatch));
  }
  const before = old?.spec;
  if (before === undefined) return;
  if (spec.completionMode !== 'Indexed') validateImmutable(errors, 'spec.completions', spec.completions, before.completions);
  else if (spec.completions !== before.completions && spec.completions !== undefined && spec.completions !== spec.parallelism)
    errors.push(invalid('spec.completions', spec.completions, 'can only be modified in tandem with spec.parallelism'));
  validateImmutable(errors, 'spec.selector', spec.selector, before.selector);
  const suspended = before.suspend === true && (old?.status?.startTime === undefined || status?.startTime === undefined);
  if (!jsonEqual(spec.template, before.template) && !(suspended && jsonEqual(withoutMutableFields(spec), withoutMutableFields(before))))
    validateImmutable(errors, 'spec.template', spec.template, before.template);
  for (const key of ['completionMode', 'podFailurePolicy', 'backoffLimitPerIndex', 'managedBy', 'successPolicy'] as const)
    validateImmutable(errors, `spec.${key}`, spec[key], before[key]);
}
