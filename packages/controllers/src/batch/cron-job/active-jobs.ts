import type { CronJobStatus, Job } from '@oarlock/api/types/batch-v1';
import type { ObjectReference } from '@oarlock/api/types/core-v1';

/** Returns true if the CronJob's status lists the Job as active. */
export const isActive = ({ active = [] }: CronJobStatus, { metadata }: Job) => active.some(({ uid }) => uid === metadata?.uid);
/** Returns the status without the Job in `active`. */
export function withoutActiveJob(status: CronJobStatus, uid: string | undefined): CronJobStatus {
  const { active = [], ...rest } = status;
  const remaining = active.filter((ref) => ref.uid !== uid);
  return { ...rest, ...(remaining.length > 0 && { active: remaining }) };
}
/** Returns an object reference to a Job for `active` in the status. */
export const referenceTo = ({ metadata }: Job): ObjectReference => ({
  apiVersion: 'batch/v1',
  kind: 'Job',
  name: metadata?.name ?? '',
  namespace: metadata?.namespace ?? '',
  uid: metadata?.uid ?? '',
  resourceVersion: metadata?.resourceVersion ?? '',
});

const startOf = ({ metadata, status }: Job) => status?.startTime ?? metadata?.creationTimestamp ?? '';

/** Compares two Jobs by start time and name. */
export const byStart = (a: Job, b: Job): number =>
  startOf(a) !== startOf(b) ? (startOf(a) < startOf(b) ? -1 : 1) : (a.metadata?.name ?? '') < (b.metadata?.name ?? '') ? -1 : 1;
