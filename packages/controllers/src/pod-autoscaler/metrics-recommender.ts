import { parseLabelSelector, type Selector } from '@oarlock/api/selectors/label-selector';
import { objectKey, type ObjectKey } from '@oarlock/api/object';
import type { MetricStatus } from '@oarlock/api/types/autoscaling-v2';
import type { Pod } from '@oarlock/api/types/core-v1';
import { parseQuantity } from '@oarlock/api/values/quantity';
import type { Clock } from '@oarlock/primitives/clock';
import type { EventRecorder, Informer } from '@oarlock/spi/client';
import type { DiscoveredKinds } from '../discovery/discovered-kinds.ts';
import type { Scale } from '../discovery/scale-resource.ts';
import { labelKey, podsByLabelIndex } from '../indexes/pods-by-label.ts';
import { setCondition, type AutoscalerSync } from './autoscaler-sync.ts';
import { computeReplicasForMetric, MetricError, type MetricContext, type ScaleSubject } from './metric-proposals.ts';
import type { MetricsClient } from './metrics-client.ts';
import { PodSelectorConflicts } from './pod-selector-conflicts.ts';

export interface MetricsRecommenderSettings {
  /** Default tolerance, as a fraction of the target value. */
  readonly tolerance: number;
  readonly cpuInitializationSeconds: number;
  readonly initialReadinessSeconds: number;
}

export interface MetricsRecommenderOptions {
  readonly pods: Informer<Pod>;
  readonly metrics: MetricsClient;
  readonly kinds: Pick<DiscoveredKinds, 'find'>;
  readonly recorder: EventRecorder;
  readonly clock: Clock;
  readonly settings: MetricsRecommenderSettings;
}

/** A recommended number of replicas, and the name of the metric that requires this number. */
export interface Recommendation {
  readonly replicas: number;
  readonly name: string;
}

interface EvaluatedMetrics {
  readonly best: Recommendation | undefined;
  readonly failures: readonly MetricError[];
}

/**
 * Computes the replicas of a HorizontalPodAutoscaler from its metrics, and sets its ScalingActive condition (computeReplicasForMetrics
 * upstream).
 */
export class MetricsRecommender {
  readonly #options: MetricsRecommenderOptions;
  readonly #selectors = new PodSelectorConflicts();

  constructor(options: MetricsRecommenderOptions) {
    this.#options = options;
  }

  /** Removes a deleted HorizontalPodAutoscaler from the detection of conflicting selectors. */
  forget(key: ObjectKey): void {
    this.#selectors.delete(key);
  }

  /**
   * Returns the largest number of replicas that any metric requires. If a metric is not available, the other metrics can raise the current number
   * but not lower it. Returns undefined if no number can be computed; the condition and events contain the reason.
   */
  async recommend(sync: AutoscalerSync, scale: Scale, current: number): Promise<Recommendation | undefined> {
    const namespace = sync.autoscaler.metadata?.namespace ?? '';
    const text = scale.status?.selector ?? '';
    const selector = this.#parseSelector(sync, text);
    if (selector === undefined) return undefined;
    const pods = this.#podsMatching(namespace, selector);
    if (this.#hasConflict(sync, { selector, text, pods })) return undefined;
    const statusReplicas = scale.status?.replicas ?? 0;
    const evaluated = await this.#evaluate(sync, { namespace, selector: text, pods, specReplicas: current, statusReplicas });
    return this.#choose(sync, evaluated, current);
  }

  #parseSelector(sync: AutoscalerSync, text: string): Selector | undefined {
    if (text === '') {
      this.#fail(sync, {
        event: 'SelectorRequired',
        reason: 'InvalidSelector',
        message: "the HPA target's scale is missing a selector",
        eventMessage: 'selector is required',
      });
      return undefined;
    }
    try {
      return parseLabelSelector(text);
    } catch (error) {
      const message = `couldn't convert selector into a corresponding internal selector object: ${(error as Error).message}`;
      this.#fail(sync, { event: 'InvalidSelector', reason: 'InvalidSelector', message });
      return undefined;
    }
  }

  #podsMatching(namespace: string, selector: Selector): readonly Pod[] {
    const { pods } = this.#options;
    const first = selector.requirements.find(({ operator, values }) => operator === '=' && values.length === 1);
    const candidates =
      first === undefined ? pods.list(namespace) : pods.byIndex(podsByLabelIndex, labelKey(namespace, first.key, first.values[0] ?? ''));
    return candidates.filter((pod) => selector.matches(pod.metadata?.labels));
  }

  /** Records the pod selector of an autoscaler. Returns true if another autoscaler selects the same pods. */
  #hasConflict(
    sync: AutoscalerSync,
    { selector, text, pods }: { readonly selector: Selector; readonly text: string; readonly pods: readonly Pod[] },
  ): boolean {
    const { namespace = '', name = '' } = sync.autoscaler.metadata ?? {};
    this.#selectors.set(objectKey(sync.autoscaler), { namespace, name, selector });
    const autoscalers = this.#selectors.autoscalersSelecting(namespace, pods);
    if (autoscalers.length <= 1) return false;
    const message = `pods by selector ${text} are controlled by multiple HPAs: [${autoscalers.join(' ')}]`;
    this.#fail(sync, { event: 'AmbiguousSelector', reason: 'AmbiguousSelector', message });
    return true;
  }

  /** Records the events and the ScalingActive condition of an autoscaler whose replicas cannot be computed. */
  #fail(
    sync: AutoscalerSync,
    {
      event,
      reason,
      message,
      eventMessage = message,
    }: { readonly event: string; readonly reason: string; readonly message: string; readonly eventMessage?: string | undefined },
  ): void {
    const { recorder, clock } = this.#options;
    recorder.event(sync.autoscaler, 'Warning', event, eventMessage);
    recorder.event(sync.autoscaler, 'Warning', 'FailedComputeMetricsReplicas', eventMessage);
    setCondition(sync, { type: 'ScalingActive', status: 'False', reason, message }, clock.now());
  }

  #contextOf({ autoscaler, client }: AutoscalerSync, subject: ScaleSubject): MetricContext {
    const { metrics, kinds, clock, settings } = this.#options;
    const { behavior } = autoscaler.spec;
    const fraction = (tolerance: string | number | undefined) =>
      tolerance === undefined ? settings.tolerance : Number(parseQuantity(tolerance).nanos) / 1e9;
    return {
      subject,
      source: metrics,
      kinds,
      client,
      tolerances: { up: fraction(behavior?.scaleUp?.tolerance), down: fraction(behavior?.scaleDown?.tolerance) },
      timing: {
        nowMs: clock.now(),
        cpuInitializationMs: settings.cpuInitializationSeconds * 1000,
        initialReadinessMs: settings.initialReadinessSeconds * 1000,
      },
    };
  }

  /** Evaluates each metric, and records the metric statuses for the status of the autoscaler. */
  async #evaluate(sync: AutoscalerSync, subject: ScaleSubject): Promise<EvaluatedMetrics> {
    const context = this.#contextOf(sync, subject);
    let best: Recommendation | undefined;
    const statuses: MetricStatus[] = [];
    const failures: MetricError[] = [];
    for (const spec of sync.autoscaler.spec.metrics ?? []) {
      try {
        const { replicas, name, status } = await computeReplicasForMetric(spec, context);
        statuses.push(status);
        if (best === undefined || best.replicas === 0 || replicas > best.replicas) best = { replicas, name };
      } catch (error) {
        if (!(error instanceof MetricError)) throw error;
        this.#options.recorder.event(sync.autoscaler, 'Warning', error.reason, error.message);
        // upstream's list has an empty entry for a metric that is not available
        statuses.push({ type: '' });
        failures.push(error);
      }
    }
    sync.metrics = statuses;
    return { best, failures };
  }

  #choose(sync: AutoscalerSync, { best, failures }: EvaluatedMetrics, current: number): Recommendation | undefined {
    const { recorder, clock } = this.#options;
    const [failure] = failures;
    if (failure !== undefined && (best === undefined || best.replicas < current)) {
      const message = `the HPA was unable to compute the replica count: ${failure.message}`;
      setCondition(sync, { type: 'ScalingActive', status: 'False', reason: failure.reason, message }, clock.now());
      recorder.event(
        sync.autoscaler,
        'Warning',
        'FailedComputeMetricsReplicas',
        `invalid metrics (${failures.length} invalid out of ${sync.autoscaler.spec.metrics?.length ?? 0}), first error is: ${failure.summary}`,
      );
      return undefined;
    }
    if (best === undefined) return { replicas: current, name: '' };
    const message = `the HPA was able to successfully calculate a replica count from ${best.name}`;
    setCondition(sync, { type: 'ScalingActive', status: 'True', reason: 'ValidMetricFound', message }, clock.now());
    return best;
  }
}
