import type { Clock } from '@oarlock/primitives/clock';
import type { Status } from '@oarlock/spi/scheduling';
import { Counter, exponentialBuckets, Gauge, Histogram, type Registry } from 'prom-client';
import type { ExtensionPointObserver, ObservedExtensionPoint } from '../framework/extension-point-observer.ts';

/** The labels of upstream's status codes. */
const codeLabels: Readonly<Record<Status['code'], string>> = {
  success: 'Success',
  skip: 'Skip',
  unschedulable: 'Unschedulable',
  unresolvable: 'UnschedulableAndUnresolvable',
  pending: 'Pending',
  error: 'Error',
  wait: 'Wait',
};

/** From this number on, attempts share one value of the label. */
const manyAttempts = 15;

export interface SchedulerMetricsOptions {
  readonly registry: Registry;
  readonly clock: Pick<Clock, 'monotonic'>;
  /** Returns the number of pods in each sub-queue of the scheduling queue, or undefined while no scheduler runs. */
  pendingPods(): Readonly<Record<string, number>> | undefined;
}

/** The main metrics of kube-scheduler, under upstream's names. */
export class SchedulerMetrics {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #attempts: Counter<'result' | 'profile'>;
  readonly #durations: Histogram<'result' | 'profile'>;
  readonly #extensionPoints: Histogram<'extension_point' | 'profile' | 'status'>;
  readonly #podAttempts: Histogram;
  readonly #podDurations: Histogram<'attempts'>;
  readonly #incomingPods: Counter<'queue' | 'event'>;
  readonly #scheduledAfterFlush: Counter;
  readonly #observers = new Map<string, ExtensionPointObserver>();

  constructor({ registry, clock, pendingPods }: SchedulerMetricsOptions) {
    const registers = [registry];
    this.#clock = clock;
    this.#attempts = new Counter({
      name: 'scheduler_schedule_attempts_total',
      help: 'Number of attempts to schedule pods, by the result.',
      labelNames: ['result', 'profile'],
      registers,
    });
    this.#durations = new Histogram({
      name: 'scheduler_scheduling_attempt_duration_seconds',
      help: 'Scheduling attempt latency in seconds, from the queue to the end of the binding.',
      labelNames: ['result', 'profile'],
      buckets: exponentialBuckets(0.001, 2, 15),
      registers,
    });
    this.#extensionPoints = new Histogram({
      name: 'scheduler_framework_extension_point_duration_seconds',
      help: 'Latency for running all plugins of an extension point, in seconds.',
      labelNames: ['extension_point', 'profile', 'status'],
      buckets: exponentialBuckets(0.0001, 2, 12),
      registers,
    });
    this.#podAttempts = new Histogram({
      name: 'scheduler_pod_scheduling_attempts',
      help: 'Number of attempts that it took to schedule a pod.',
      buckets: exponentialBuckets(1, 2, 5),
      registers,
    });
    this.#podDurations = new Histogram({
      name: 'scheduler_pod_scheduling_sli_duration_seconds',
      help: 'Time from the first attempt to schedule a pod until it is bound, in seconds, by the number of attempts.',
      labelNames: ['attempts'],
      buckets: exponentialBuckets(0.01, 2, 20),
      registers,
    });
    this.#incomingPods = new Counter({
      name: 'scheduler_queue_incoming_pods_total',
      help: 'Number of pods added to scheduling queues, by queue and event.',
      labelNames: ['queue', 'event'],
      registers,
    });
    this.#scheduledAfterFlush = new Counter({
      name: 'scheduler_pod_scheduled_after_flush_total',
      help: 'Number of pods that were scheduled after the timeout of unschedulablePods; an increase points at queueing hints that miss events.',
      registers,
    });
    new Gauge({
      name: 'scheduler_pending_pods',
      help: 'Number of pending pods, by queue.',
      labelNames: ['queue'],
      registers,
      collect() {
        for (const [queue, size] of Object.entries(pendingPods() ?? {})) this.set({ queue }, size);
      },
    });
  }

  observeAttempt(result: 'scheduled' | 'unschedulable' | 'error', profile: string, ms: number): void {
    this.#attempts.inc({ result, profile });
    this.#durations.observe({ result, profile }, ms / 1000);
  }

  /** Observes a bound pod. `now` is in milliseconds on the monotonic clock. */
  observeScheduledPod(
    {
      attempts,
      firstAttemptAt = 0,
      flushedFromUnschedulable,
    }: { readonly attempts: number; readonly firstAttemptAt: number | undefined; readonly flushedFromUnschedulable: boolean },
    now: number,
  ): void {
    this.#podAttempts.observe(attempts);
    const label = attempts >= manyAttempts ? `${manyAttempts}+` : String(attempts);
    this.#podDurations.observe({ attempts: label }, (now - firstAttemptAt) / 1000);
    if (flushedFromUnschedulable) this.#scheduledAfterFlush.inc(); // no event requeued the pod
  }

  countIncomingPod(queue: 'active' | 'backoff' | 'unschedulable', event: string): void {
    this.#incomingPods.inc({ queue, event });
  }

  /** Returns the observer of the cycles of one profile. */
  observerOf(profile: string): ExtensionPointObserver {
    const known = this.#observers.get(profile);
    if (known !== undefined) return known;
    const observer: ExtensionPointObserver = {
      now: () => this.#clock.monotonic(),
      observe: (point: ObservedExtensionPoint, code: Status['code'], startedAt: number) =>
        this.#extensionPoints.observe(
          { extension_point: point, profile, status: codeLabels[code] },
          (this.#clock.monotonic() - startedAt) / 1000,
        ),
    };
    this.#observers.set(profile, observer);
    return observer;
  }
}
