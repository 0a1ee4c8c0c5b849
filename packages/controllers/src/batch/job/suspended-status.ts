import type { Job, JobStatus } from '@oarlock/api/types/batch-v1';
import { formatTime } from '@oarlock/api/values/time';
import type { EventRecorder } from '@oarlock/spi/client';
import { withCondition } from './finalizer-tracking.ts';

/** Returns the status with the condition Suspended and the start time of a Job that is suspended or resumed, and records the event of the change. */
export function syncSuspended(
  job: Job,
  {
    status,
    suspended,
    nowMs,
    recorder,
  }: { readonly status: JobStatus; readonly suspended: boolean; readonly nowMs: number; readonly recorder: EventRecorder },
): JobStatus {
  const present = status.conditions?.find(({ type }) => type === 'Suspended');
  if (suspended) {
    // the active deadline stops, and scheduling directives may be changed before the Job is resumed (KEP-5440)
    const { startTime: _stopped, ...statusWithoutStart } = status;
    if (present?.status === 'True') return statusWithoutStart;
    recorder.event(job, 'Normal', 'Suspended', 'Job suspended');
    const condition = { type: 'Suspended', status: 'True' as const, reason: 'JobSuspended', message: 'Job suspended' };
    return withCondition(statusWithoutStart, condition, nowMs);
  }
  if (present === undefined || present.status === 'False') return status;
  recorder.event(job, 'Normal', 'Resumed', 'Job resumed');
  // the active deadline restarts on resume
  const condition = { type: 'Suspended', status: 'False' as const, reason: 'JobResumed', message: 'Job resumed' };
  return { ...withCondition(status, condition, nowMs), startTime: formatTime(nowMs) };
}
