import { controllerRef } from '@oarlock/api/object';
import { cronJobs } from '@oarlock/api/resources';
import type { CronJob, Job } from '@oarlock/api/types/batch-v1';
import { withTypeMeta } from '../../objects/object-identity.ts';
import { TimeZone } from './time-zone.ts';

const scheduledTimestampAnnotation = 'batch.kubernetes.io/cronjob-scheduled-timestamp';

/** Returns the name of the Job for a scheduled time. The name is unique for each minute. */
export const jobName = ({ metadata }: CronJob, scheduledMs: number): string => `${metadata?.name}-${Math.floor(scheduledMs / 60_000)}`;

/** Returns the Job for a scheduled time, built from the Job template of a CronJob (getJobFromTemplate2 upstream). */
export function jobFromTemplate(cronJob: CronJob, scheduledMs: number): Job {
  const { metadata, spec } = cronJob.spec.jobTemplate;
  // without `timeZone` the annotation is in UTC, whatever the controller's time zone, as upstream
  const zone = new TimeZone(cronJob.spec.timeZone ?? 'UTC');
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: {
      name: jobName(cronJob, scheduledMs),
      namespace: cronJob.metadata?.namespace ?? '',
      ...(metadata?.labels && { labels: metadata.labels }),
      annotations: { ...metadata?.annotations, [scheduledTimestampAnnotation]: zone.format(scheduledMs) },
      ownerReferences: [controllerRef(withTypeMeta(cronJobs, cronJob))],
    },
    ...(spec && { spec }),
  };
}
