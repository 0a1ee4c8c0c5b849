import type { Job } from '@oarlock/api/types/batch-v1';
import { Counter, exponentialBuckets, Histogram, type Registry } from 'prom-client';

/** What a sync of a Job did, as upstream's metrics name it. */
export type JobSyncAction = 'reconciling' | 'tracking' | 'pods_created' | 'pods_deleted';

const completionMode = ({ spec }: Job): string => spec?.completionMode ?? 'NonIndexed';

/** The metrics of the job controller, under upstream's names. */
export class JobMetrics {
  readonly #syncs: Counter<'completion_mode' | 'result' | 'action'>;
  readonly #durations: Histogram<'completion_mode' | 'result' | 'action'>;
  readonly #finishedJobs: Counter<'completion_mode' | 'result' | 'reason'>;
  readonly #finishedPods: Counter<'completion_mode' | 'result'>;

  constructor(registry: Registry) {
    const registers = [registry];
    this.#syncs = new Counter({
      name: 'job_controller_job_syncs_total',
      help: 'Number of job syncs.',
      labelNames: ['completion_mode', 'result', 'action'],
      registers,
    });
    this.#durations = new Histogram({
      name: 'job_controller_job_sync_duration_seconds',
      help: 'Time that it took to sync a job, in seconds.',
      labelNames: ['completion_mode', 'result', 'action'],
      buckets: exponentialBuckets(0.004, 2, 15),
      registers,
    });
    this.#finishedJobs = new Counter({
      name: 'job_controller_jobs_finished_total',
      help: 'Number of finished jobs, by the reason of the condition.',
      labelNames: ['completion_mode', 'result', 'reason'],
      registers,
    });
    this.#finishedPods = new Counter({
      name: 'job_controller_job_pods_finished_total',
      help: 'Number of finished pods of jobs that are fully tracked.',
      labelNames: ['completion_mode', 'result'],
      registers,
    });
  }

  observeSync(job: Job, { action, failed, ms }: { readonly action: JobSyncAction; readonly failed: boolean; readonly ms: number }): void {
    const labels = { completion_mode: completionMode(job), result: failed ? 'error' : 'success', action };
    this.#syncs.inc(labels);
    this.#durations.observe(labels, ms / 1000);
  }

  /** Counts the pods by which the counts of the status grew. */
  countFinishedPods(before: Job, after: Job): void {
    for (const result of ['succeeded', 'failed'] as const) {
      const growth = (after.status?.[result] ?? 0) - (before.status?.[result] ?? 0);
      if (growth > 0) this.#finishedPods.inc({ completion_mode: completionMode(after), result }, growth);
    }
  }

  countFinishedJob(job: Job): void {
    const condition = job.status?.conditions?.find(({ type, status }) => (type === 'Complete' || type === 'Failed') && status === 'True');
    if (condition === undefined) return;
    const result = condition.type === 'Complete' ? 'succeeded' : 'failed';
    this.#finishedJobs.inc({ completion_mode: completionMode(job), result, reason: condition.reason ?? '' });
  }
}
