import { duplicate, invalid, invalidOmittingValue, required } from '../../../field/field-error.ts';
import type { Job, JobStatus } from '../../../generated/types/batch-v1.ts';
import { jsonEqual } from '../../../json/json.ts';
import { validateNonNegative, type Errors } from '../checks.ts';
import { firstCommonIndex, parseIndexes } from './indexes.ts';

const conditions = 'status.conditions';

/** The conditions of a Job that are true. */
const trueConditions = ({ conditions: list = [] }: JobStatus): ReadonlySet<string> =>
  new Set(list.filter(({ status }) => status === 'True').map(({ type }) => type));
const isFinished = (types: ReadonlySet<string>) => types.has('Complete') || types.has('Failed');

/** A write of the status of a Job. */
interface StatusUpdate {
  readonly job: Job;
  readonly status: JobStatus;
  readonly old: JobStatus;
  readonly types: ReadonlySet<string>;
  readonly oldTypes: ReadonlySet<string>;
  /** Returns true if a field has changed. Rules about unchanged fields do not apply, so that other fields can be corrected. */
  readonly isChanged: (...keys: readonly (keyof JobStatus)[]) => boolean;
  /** Returns true if one of the conditions has become true or false. */
  readonly isSwitched: (...types: readonly string[]) => boolean;
}

export function validateJobStatus(errors: Errors, job: Job, { status: old = {} }: Job): void {
  const { status = {} } = job;
  const [types, oldTypes] = [trueConditions(status), trueConditions(old)];
  const update: StatusUpdate = {
    job,
    status,
    old,
    types,
    oldTypes,
    isChanged: (...keys) => keys.some((key) => !jsonEqual(status[key], old[key])),
    isSwitched: (...names) => names.some((name) => types.has(name) !== oldTypes.has(name)),
  };
  for (const key of ['active', 'succeeded', 'failed', 'ready', 'terminating'] as const)
    validateNonNegative(errors, `status.${key}`, status[key]);
  validateUncounted(errors, status);
  validateCompletion(errors, update);
  validateFinished(errors, update);
  validateIndexes(errors, update);
  validateSuccessCriteria(errors, update);
  validateTransition(errors, update);
}

function validateUncounted(errors: Errors, { uncountedTerminatedPods: pods }: JobStatus): void {
  const seen = new Set<string>();
  for (const list of ['succeeded', 'failed'] as const) {
    for (const [i, uid] of (pods?.[list] ?? []).entries()) {
      const path = `status.uncountedTerminatedPods.${list}[${i}]`;
      if (uid === '') errors.push(invalid(path, uid, 'must not be empty'));
      else if (seen.has(uid)) errors.push(duplicate(path, uid));
      seen.add(uid);
    }
  }
}

function validateCompletion(errors: Errors, { status, types, isChanged, isSwitched }: StatusUpdate): void {
  const { completionTime, startTime } = status;
  const isComplete = types.has('Complete');
  if (isSwitched('Complete', 'Failed') && isComplete && types.has('Failed'))
    errors.push(invalidOmittingValue(conditions, 'cannot set Complete=True and Failed=true conditions'));
  if (isSwitched('Complete', 'FailureTarget') && isComplete && types.has('FailureTarget'))
    errors.push(invalidOmittingValue(conditions, 'cannot set Complete=True and FailureTarget=true conditions'));
  if (isSwitched('Complete') || isChanged('completionTime')) {
    if (completionTime !== undefined && !isComplete)
      errors.push(invalid('status.completionTime', completionTime, 'cannot set completionTime when there is no Complete=True condition'));
    if (completionTime === undefined && isComplete)
      errors.push(required('status.completionTime', 'completionTime is required for Complete jobs'));
  }
  const isEarly = startTime !== undefined && completionTime !== undefined && Date.parse(completionTime) < Date.parse(startTime);
  if (isChanged('startTime', 'completionTime') && isEarly)
    errors.push(invalid('status.completionTime', completionTime, 'completionTime cannot be set before startTime'));
  if ((isSwitched('Failed') || isChanged('failedIndexes')) && types.has('Failed') && !types.has('FailureTarget'))
    errors.push(invalidOmittingValue(conditions, 'cannot set Failed=True condition without the FailureTarget=true condition'));
  if (isSwitched('Complete', 'SuccessCriteriaMet') && isComplete && !types.has('SuccessCriteriaMet'))
    errors.push(invalidOmittingValue(conditions, 'cannot set Complete=True condition without the SuccessCriteriaMet=true condition'));
}

function validateFinished(errors: Errors, { job, status, types, oldTypes, isChanged }: StatusUpdate): void {
  const { active = 0, ready, terminating = 0, uncountedTerminatedPods: uncounted } = status;
  const isSwitched = isFinished(types) !== isFinished(oldTypes);
  if (isFinished(types)) {
    if ((isSwitched || isChanged('active')) && active > 0)
      errors.push(invalid('status.active', active, 'active>0 is invalid for finished job'));
    const neverStarts = job.spec?.suspend === true && job.spec.completions === 0;
    if ((isSwitched || isChanged('startTime')) && status.startTime === undefined && !neverStarts)
      errors.push(required('status.startTime', 'startTime is required for finished job'));
    if ((isSwitched || isChanged('uncountedTerminatedPods')) && (uncounted?.failed ?? []).length + (uncounted?.succeeded ?? []).length > 0)
      errors.push(invalid('status.uncountedTerminatedPods', uncounted, 'uncountedTerminatedPods needs to be empty for finished job'));
    if ((isSwitched || isChanged('terminating')) && terminating > 0)
      errors.push(invalid('status.terminating', terminating, 'terminating>0 is invalid for finished job'));
  }
  if (isChanged('ready', 'active') && ready !== undefined && ready > active)
    errors.push(invalid('status.ready', ready, 'cannot set more ready pods than active'));
}

function validateIndexes(errors: Errors, { job: { spec }, status, isChanged }: StatusUpdate): void {
  const { completedIndexes = '', failedIndexes } = status;
  const { completions, backoffLimitPerIndex, completionMode } = spec ?? {};
  const parse = (key: 'completedIndexes' | 'failedIndexes', text: string) => {
    const parsed = parseIndexes(text, completions ?? 0);
    if (typeof parsed === 'string') errors.push(invalid(`status.${key}`, text, `error parsing ${key}: ${parsed}`));
  };
  if (isChanged('completedIndexes')) {
    if (completions !== undefined) parse('completedIndexes', completedIndexes);
    if (completedIndexes !== '' && completionMode !== 'Indexed')
      errors.push(
        invalid('status.completedIndexes', completedIndexes, 'cannot set non-empty completedIndexes when non-indexed completion mode'),
      );
  }
  if (failedIndexes === undefined) return;
  if (isChanged('failedIndexes')) {
    if (completions !== undefined && backoffLimitPerIndex !== undefined) parse('failedIndexes', failedIndexes);
    if (backoffLimitPerIndex === undefined)
      errors.push(invalid('status.failedIndexes', failedIndexes, 'cannot set non-null failedIndexes when backoffLimitPerIndex is null'));
  }
  if (!isChanged('failedIndexes', 'completedIndexes') || completions === undefined) return;
  const common = firstCommonIndex(completedIndexes, failedIndexes, completions);
  if (common !== undefined)
    errors.push(invalid('status.failedIndexes', failedIndexes, `failedIndexes and completedIndexes overlap at index: ${common}`));
}

function validateSuccessCriteria(errors: Errors, { job, types }: StatusUpdate): void {
  const isMet = types.has('SuccessCriteriaMet');
  if (isMet && types.has('Failed'))
    errors.push(invalidOmittingValue(conditions, 'cannot set SuccessCriteriaMet=True and Failed=true conditions'));
  if (isMet && types.has('FailureTarget'))
    errors.push(invalidOmittingValue(conditions, 'cannot set SuccessCriteriaMet=True and FailureTarget=true conditions'));
  if (job.spec?.successPolicy !== undefined && !isMet && types.has('Complete'))
    errors.push(invalidOmittingValue(conditions, 'cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True'));
}

function validateTransition(errors: Errors, { job, status, old, types, oldTypes, isChanged }: StatusUpdate): void {
  for (const type of ['Failed', 'Complete', 'FailureTarget'])
    if (oldTypes.has(type) && !types.has(type))
      errors.push(invalidOmittingValue(conditions, `cannot disable the terminal ${type}=True condition`));
  if ((status.failed ?? 0) < (old.failed ?? 0))
    errors.push(invalid('status.failed', status.failed ?? 0, 'cannot decrease the failed counter'));
  // a Job with as many completions as parallel pods can be scaled down
  const isElastic = job.spec?.completions !== undefined && job.spec.completions === job.spec.parallelism;
  if (!isElastic && (status.succeeded ?? 0) < (old.succeeded ?? 0))
    errors.push(invalid('status.succeeded', status.succeeded ?? 0, 'cannot decrease the succeeded counter'));
  if (status.completionTime !== undefined && old.completionTime !== undefined && isChanged('completionTime'))
    errors.push(invalid('status.completionTime', status.completionTime, 'completionTime cannot be mutated'));
  const isResumed = oldTypes.has('Suspended') && !types.has('Suspended');
  if (old.startTime !== undefined && isChanged('startTime') && job.spec?.suspend !== true && !isResumed)
    errors.push(invalid('status.startTime', status.startTime, 'field is immutable for unsuspended job once set'));
  if (oldTypes.has('SuccessCriteriaMet') && !types.has('SuccessCriteriaMet'))
    errors.push(invalidOmittingValue(conditions, 'cannot disable the SuccessCriteriaMet=True condition'));
  if (oldTypes.has('Complete') && !oldTypes.has('SuccessCriteriaMet') && types.has('SuccessCriteriaMet'))
    errors.push(invalidOmittingValue(conditions, 'cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions'));
}
