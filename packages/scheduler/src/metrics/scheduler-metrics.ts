import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

/** The main metrics of kube-scheduler, under upstream's names. */
export class SchedulerMetrics {
  readonly #attempts: Counter<'result' | 'profile'>;
  readonly #durations: Histogram<'result' | 'profile'>;
  readonly #scheduledAfterFlush: Counter;

  constructor(
    registry: Registry,
    /** Returns the number of pods in each sub-queue of the scheduling queue, or undefined while no scheduler runs. */
    pendingPods: () => Readonly<Record<string, number>> | undefined,
  ) {
    this.#attempts = new Counter({
      name: 'scheduler_schedule_attempts_total',
      help: 'Number of attempts to schedule pods, by the result.',
      labelNames: ['result', 'profile'],
      registers: [registry],
    });
    this.#durations = new Histogram({
      name: 'scheduler_scheduling_attempt_duration_seconds',
      help: 'Scheduling attempt latency in seconds, from the queue to the end of the binding.',
      labelNames: ['result', 'profile'],
      buckets: [0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1, 2, 4],
      registers: [registry],
    });
    this.#scheduledAfterFlush = new Counter({
      name: 'scheduler_pod_scheduled_after_flush_total',
      help: 'Number of pods that were scheduled after the timeout of unschedulablePods; an increase points at queueing hints that miss events.',
      registers: [registry],
    });
    new Gauge({
      name: 'scheduler_pending_pods',
      help: 'Number of pending pods, by queue.',
      labelNames: ['queue'],
      registers: [registry],
      collect() {
        for (const [queue, size] of Object.entries(pendingPods() ?? {})) this.set({ queue }, size);
      },
    });
  }

  observeAttempt(result: 'scheduled' | 'unschedulable' | 'error', profile: string, ms: number): void {
    this.#attempts.inc({ result, profile });
    this.#durations.observe({ result, profile }, ms / 1000);
  }

  /** Counts a pod that was scheduled although no event requeued it. */
  countScheduledAfterFlush(): void {
    this.#scheduledAfterFlush.inc();
  }
}
