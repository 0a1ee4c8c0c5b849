import type { Pod } from '@oarlock/api/types/core-v1';
import { failSpan, spanContextOf, startSpan } from '@oarlock/kernel/tracing';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { NodeInfo, PodGroupInfo, PodInfo } from '@oarlock/spi/scheduling';
import type { Tracer } from '@opentelemetry/api';
import type { SchedulerCache } from '../cache/scheduler-cache.ts';
import type { SchedulingProfile } from '../config/profiles.ts';
import type { Extender } from '../extender/extender.ts';
import { addExtenderScores, findNodesThatPassExtenders, preemptionExtenders } from '../extender/run-extenders.ts';
import { SchedulingCycleState } from '../framework/cycle-state.ts';
import { FeasibleNodeFinder, noNodesAvailable, type FeasibleNodes } from '../framework/feasible-nodes.ts';
import { countReasons, fitErrorMessage } from '../framework/fit-error.ts';
import { isSuccess, type PluginStatus } from '../framework/plugin-status.ts';
import { newNodeDryRun, runPermitPlugins, runPostFilterPlugins, runReservePlugins, runUnreservePlugins } from '../framework/run-plugins.ts';
import { runScorePlugins } from '../framework/run-score-plugins.ts';
import type { PodsInPreBind } from '../framework/pods-in-pre-bind.ts';
import type { WaitingPods } from '../framework/waiting-pods.ts';
import type { SchedulerMetrics } from '../metrics/scheduler-metrics.ts';
import type { Nominator } from '../queue/nominator.ts';
import type { QueuedPodInfo } from '../queue/queued-pod-info.ts';
import type { SchedulingQueue } from '../queue/scheduling-queue.ts';
import { BindingCycle } from './binding-cycle.ts';
import { PodGroupCycle } from './pod-group-cycle.ts';
import {
  errorFailure,
  failureOf,
  type FailedAttempt,
  type ScheduledPod,
  type SchedulingAttempt,
  type SchedulingFailure,
} from './scheduling-attempt.ts';
import type { SchedulingFailureHandler } from './scheduling-failure-handler.ts';
import { indexesOfLargest, selectHost } from './select-host.ts';

export interface PodSchedulerOptions {
  readonly cache: SchedulerCache;
  readonly queue: SchedulingQueue;
  readonly nominator: Nominator;
  readonly waitingPods: WaitingPods;
  readonly podsInPreBind: PodsInPreBind;
  readonly extenders: readonly Extender[];
  readonly failureHandler: SchedulingFailureHandler;
  readonly clock: Clock;
  readonly log: Logger;
  readonly tracer: Tracer;
  readonly random: () => number;
  readonly metrics: SchedulerMetrics;
  readonly parallelBinds: number;
  profileOf(pod: Pod): SchedulingProfile | undefined;
  onBound(scheduled: ScheduledPod): void;
  /** Writes `status.nominatedNodeName` before a binding that takes long. Resolves when the write has succeeded or failed. */
  writeNominatedNode(scheduled: ScheduledPod): Promise<void>;
}

interface SchedulingCycleOptions {
  /** Names of the nodes to evaluate; if absent, all nodes are evaluated. */
  readonly allowedNodes?: ReadonlySet<string>;
  /** Whether PostFilter plugins run; true if absent. */
  readonly preempt?: boolean;
  /** If true, the caller reverts the result, and the attempt does not count in metrics. */
  readonly dryRun?: boolean;
}

/** Number of the highest scores that the trace span of scoring records. */
const scoresInSpan = 5;

/** Schedules one pod or pod group at a time; the steps are in the order of upstream's schedule_one.go. */
export class PodScheduler {
  readonly #options: PodSchedulerOptions;
  readonly #nodeFinder = new FeasibleNodeFinder();
  readonly #bindingCycle: BindingCycle;

  constructor(options: PodSchedulerOptions) {
    this.#options = options;
    this.#bindingCycle = new BindingCycle({
      ...options,
      onFailed: (scheduled, failure, nominated) => options.failureHandler.handleBindingCycleError(scheduled, failure, nominated),
    });
  }

  /** Resolves when fewer than `parallelBinds` bindings are in progress. */
  whenBindCapacity(): Promise<void> | undefined {
    return this.#bindingCycle.whenCapacity();
  }
  /** Resolves when all binding cycles have ended. */
  whenIdle(): Promise<void> {
    return this.#bindingCycle.whenIdle();
  }

  /** Runs the scheduling cycle of a pod and starts its binding cycle, which continues while the next pods are scheduled. */
  async scheduleOne(podInfo: QueuedPodInfo, signal: AbortSignal): Promise<void> {
    const profile = this.#options.profileOf(podInfo.pod);
    if (profile === undefined) {
      this.#options.queue.done(podInfo);
      return;
    }
    const podGroup = profile.framework.podGroupOf(podInfo.pod);
    if (podGroup !== undefined) {
      await this.#schedulePodGroup(podInfo, podGroup, signal);
      return;
    }
    const result = await this.#schedulingCycle(podInfo, { profile, signal });
    if ('failure' in result) this.#options.failureHandler.handleSchedulingFailure(result);
    else this.#bindingCycle.start(result, signal);
  }

  async #schedulePodGroup(podInfo: QueuedPodInfo, podGroup: PodGroupInfo, signal: AbortSignal): Promise<void> {
    const { queue, cache, nominator, profileOf, failureHandler } = this.#options;
    const others = queue.popMatching((pod) => pod !== podInfo.pod && podGroup.has(pod));
    const members = [podInfo, ...others].flatMap((member) => {
      const profile = profileOf(member.pod);
      return profile === undefined ? [] : [{ podInfo: member, profile }];
    });
    const { scheduled, failed } = await new PodGroupCycle({
      podGroup,
      members,
      cache,
      nominator,
      schedulePod: (member, options) =>
        this.#schedulingCycle(member.podInfo, { profile: member.profile, signal }, { ...options, preempt: false }),
      unreserveAndForget: (member) => this.#unreserveAndForget(member),
    }).schedulePodGroup();
    for (const attempt of failed) failureHandler.handleSchedulingFailure(attempt);
    for (const member of scheduled) this.#bindingCycle.start(member, signal);
  }

  /** Finds a node, assumes the pod on it, and runs the reserve and permit plugins. */
  async #schedulingCycle(
    podInfo: QueuedPodInfo,
    { profile, signal }: { readonly profile: SchedulingProfile; readonly signal: AbortSignal },
    options: SchedulingCycleOptions = {},
  ): Promise<ScheduledPod | FailedAttempt> {
    const { tracer, clock, cache, log } = this.#options;
    const startedAt = clock.monotonic();
    const span = startSpan(tracer, 'schedule', {
      spanContext: podInfo.spanContext,
      attributes: { 'oarlock.key': podInfo.key, 'oarlock.enqueued_at': podInfo.enqueuedAt },
    });
    const attempt: SchedulingAttempt = { podInfo, profile, spanContext: spanContextOf(span) };
    const fail = (failure: SchedulingFailure): FailedAttempt => {
      failSpan(span, failure.message);
      if (options.dryRun !== true) this.#observeFailure(failure, profile, startedAt);
      return { ...attempt, failure };
    };
    try {
      const state = this.#newCycleState(profile, signal, options.allowedNodes);
      const found = await this.#findNodesThatFitPod(attempt, state, signal);
      if (found.feasible.length === 0)
        return fail(await this.#handleFitError(attempt, { state, feasibleNodes: found, preempt: options.preempt !== false }));

      const { name: node } = await this.#selectNode(attempt, { state, feasible: found.feasible, signal });
      this.#assume(podInfo, node);
      const reserved = await this.#runReservePlugins(attempt, state, node);
      if (reserved !== undefined) return fail(failureOf(reserved, true));
      const permitted = this.#runPermitPlugins(attempt, state, node);
      if (permitted !== undefined && 'code' in permitted) return fail(failureOf(permitted, true));
      return { ...attempt, state, node, startedAt, permitTimeouts: permitted };
    } catch (error) {
      cache.forgetPod(podInfo.key);
      log.error({ pod: podInfo.key, err: error }, 'a scheduling cycle failed');
      return fail(errorFailure((error as Error).message));
    } finally {
      span.end();
    }
  }

  #newCycleState(profile: SchedulingProfile, signal: AbortSignal, allowedNodes: ReadonlySet<string> | undefined): SchedulingCycleState {
    const { framework, schedulerName } = profile;
    const { cache, nominator, extenders, metrics } = this.#options;
    const callPreemptionExtenders = preemptionExtenders(extenders, cache, signal);
    const shared = { nominator, newNodeDryRun, observer: metrics.observerOf(schedulerName) };
    return new SchedulingCycleState(cache, framework, { ...shared, allowedNodes, callPreemptionExtenders });
  }

  /** Runs the preFilter and filter plugins and the filters of extenders. */
  async #findNodesThatFitPod(
    { podInfo, profile, spanContext }: SchedulingAttempt,
    state: SchedulingCycleState,
    signal: AbortSignal,
  ): Promise<FeasibleNodes> {
    const { tracer, extenders } = this.#options;
    const span = startSpan(tracer, 'filter', { spanContext });
    const passedFilters = this.#nodeFinder.findNodesThatFitPod(profile.framework, profile.percentageOfNodesToScore, state, podInfo);
    const found =
      extenders.length === 0
        ? passedFilters
        : await findNodesThatPassExtenders(extenders, { podInfo, found: passedFilters, snapshot: state.snapshot, signal });
    if (span.isRecording()) {
      span.setAttributes({ 'oarlock.nodes': found.evaluated, 'oarlock.feasible': found.feasible.length });
      if (found.nodeToStatus.size > 0)
        span.setAttribute('oarlock.refused', JSON.stringify(Object.fromEntries(countReasons(found.nodeToStatus))));
    }
    span.end();
    return found;
  }

  /**
   * Returns the failure of a pod that fits no node, with the reasons. First runs the PostFilter plugins, which may preempt pods and nominate a
   * node.
   */
  async #handleFitError(
    { podInfo, profile }: SchedulingAttempt,
    {
      state,
      feasibleNodes: { nodeToStatus, preFilterRejection, unschedulablePlugins, error },
      preempt,
    }: { readonly state: SchedulingCycleState; readonly feasibleNodes: FeasibleNodes; readonly preempt: boolean },
  ): Promise<SchedulingFailure> {
    const nodeCount = this.#options.cache.nodes.length;
    const message = fitErrorMessage(nodeCount, nodeToStatus, preFilterRejection);
    if (nodeCount === 0)
      return { unschedulablePlugins: new Set([noNodesAvailable]), reason: 'Unschedulable', message, nominatedNodeName: '' };
    if (error !== undefined) return errorFailure(error);
    const failure = { unschedulablePlugins, reason: 'Unschedulable' as const, message };
    if (!preempt) return failure;
    const { messageSuffix, ...nomination } = await runPostFilterPlugins(profile.framework, state, podInfo, nodeToStatus);
    return { ...failure, message: message + messageSuffix, ...nomination };
  }

  /** Returns the feasible node with the highest score. Does not score a single feasible node. */
  async #selectNode(
    attempt: SchedulingAttempt,
    {
      state,
      feasible,
      signal,
    }: { readonly state: SchedulingCycleState; readonly feasible: readonly NodeInfo[]; readonly signal: AbortSignal },
  ): Promise<NodeInfo> {
    const [first] = feasible;
    if (feasible.length === 1 && first !== undefined) return first;
    const scores = await this.#prioritizeNodes(attempt, { state, nodes: feasible, signal });
    return feasible[selectHost(scores, this.#options.random)] ?? (first as NodeInfo);
  }

  /** Returns the weighted sum of the scores of plugins and extenders, in the order of `nodes`. */
  async #prioritizeNodes(
    { podInfo, profile, spanContext }: SchedulingAttempt,
    { state, nodes, signal }: { readonly state: SchedulingCycleState; readonly nodes: readonly NodeInfo[]; readonly signal: AbortSignal },
  ): Promise<Float64Array> {
    const { tracer, extenders, log } = this.#options;
    const span = startSpan(tracer, 'score', { spanContext });
    const scores = runScorePlugins(profile.framework, state, { pod: podInfo, nodes });
    if (extenders.length > 0) await addExtenderScores(extenders, { podInfo, nodes, totals: scores }, { log, signal });
    if (span.isRecording()) {
      const top = indexesOfLargest(scores, scoresInSpan).map((index) => [nodes[index]?.name, Math.round(scores[index] ?? 0)]);
      span.setAttribute('oarlock.scores', JSON.stringify(Object.fromEntries(top)));
    }
    span.end();
    return scores;
  }

  /** Assumes the pod: counts the pod on the node in the cache before the pod is bound. */
  #assume(pod: PodInfo, node: string): void {
    this.#options.cache.assumePod(pod, node);
    this.#options.nominator.deleteNominatedPod(pod.key);
  }

  /** Runs the reserve plugins. Returns the first rejection after reverting the assumption of the pod, or undefined if all plugins succeed. */
  async #runReservePlugins(
    { podInfo, profile: { framework } }: SchedulingAttempt,
    state: SchedulingCycleState,
    node: string,
  ): Promise<PluginStatus | undefined> {
    if (framework.pluginsAt('reserve').length === 0) return undefined;
    const status = await runReservePlugins(framework, state, podInfo, node);
    if (isSuccess(status)) return undefined;
    this.#options.cache.forgetPod(podInfo.key);
    return status;
  }

  /**
   * Runs the permit plugins. Returns the plugins that make the pod wait, with their timeouts; or the first rejection, after reverting the
   * reservation.
   */
  #runPermitPlugins(
    { podInfo, profile: { framework } }: SchedulingAttempt,
    state: SchedulingCycleState,
    node: string,
  ): PluginStatus | ReadonlyMap<string, number> | undefined {
    if (framework.pluginsAt('permit').length === 0) return undefined;
    const result = runPermitPlugins(framework, state, podInfo, node);
    if (result === undefined || !('code' in result)) return result;
    runUnreservePlugins(framework, state, podInfo, node);
    this.#options.cache.forgetPod(podInfo.key);
    return result;
  }

  #unreserveAndForget({ podInfo, state, node, profile }: ScheduledPod): void {
    runUnreservePlugins(profile.framework, state, podInfo, node);
    this.#options.cache.forgetPod(podInfo.key);
  }

  #observeFailure({ reason }: SchedulingFailure, { schedulerName }: SchedulingProfile, startedAt: number): void {
    const { metrics, clock } = this.#options;
    metrics.observeAttempt(reason === 'Unschedulable' ? 'unschedulable' : 'error', schedulerName, clock.monotonic() - startedAt);
  }
}
