import type { Clock } from '@oarlock/primitives/clock';
import type { Status } from '@oarlock/spi/scheduling';
import { PrecomputedHistogram, readCounter, type Observer } from '@oarlock/kernel/precomputed-metrics';
import { Counter, exponentialBuckets, Gauge, type Registry } from 'prom-client';
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

/** Returns what a function creates for a key, and keeps it. */
function keptBy<T>(known: Map<string, T>, key: string, create: () => T): T {
  let value = known.get(key);
  if (value === undefined) known.set(key, (value = create()));
  return value;
}

/** A counter for each combination of labels. */
interface Count {
  readonly labels: Readonly<Record<string, string>>;
  value: number;
}

/**
 * The main metrics of kube-scheduler, under upstream's names. The series are kept: looking them up by their labels took a tenth of the time of a scheduled
 * pod.
 */
export class SchedulerMetrics {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #attempts = new Map<string, Count>();
  readonly #durations: PrecomputedHistogram;
  readonly #durationSeries = new Map<string, Observer>();
  readonly #extensionPoints: PrecomputedHistogram;
  readonly #podAttempts: Observer;
  readonly #podDurations: PrecomputedHistogram;
  readonly #podDurationSeries = new Map<string, Observer>();
  readonly #incomingPods = new Map<string, Count>();
  readonly #scheduledAfterFlush: Counter;
  readonly #observers = new Map<string, ExtensionPointObserver>();

  constructor({ registry, clock, pendingPods }: SchedulerMetricsOptions) {
    this.#clock = clock;
    countMetric(registry, this.#attempts, {
      name: 'scheduler_schedule_attempts_total',
      help: 'Number of attempts to schedule pods, by the result.',
      labelNames: ['result', 'profile'],
    });
    countMetric(registry, this.#incomingPods, {
      name: 'scheduler_queue_incoming_pods_total',
      help: 'Number of pods added to scheduling queues, by queue and event.',
      labelNames: ['queue', 'event'],
    });
    this.#durations = new PrecomputedHistogram({
      name: 'scheduler_scheduling_attempt_duration_seconds',
      help: 'Scheduling attempt latency in seconds, from the queue to the end of the binding.',
      labelNames: ['result', 'profile'],
      buckets: exponentialBuckets(0.001, 2, 15),
      registry,
    });
    this.#extensionPoints = new PrecomputedHistogram({
      name: 'scheduler_framework_extension_point_duration_seconds',
      help: 'Latency for running all plugins of an extension point, in seconds.',
      labelNames: ['extension_point', 'profile', 'status'],
      buckets: exponentialBuckets(0.0001, 2, 12),
      registry,
    });
    this.#podAttempts = new PrecomputedHistogram({
      name: 'scheduler_pod_scheduling_attempts',
      help: 'Number of attempts that it took to schedule a pod.',
      labelNames: [],
      buckets: exponentialBuckets(1, 2, 5),
      registry,
    }).series({});
    this.#podDurations = new PrecomputedHistogram({
      name: 'scheduler_pod_scheduling_sli_duration_seconds',
      help: 'Time from the first attempt to schedule a pod until it is bound, in seconds, by the number of attempts.',
      labelNames: ['attempts'],
      buckets: exponentialBuckets(0.01, 2, 20),
      registry,
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
    const key = `${result} ${profile}`;
    keptBy(this.#attempts, key, () => ({ labels: { result, profile }, value: 0 })).value += 1;
    keptBy(this.#durationSeries, key, () => this.#durations.series({ result, profile })).observe(ms / 1000);
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
    const durations = keptBy(this.#podDurationSeries, label, () => this.#podDurations.series({ attempts: label }));
    durations.observe((now - firstAttemptAt) / 1000);
    if (flushedFromUnschedulable) this.#scheduledAfterFlush.inc(); // no event requeued the pod
  }

  countIncomingPod(queue: 'active' | 'backoff' | 'unschedulable', event: string): void {
    keptBy(this.#incomingPods, `${queue} ${event}`, () => ({ labels: { queue, event }, value: 0 })).value += 1;
  }

  /** Returns the observer of the cycles of one profile. */
  observerOf(profile: string): ExtensionPointObserver {
    return keptBy(this.#observers, profile, () => {
      const series = new Map<string, Observer>();
      return {
        now: () => this.#clock.monotonic(),
        observe: (point: ObservedExtensionPoint, code: Status['code'], startedAt: number) =>
          keptBy(series, `${point} ${code}`, () =>
            this.#extensionPoints.series({ extension_point: point, profile, status: codeLabels[code] }),
          ).observe((this.#clock.monotonic() - startedAt) / 1000),
      };
    });
  }
}

function countMetric(
  registry: Registry,
  counts: ReadonlyMap<string, Count>,
  options: { readonly name: string; readonly help: string; readonly labelNames: readonly string[] },
): void {
  readCounter(registry, options, function* () {
    for (const { labels, value } of counts.values()) yield [labels, value] as const;
  });
}
