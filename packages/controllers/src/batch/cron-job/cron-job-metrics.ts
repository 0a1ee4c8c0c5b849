import { exponentialBuckets, Histogram, type Registry } from 'prom-client';

/** The metric of the cronjob controller, under upstream's name. */
export class CronJobMetrics {
  readonly #creationSkew: Histogram;

  constructor(registry: Registry) {
    this.#creationSkew = new Histogram({
      name: 'cronjob_controller_job_creation_skew_duration_seconds',
      help: 'Time between when a cronjob is scheduled to be run, and when the corresponding job is created, in seconds.',
      buckets: exponentialBuckets(1, 2, 10),
      registers: [registry],
    });
  }

  observeCreation(scheduledMs: number, createdMs: number): void {
    this.#creationSkew.observe((createdMs - scheduledMs) / 1000);
  }
}
