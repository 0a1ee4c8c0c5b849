import { invalid, notSupported, required } from '../../../field/field-error.ts';
import type { CronJob } from '../../../generated/types/batch-v1.ts';
import { validateEnum, validateNonNegative, type Errors } from '../checks.ts';
import { parseCronExpression } from '../../../values/cron-expression.ts';
import { ParseError } from '../../../values/parse-error.ts';
import { validateJobSpec } from './job.ts';

export function validateCronJob(errors: Errors, { spec }: CronJob, old?: CronJob): void {
  const { schedule = '', timeZone, jobTemplate } = spec ?? {};
  if (schedule === '') errors.push(required('spec.schedule'));
  else validateSchedule(errors, { schedule, timeZone }, old?.spec?.schedule?.includes('TZ') === true);
  validateNonNegative(errors, 'spec.startingDeadlineSeconds', spec?.startingDeadlineSeconds);
  if (old === undefined || old.spec?.timeZone !== timeZone) validateTimeZone(errors, timeZone);
  validateEnum(errors, 'spec.concurrencyPolicy', spec?.concurrencyPolicy, ['Allow', 'Forbid', 'Replace']);
  const template = jobTemplate?.spec;
  if (template === undefined) errors.push(required('spec.jobTemplate.spec'));
  else {
    validateJobSpec(errors, 'spec.jobTemplate.spec', template);
    if (template.selector !== undefined)
      errors.push(invalid('spec.jobTemplate.spec.selector', template.selector, '`selector` will be auto-generated'));
    if (template.manualSelector === true) errors.push(notSupported('spec.jobTemplate.spec.manualSelector', true, ['nil', 'false']));
  }
  validateNonNegative(errors, 'spec.successfulJobsHistoryLimit', spec?.successfulJobsHistoryLimit);
  validateNonNegative(errors, 'spec.failedJobsHistoryLimit', spec?.failedJobsHistoryLimit);
}

/** Validates a schedule. `allowTimeZone` is true for an object that was stored with a time zone in its schedule. */
function validateSchedule(
  errors: Errors,
  { schedule, timeZone }: { readonly schedule: string; readonly timeZone: string | undefined },
  allowTimeZone: boolean,
): void {
  const fault = cronFault(schedule.replace(/^(?:CRON_)?TZ=\S*\s*/, ''));
  if (fault !== undefined) errors.push(invalid('spec.schedule', schedule, fault));
  if (!schedule.includes('TZ')) return;
  if (!allowTimeZone) errors.push(invalid('spec.schedule', schedule, 'cannot use TZ or CRON_TZ in schedule, use timeZone field instead'));
  else if (timeZone !== undefined)
    errors.push(invalid('spec.schedule', schedule, 'cannot use both timeZone field and TZ or CRON_TZ in schedule'));
}

function cronFault(expression: string): string | undefined {
  try {
    parseCronExpression(expression);
    return undefined;
  } catch (error) {
    if (error instanceof ParseError) return error.message;
    throw error;
  }
}

const timeZonePart = /^[A-Za-z.\-_0-9+]{1,14}$/;

function validateTimeZone(errors: Errors, timeZone: string | undefined): void {
  if (timeZone === undefined) return;
  if (timeZone === '') {
    errors.push(invalid('spec.timeZone', timeZone, 'timeZone must be nil or non-empty string'));
    return;
  }
  const isNamed = timeZone.split('/').every((part) => part !== '.' && part !== '..' && !part.startsWith('-') && timeZonePart.test(part));
  if (isNamed && timeZone.toLowerCase() === 'local') {
    errors.push(invalid('spec.timeZone', timeZone, 'timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones'));
    // Go loads the zone `Local` alone
    if (timeZone === 'Local') return;
  }
  if (!isNamed || !isTimeZone(timeZone)) errors.push(invalid('spec.timeZone', timeZone, `unknown time zone ${timeZone}`));
}

function isTimeZone(name: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone: name });
    return true;
  } catch {
    return false; // RangeError: unknown time zone
  }
}
