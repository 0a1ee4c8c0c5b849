import { parseApiVersion } from '@oarlock/api/kinds';
import { objectKey, type ObjectKey } from '@oarlock/api/object';
import { horizontalPodAutoscalers, pods as podResource } from '@oarlock/api/resources';
import type { Resource } from '@oarlock/api/resource';
import { isStatus } from '@oarlock/api/status';
import { formatTime } from '@oarlock/api/values/time';
import type { HorizontalPodAutoscaler } from '@oarlock/api/types/autoscaling-v2';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/primitives/clock';
import { Client, Events, Informers, type EventRecorder, type Informer } from '@oarlock/spi/client';
import { Controllers, watch, type Controller, type ReconcileContext, type ReconcileResult } from '@oarlock/spi/controller';
import { z } from 'zod';
import { DiscoveredKinds } from '../discovery/discovered-kinds.ts';
import { scaleResource, type Scale } from '../discovery/scale-resource.ts';
import { ignoreNotFound } from '../errors/ignore-not-found.ts';
import { podLabelKeys, podsByLabelIndex } from '../indexes/pods-by-label.ts';
import { withTypeMeta } from '../objects/object-identity.ts';
import { setCondition, type AutoscalerSync } from './autoscaler-sync.ts';
import { restMetricsClient, type MetricsClient } from './metrics-client.ts';
import { MetricsRecommender, type MetricsRecommenderSettings } from './metrics-recommender.ts';
import { ScalingHistory } from './scaling-behavior.ts';

export interface AutoscalerSettings extends MetricsRecommenderSettings {
  readonly syncPeriodSeconds: number;
  readonly downscaleStabilizationSeconds: number;
}
interface HorizontalPodAutoscalerControllerOptions {
  readonly autoscalers: Informer<HorizontalPodAutoscaler>;
  readonly pods: Informer<Pod>;
  readonly metrics: MetricsClient;
  readonly kinds: DiscoveredKinds;
  readonly recorder: EventRecorder;
  readonly clock: Clock;
  readonly settings: AutoscalerSettings;
}
interface ScaleTarget {
  readonly resource: Resource<Scale>;
  readonly scale: Scale;
}
/** The number of replicas to set, and the reason for events; the reason is '' if the number does not change. */
interface DesiredScale {
  readonly replicas: number;
  readonly reason: string;
}

/** Scales the targets of HorizontalPodAutoscalers to the replicas that their metrics require. */
export class HorizontalPodAutoscalerController implements Controller {
  readonly name = 'horizontalpodautoscaler';
  readonly watches;
  readonly #options: HorizontalPodAutoscalerControllerOptions;
  readonly #recommender: MetricsRecommender;
  readonly #history = new Map<ObjectKey, ScalingHistory>();

  constructor(options: HorizontalPodAutoscalerControllerOptions) {
    this.#options = options;
    this.#recommender = new MetricsRecommender(options);
    options.pods.addIndexer(podsByLabelIndex, podLabelKeys);
    // changes of the status are ignored: the next reconcile follows after the sync period
    this.watches = [
      ...options.kinds.watches(),
      watch(options.pods, () => []), // pods are only read, but must have synced
      watch(options.autoscalers, (each, old) =>
        old === undefined || JSON.stringify(each.spec) !== JSON.stringify(old.spec) ? [objectKey(each)] : [],
      ),
    ];
  }

  addDynamicWatches(): () => void {
    return this.#options.kinds.on();
  }

  async reconcile(key: ObjectKey, { client }: ReconcileContext): Promise<ReconcileResult | void> {
    const { autoscalers, settings } = this.#options;
    const autoscaler = autoscalers.get(key);
    if (autoscaler === undefined) {
      this.#history.delete(key);
      this.#recommender.forget(key);
      return undefined;
    }
    const sync: AutoscalerSync = { autoscaler, client, conditions: autoscaler.status?.conditions ?? [], metrics: undefined };
    const target = await this.#getScale(sync);
    if (target !== undefined) await this.#scale(key, sync, target);
    return { requeueAfterMs: settings.syncPeriodSeconds * 1000 };
  }

  async #getScale(sync: AutoscalerSync): Promise<ScaleTarget | undefined> {
    const { autoscaler, client } = sync;
    const { apiVersion = 'v1', kind: kindName, name } = autoscaler.spec.scaleTargetRef;
    await this.#options.kinds.whenRead();
    try {
      const resource = scaleResource(this.#options.kinds, apiVersion, kindName);
      if (resource === undefined) throw new Error(`no matches for kind "${kindName}" in group "${parseApiVersion(apiVersion).group}"`);
      const scale = await client.get(resource, { namespace: autoscaler.metadata?.namespace ?? '', name }, { subresource: 'scale' });
      this.#setAbleToScale(sync, {
        status: 'True',
        reason: 'SucceededGetScale',
        message: "the HPA controller was able to get the target's current scale",
      });
      return { resource, scale };
    } catch (error) {
      const { message } = error as Error;
      this.#options.recorder.event(autoscaler, 'Warning', 'FailedGetScale', message);
      const text = `the HPA controller was unable to get the target's current scale: ${message}`;
      this.#setAbleToScale(sync, { status: 'False', reason: 'FailedGetScale', message: text });
      sync.metrics = autoscaler.status?.currentMetrics;
      await this.#updateStatus(sync, {
        current: autoscaler.status?.currentReplicas ?? 0,
        desired: autoscaler.status?.desiredReplicas ?? 0,
        rescaled: false,
      });
      return undefined;
    }
  }

  async #scale(key: ObjectKey, sync: AutoscalerSync, target: ScaleTarget): Promise<void> {
    const { clock, settings } = this.#options;
    const now = clock.monotonic();
    const current = target.scale.spec?.replicas ?? 0;
    const history = this.#history.get(key) ?? new ScalingHistory(settings.downscaleStabilizationSeconds * 1000);
    this.#history.set(key, history);
    history.begin(current, now);
    const desired = await this.#desiredScale(sync, { scale: target.scale, history, now });
    if (desired === undefined) {
      await this.#updateStatus(sync, { current, desired: sync.autoscaler.status?.desiredReplicas ?? 0, rescaled: false });
      return;
    }
    if (desired.replicas !== current) {
      await this.#rescale(sync, target, desired);
      history.recordScaleEvent(current, { to: desired.replicas, behavior: sync.autoscaler.spec.behavior, nowMs: now });
    }
    await this.#updateStatus(sync, { current, desired: desired.replicas, rescaled: desired.replicas !== current });
  }

  /** Returns the desired replicas within minReplicas and maxReplicas, or undefined if the metrics yield no number. */
  async #desiredScale(
    sync: AutoscalerSync,
    { scale, history, now }: { readonly scale: Scale; readonly history: ScalingHistory; readonly now: number },
  ): Promise<DesiredScale | undefined> {
    const { minReplicas: min = 1, maxReplicas: max, behavior } = sync.autoscaler.spec;
    const current = scale.spec?.replicas ?? 0;
    if (current === 0 && min !== 0) {
      const message = 'scaling is disabled since the replica count of the target is zero';
      setCondition(sync, { type: 'ScalingActive', status: 'False', reason: 'ScalingDisabled', message }, this.#options.clock.now());
      return { replicas: current, reason: '' };
    }
    if (current > max) return { replicas: max, reason: 'Current number of replicas above Spec.MaxReplicas' };
    if (current < min) return { replicas: min, reason: 'Current number of replicas below Spec.MinReplicas' };
    const recommendation = await this.#recommender.recommend(sync, scale, current);
    if (recommendation === undefined) return undefined;
    const stabilized = history.stabilize(recommendation.replicas, { current, behavior, nowMs: now });
    this.#setAbleToScale(sync, { status: 'True', reason: stabilized.condition.reason, message: stabilized.condition.message });
    const bounded = history.limit({ current, desired: stabilized.replicas, min, max }, behavior, now);
    const status = bounded.limited ? 'True' : 'False';
    setCondition(sync, { type: 'ScalingLimited', status, ...bounded.condition }, this.#options.clock.now());
    return {
      replicas: bounded.replicas,
      reason: bounded.replicas > current ? `${recommendation.name} above target` : 'All metrics below target',
    };
  }

  /**
   * Sets `spec.replicas` of the target through the scale subresource, and records an event and the AbleToScale condition.
   * @throws the error of the update, after recording FailedRescale
   */
  async #rescale(sync: AutoscalerSync, target: ScaleTarget, { replicas, reason }: DesiredScale): Promise<void> {
    const { autoscaler, client } = sync;
    const { scale } = target;
    const { recorder } = this.#options;
    try {
      await updateScale(client, target, replicas);
    } catch (error) {
      const { message } = error as Error;
      recorder.event(autoscaler, 'Warning', 'FailedRescale', `New size: ${replicas}; reason: ${reason}; error: ${message}`);
      const text = `the HPA controller was unable to update the target scale: ${message}`;
      this.#setAbleToScale(sync, { status: 'False', reason: 'FailedUpdateScale', message: text });
      await this.#updateStatus(sync, {
        current: scale.spec?.replicas ?? 0,
        desired: autoscaler.status?.desiredReplicas ?? 0,
        rescaled: false,
      });
      throw error;
    }
    this.#setAbleToScale(sync, {
      status: 'True',
      reason: 'SucceededRescale',
      message: `the HPA controller was able to update the target scale to ${replicas}`,
    });
    recorder.event(autoscaler, 'Normal', 'SuccessfulRescale', `New size: ${replicas}; reason: ${reason}`);
  }

  #setAbleToScale(
    sync: AutoscalerSync,
    { status, reason, message }: { readonly status: 'True' | 'False'; readonly reason: string; readonly message: string },
  ): void {
    setCondition(sync, { type: 'AbleToScale', status, reason, message }, this.#options.clock.now());
  }

  async #updateStatus(
    { autoscaler, client, conditions, metrics }: AutoscalerSync,
    { current, desired, rescaled }: { readonly current: number; readonly desired: number; readonly rescaled: boolean },
  ): Promise<void> {
    const { currentMetrics: before, ...old } = autoscaler.status ?? {};
    // the API server returns null for an absent list
    const previous = { ...old, ...(before && { currentMetrics: before }) };
    const lastScaleTime = autoscaler.status?.lastScaleTime;
    // in 1.36, autoscalers have neither `generation` nor `observedGeneration`
    const status = {
      ...(lastScaleTime !== undefined && { lastScaleTime }),
      currentReplicas: current,
      desiredReplicas: desired,
      conditions,
      ...(metrics !== undefined && { currentMetrics: metrics }),
      ...(rescaled && { lastScaleTime: formatTime(this.#options.clock.now()) }),
    };
    if (JSON.stringify(Object.entries(status).sort()) === JSON.stringify(Object.entries(previous).sort())) return;
    const changed = { ...withTypeMeta(horizontalPodAutoscalers, autoscaler), status };
    try {
      await ignoreNotFound(() => client.update(horizontalPodAutoscalers, changed, { subresource: 'status' }));
    } catch (error) {
      this.#options.recorder.event(autoscaler, 'Warning', 'FailedUpdateStatus', (error as Error).message);
      throw error;
    }
  }
}

/** Number of updates of a Scale that other writers change at the same time, as client-go's `DefaultRetry`. */
const scaleUpdateAttempts = 5;

/** Sets the replicas of a Scale. Reads it again after a conflict. @throws the error of the last update */
async function updateScale(client: Client, { resource, scale }: ScaleTarget, replicas: number): Promise<void> {
  const key = { namespace: scale.metadata?.namespace ?? '', name: scale.metadata?.name ?? '' };
  let latest = scale;
  for (let attempt = 1; ; attempt += 1) {
    try {
      const changed = { ...latest, apiVersion: 'autoscaling/v1', kind: 'Scale', spec: { ...latest.spec, replicas } };
      await client.update(resource, changed, { subresource: 'scale' });
      return;
    } catch (error) {
      if (!isStatus(error, 'Conflict') || attempt === scaleUpdateAttempts) throw error;
      latest = await client.get(resource, key, { subresource: 'scale' });
    }
  }
}

export default Controllers.plugin({
  id: 'controller-horizontal-pod-autoscaler',
  declares: { loop: 'horizontalpodautoscaler' },
  config: z.strictObject({
    syncPeriodSeconds: z.number().int().min(1).default(15),
    /** Relative deviation of a metric from its target, as a fraction, that does not cause scaling. */
    tolerance: z.number().min(0).default(0.1),
    /** Stabilization window in seconds before a scale-down, if the behavior does not set one: the highest recommendation in the window applies. */
    downscaleStabilizationSeconds: z.number().int().min(0).default(300),
    /** Seconds after the start of a pod during which the pod's CPU usage counts only if the pod is ready. */
    cpuInitializationSeconds: z.number().int().min(0).default(300),
    /** Seconds after the start of a pod during which a pod that has never been ready counts as starting. */
    initialReadinessSeconds: z.number().int().min(0).default(30),
  }),
  needs: { informers: Informers, events: Events, client: Client },
  create: ({ config, informers, events, client }, { clock, log }) =>
    new HorizontalPodAutoscalerController({
      autoscalers: informers.forResource(horizontalPodAutoscalers),
      pods: informers.forResource(podResource),
      metrics: restMetricsClient,
      kinds: DiscoveredKinds.shared({ informers, client, clock, log, random: Math.random }),
      recorder: events.recorder('horizontal-pod-autoscaler'),
      clock,
      settings: config,
    }),
});
