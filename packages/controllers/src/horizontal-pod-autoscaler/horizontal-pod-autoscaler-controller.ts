import { parseLabelSelector, type Selector } from '@oarlock/api/label-selector';
import { parseApiVersion } from '@oarlock/api/kinds';
import { objectKey, type ObjectKey } from '@oarlock/api/object';
import { horizontalPodAutoscalers, pods as podResource } from '@oarlock/api/resources';
import type { Resource } from '@oarlock/api/resource';
import { formatTime } from '@oarlock/api/time';
import type { HorizontalPodAutoscaler, HorizontalPodAutoscalerCondition, MetricStatus } from '@oarlock/api/types/autoscaling-v2';
import type { Pod } from '@oarlock/api/types/core-v1';
import { parseQuantity } from '@oarlock/api/quantity';
import type { Clock } from '@oarlock/kernel/clock';
import { Client, Events, Informers, type EventRecorder, type Informer } from '@oarlock/spi/client';
import { Controllers, watch, type Controller, type ReconcileContext, type ReconcileResult } from '@oarlock/spi/controller';
import { z } from 'zod';
import { DiscoveredKinds } from '../discovered-kinds.ts';
import { typed } from '../pod-template.ts';
import { byLabel, labelKey, podLabels } from '../pods-by-label.ts';
import { scaledResource, type Scale } from '../scale-kinds.ts';
import { MetricError, proposalOf, type Subject } from './metric-proposals.ts';
import { aggregatedMetrics, type MetricsSource } from './pod-metrics.ts';
import { ScalingHistory } from './scaling-rules.ts';
import { unlessGone } from '../unless-gone.ts';
import { SelectorsInUse } from './selectors-in-use.ts';

export interface AutoscalerSettings {
  readonly syncPeriodSeconds: number;
  readonly tolerance: number;
  readonly downscaleStabilizationSeconds: number;
  readonly cpuInitializationSeconds: number;
  readonly initialReadinessSeconds: number;
}
interface Parts {
  readonly autoscalers: Informer<HorizontalPodAutoscaler>;
  readonly pods: Informer<Pod>;
  readonly metrics: MetricsSource;
  readonly kinds: DiscoveredKinds;
  readonly recorder: EventRecorder;
  readonly clock: Clock;
  readonly settings: AutoscalerSettings;
}
interface Target {
  readonly resource: Resource<Scale>;
  readonly scale: Scale;
}
/** One autoscaler at work: its conditions and numbers as they will be written. */
interface Look {
  readonly autoscaler: HorizontalPodAutoscaler;
  readonly client: Client;
  conditions: readonly HorizontalPodAutoscalerCondition[];
  metrics: readonly MetricStatus[] | undefined;
}

/** Keeps the replicas of something at what its metrics ask for. */
export class HorizontalPodAutoscalerController implements Controller {
  readonly name = 'horizontalpodautoscaler';
  readonly watches;
  readonly #parts: Parts;
  readonly #selectors = new SelectorsInUse();
  readonly #history = new Map<ObjectKey, ScalingHistory>();

  constructor(parts: Parts) {
    this.#parts = parts;
    parts.pods.addIndex(byLabel, podLabels);
    // its own status is no reason to look again: the next look comes in time
    this.watches = [
      ...parts.kinds.watches(),
      watch(parts.pods, () => []), // only asked, but it has to be there first
      watch(parts.autoscalers, (each, old) =>
        old === undefined || JSON.stringify(each.spec) !== JSON.stringify(old.spec) ? [objectKey(each)] : [],
      ),
    ];
  }

  follow(): () => void {
    return this.#parts.kinds.on();
  }

  async reconcile(key: ObjectKey, { client }: ReconcileContext): Promise<ReconcileResult | void> {
    const { autoscalers, settings } = this.#parts;
    const autoscaler = autoscalers.get(key);
    if (autoscaler === undefined) {
      this.#history.delete(key);
      this.#selectors.delete(key);
      return undefined;
    }
    const again = { requeueAfterMs: settings.syncPeriodSeconds * 1000 };
    const look: Look = { autoscaler, client, conditions: autoscaler.status?.conditions ?? [], metrics: undefined };
    const target = await this.#target(look);
    if (target === undefined) return again;
    await this.#scale(key, look, target);
    return again;
  }

  async #target(look: Look): Promise<Target | undefined> {
    const { autoscaler, client } = look;
    const { apiVersion = 'v1', kind: kindName, name } = autoscaler.spec.scaleTargetRef;
    await this.#parts.kinds.settled();
    try {
      const of = scaledResource(this.#parts.kinds, apiVersion, kindName);
      if (of === undefined) throw new Error(`no matches for kind "${kindName}" in group "${parseApiVersion(apiVersion).group}"`);
      const scale = await client.get(of, { namespace: autoscaler.metadata?.namespace ?? '', name }, { subresource: 'scale' });
      this.#condition(look, 'AbleToScale', 'True', 'SucceededGetScale', "the HPA controller was able to get the target's current scale");
      return { resource: of, scale };
    } catch (error) {
      const { message } = error as Error;
      this.#parts.recorder.event(autoscaler, 'Warning', 'FailedGetScale', message);
      this.#condition(
        look,
        'AbleToScale',
        'False',
        'FailedGetScale',
        `the HPA controller was unable to get the target's current scale: ${message}`,
      );
      await this.#write(look, autoscaler.status?.currentReplicas ?? 0, autoscaler.status?.desiredReplicas ?? 0, false);
      return undefined;
    }
  }

  async #scale(key: ObjectKey, look: Look, { resource: of, scale }: Target): Promise<void> {
    const { autoscaler, client } = look;
    const { recorder, clock, settings } = this.#parts;
    const { minReplicas: min = 1, maxReplicas: max, behavior } = autoscaler.spec;
    const now = clock.monotonic();
    const current = scale.spec?.replicas ?? 0;
    const history = this.#history.get(key) ?? new ScalingHistory(settings.downscaleStabilizationSeconds * 1000);
    this.#history.set(key, history);
    history.begin(current, now);
    let desired = current;
    let why = '';
    if (current === 0 && min !== 0) {
      this.#condition(
        look,
        'ScalingActive',
        'False',
        'ScalingDisabled',
        'scaling is disabled since the replica count of the target is zero',
      );
    } else if (current > max) {
      desired = max;
      why = 'Current number of replicas above Spec.MaxReplicas';
    } else if (current < min) {
      desired = min;
      why = 'Current number of replicas below Spec.MinReplicas';
    } else {
      const asked = await this.#ask(look, scale, current);
      if (asked === undefined) {
        await this.#write(look, current, autoscaler.status?.desiredReplicas ?? 0, false);
        return;
      }
      const smooth = history.stabilize(asked.replicas, current, behavior, now);
      this.#condition(look, 'AbleToScale', 'True', smooth.why.reason, smooth.why.message);
      const bounded = history.limit({ current, desired: smooth.replicas, min, max }, behavior, now);
      this.#condition(look, 'ScalingLimited', bounded.limited ? 'True' : 'False', bounded.why.reason, bounded.why.message);
      desired = bounded.replicas;
      why = desired > current ? `${asked.name} above target` : 'All metrics below target';
    }
    if (desired !== current) {
      try {
        await client.update(
          of,
          { ...scale, apiVersion: 'autoscaling/v1', kind: 'Scale', spec: { ...scale.spec, replicas: desired } },
          { subresource: 'scale' },
        );
      } catch (error) {
        const { message } = error as Error;
        recorder.event(autoscaler, 'Warning', 'FailedRescale', `New size: ${desired}; reason: ${why}; error: ${message}`);
        this.#condition(
          look,
          'AbleToScale',
          'False',
          'FailedUpdateScale',
          `the HPA controller was unable to update the target scale: ${message}`,
        );
        await this.#write(look, current, autoscaler.status?.desiredReplicas ?? 0, false);
        throw error;
      }
      const able = `the HPA controller was able to update the target scale to ${desired}`;
      this.#condition(look, 'AbleToScale', 'True', 'SucceededRescale', able);
      recorder.event(autoscaler, 'Normal', 'SuccessfulRescale', `New size: ${desired}; reason: ${why}`);
      history.scaled(current, desired, behavior, now);
    }
    await this.#write(look, current, desired, desired !== current);
  }

  /** The largest of what the metrics ask for. When one cannot be had, the others may raise the number but not lower it. */
  async #ask(look: Look, scale: Scale, current: number): Promise<{ readonly replicas: number; readonly name: string } | undefined> {
    const { autoscaler, client } = look;
    const { pods, metrics: source, recorder, clock, settings } = this.#parts;
    const namespace = autoscaler.metadata?.namespace ?? '';
    const text = scale.status?.selector ?? '';
    const refuse = (event: string, reason: string, message: string, error = message): undefined => {
      recorder.event(autoscaler, 'Warning', event, error);
      recorder.event(autoscaler, 'Warning', 'FailedComputeMetricsReplicas', error);
      this.#condition(look, 'ScalingActive', 'False', reason, message);
    };
    if (text === '')
      return refuse('SelectorRequired', 'InvalidSelector', "the HPA target's scale is missing a selector", 'selector is required');
    let selector: Selector;
    try {
      selector = parseLabelSelector(text);
    } catch (error) {
      const message = `couldn't convert selector into a corresponding internal selector object: ${(error as Error).message}`;
      return refuse('InvalidSelector', 'InvalidSelector', message);
    }
    const first = selector.requirements.find(({ operator, values }) => operator === '=' && values.length === 1);
    const candidates =
      first === undefined ? pods.list(namespace) : pods.byIndex(byLabel, labelKey(namespace, first.key, first.values[0] ?? ''));
    const chosen = candidates.filter((pod) => selector.matches(pod.metadata?.labels));
    this.#selectors.set(objectKey(autoscaler), { namespace, name: autoscaler.metadata?.name ?? '', selector });
    const all = this.#selectors.of(namespace, chosen);
    if (all.length > 1)
      return refuse(
        'AmbiguousSelector',
        'AmbiguousSelector',
        `pods by selector ${text} are controlled by multiple HPAs: [${all.join(' ')}]`,
      );
    const subject: Subject = {
      namespace,
      selector: text,
      pods: chosen,
      wanted: current,
      running: scale.status?.replicas ?? 0,
    };
    const { behavior, metrics = [] } = autoscaler.spec;
    const part = (tolerance: string | number | undefined) =>
      tolerance === undefined ? settings.tolerance : Number(parseQuantity(tolerance).nanos) / 1e9;
    const tolerances = { up: part(behavior?.scaleUp?.tolerance), down: part(behavior?.scaleDown?.tolerance) };
    const timing = {
      nowMs: clock.now(),
      cpuInitializationMs: settings.cpuInitializationSeconds * 1000,
      initialReadinessMs: settings.initialReadinessSeconds * 1000,
    };
    let best: { replicas: number; name: string } | undefined;
    const statuses: MetricStatus[] = [];
    const failures: MetricError[] = [];
    for (const spec of metrics) {
      try {
        const { replicas, name, status } = await proposalOf(spec, subject, source, client, tolerances, timing);
        statuses.push(status);
        if (best === undefined || replicas > best.replicas) best = { replicas, name };
      } catch (error) {
        if (!(error instanceof MetricError)) throw error;
        recorder.event(autoscaler, 'Warning', error.reason, error.message);
        failures.push(error);
      }
    }
    look.metrics = statuses;
    const [failure] = failures;
    if (failure !== undefined && (best === undefined || best.replicas < current)) {
      this.#condition(
        look,
        'ScalingActive',
        'False',
        failure.reason,
        `the HPA was unable to compute the replica count: ${failure.message}`,
      );
      recorder.event(
        autoscaler,
        'Warning',
        'FailedComputeMetricsReplicas',
        `invalid metrics (${failures.length} invalid out of ${metrics.length}), first error is: ${failure.message}`,
      );
      return undefined;
    }
    if (best === undefined) return { replicas: current, name: '' };
    this.#condition(
      look,
      'ScalingActive',
      'True',
      'ValidMetricFound',
      `the HPA was able to successfully calculate a replica count from ${best.name}`,
    );
    return best;
  }

  #condition(look: Look, type: string, status: 'True' | 'False', reason: string, message: string): void {
    const old = look.conditions.find((each) => each.type === type);
    const lastTransitionTime = old?.status === status ? (old.lastTransitionTime ?? '') : formatTime(this.#parts.clock.now());
    const next = { type, status, reason, message, lastTransitionTime };
    look.conditions = old === undefined ? [...look.conditions, next] : look.conditions.map((each) => (each === old ? next : each));
  }

  async #write({ autoscaler, client, conditions, metrics }: Look, current: number, desired: number, rescaled: boolean): Promise<void> {
    const old = autoscaler.status;
    const currentMetrics = metrics ?? old?.currentMetrics;
    const status = {
      ...old,
      observedGeneration: autoscaler.metadata?.generation ?? 0,
      currentReplicas: current,
      desiredReplicas: desired,
      conditions,
      ...(currentMetrics !== undefined && { currentMetrics }),
      ...(rescaled && { lastScaleTime: formatTime(this.#parts.clock.now()) }),
    };
    if (JSON.stringify(Object.entries(status).sort()) === JSON.stringify(Object.entries(old ?? {}).sort())) return;
    const changed = { ...typed(horizontalPodAutoscalers, autoscaler), status };
    await unlessGone(() => client.update(horizontalPodAutoscalers, changed, { subresource: 'status' }));
  }
}

export default Controllers.plugin({
  id: 'controller-horizontal-pod-autoscaler',
  declares: { loop: 'horizontalpodautoscaler' },
  config: z.strictObject({
    syncPeriodSeconds: z.number().int().min(1).default(15),
    /** How far from its target a metric may be without anything being done. */
    tolerance: z.number().min(0).default(0.1),
    /** So long the highest recommendation holds before replicas are taken away, where no behaviour says otherwise. */
    downscaleStabilizationSeconds: z.number().int().min(0).default(300),
    /** So long after its start a pod's processor time counts only when it is ready. */
    cpuInitializationSeconds: z.number().int().min(0).default(300),
    /** A pod that was never ready within this time of its start has still to become so. */
    initialReadinessSeconds: z.number().int().min(0).default(30),
  }),
  needs: { informers: Informers, events: Events, client: Client },
  create: ({ config, informers, events, client }, { clock, log }) =>
    new HorizontalPodAutoscalerController({
      autoscalers: informers.of(horizontalPodAutoscalers),
      pods: informers.of(podResource),
      metrics: aggregatedMetrics,
      kinds: DiscoveredKinds.of({ informers, client, clock, log, random: Math.random }),
      recorder: events.recorder('horizontal-pod-autoscaler'),
      clock,
      settings: config,
    }),
});
