import { failSpan, spanContextOf, startSpan } from '@oarlock/kernel/tracing';
import type { Clock } from '@oarlock/primitives/clock';
import { errorStatus, type BindContext } from '@oarlock/spi/scheduling';
import type { Tracer } from '@opentelemetry/api';
import type { Extender } from '../extender/extender.ts';
import { runExtenderBind } from '../extender/run-extenders.ts';
import { isSuccess, statusMessage, type PluginStatus } from '../framework/plugin-status.ts';
import {
  runBindPlugins,
  runPostBindPlugins,
  runPreBindPlugins,
  runPreBindPreFlights,
  runUnreservePlugins,
} from '../framework/run-plugins.ts';
import type { PodsInPreBind } from '../framework/pods-in-pre-bind.ts';
import type { WaitingPods } from '../framework/waiting-pods.ts';
import type { SchedulerMetrics } from '../metrics/scheduler-metrics.ts';
import { failureOf, type ScheduledPod, type SchedulingFailure } from './scheduling-attempt.ts';

interface BindingCycleOptions {
  readonly clock: Clock;
  readonly tracer: Tracer;
  readonly metrics: SchedulerMetrics;
  readonly extenders: readonly Extender[];
  readonly parallelBinds: number;
  readonly waitingPods: WaitingPods;
  readonly podsInPreBind: PodsInPreBind;
  /** Writes `status.nominatedNodeName` before a binding that takes long (KEP-5278). Resolves when the write has succeeded or failed. */
  writeNominatedNode(scheduled: ScheduledPod): Promise<void>;
  onBound(scheduled: ScheduledPod): void;
  /**
   * Called when a binding cycle has failed. `failure` is undefined if the cycle was aborted. `nominationWritten` is true if
   * `writeNominatedNode` was called.
   */
  onFailed(scheduled: ScheduledPod, failure: SchedulingFailure | undefined, nominationWritten: boolean): void;
}

/** Binds scheduled pods while further pods are being scheduled: waits at permit, then runs preBind, bind and postBind. */
export class BindingCycle {
  readonly #options: BindingCycleOptions;
  readonly #running = new Set<Promise<void>>();
  #bindsInProgress = 0;
  #onCapacity: (() => void) | undefined;

  constructor(options: BindingCycleOptions) {
    this.#options = options;
  }

  start(scheduled: ScheduledPod, signal: AbortSignal): void {
    const task: Promise<void> = this.#run(scheduled, signal).finally(() => this.#running.delete(task));
    this.#running.add(task);
  }

  /** Resolves when fewer than `parallelBinds` bindings are in progress. Pods that wait at permit or in preBind do not count. */
  whenCapacity(): Promise<void> | undefined {
    if (this.#bindsInProgress < this.#options.parallelBinds) return undefined;
    return new Promise((resolve) => {
      this.#onCapacity = resolve;
    });
  }

  async whenIdle(): Promise<void> {
    await Promise.all(this.#running);
  }

  async #run(scheduled: ScheduledPod, signal: AbortSignal): Promise<void> {
    const { tracer, metrics, clock, onBound, onFailed } = this.#options;
    const { podInfo, node, state, profile, spanContext, startedAt } = scheduled;
    const { framework, schedulerName } = profile;
    const span = startSpan(tracer, 'bind', { spanContext, attributes: { 'oarlock.key': podInfo.key, 'oarlock.node': node } });
    const { rejection, permitted, nominationWritten } = await this.#bindingCycle(scheduled, { spanContext: spanContextOf(span), signal });
    if (rejection === undefined) {
      metrics.observeAttempt('scheduled', schedulerName, clock.monotonic() - startedAt);
      metrics.observeScheduledPod(podInfo, clock.monotonic());
      onBound(scheduled);
      runPostBindPlugins(framework, state, { pod: podInfo, node });
    } else {
      failSpan(span, statusMessage(rejection));
      metrics.observeAttempt('error', schedulerName, clock.monotonic() - startedAt);
      runUnreservePlugins(framework, state, podInfo, node);
      onFailed(scheduled, signal.aborted ? undefined : failureOf(rejection, !permitted), nominationWritten);
    }
    span.end();
  }

  /** Waits at permit, then runs preBind and bind. Converts a thrown error to a rejection with the code `error`. */
  async #bindingCycle(
    scheduled: ScheduledPod,
    context: BindContext,
  ): Promise<{ readonly rejection: PluginStatus | undefined; readonly permitted: boolean; readonly nominationWritten: boolean }> {
    const { podInfo, node, state, profile, permitTimeouts } = scheduled;
    const { framework } = profile;
    const { waitingPods, writeNominatedNode } = this.#options;
    let permitted = true;
    let nominationWritten = false;
    try {
      const waitOnPermit = permitTimeouts && waitingPods.waitOnPermit(podInfo, node, permitTimeouts, context.signal);
      const hasPreBind = runPreBindPreFlights(framework, state, podInfo, node);
      nominationWritten = waitOnPermit !== undefined || hasPreBind;
      if (nominationWritten) await writeNominatedNode(scheduled);
      let rejection = await waitOnPermit;
      permitted = rejection === undefined;
      rejection ??= hasPreBind ? await this.#preBind(scheduled, context) : undefined;
      rejection ??= await this.#bind(scheduled, context);
      return { rejection, permitted, nominationWritten };
    } catch (error) {
      return { rejection: errorStatus((error as Error).message), permitted, nominationWritten };
    }
  }

  #preBind({ podInfo, node, state, profile }: ScheduledPod, context: BindContext): Promise<PluginStatus | undefined> {
    return this.#options.podsInPreBind.run(podInfo.key, context.signal, (signal) =>
      runPreBindPlugins(profile.framework, state, { pod: podInfo, node, context: { ...context, signal } }),
    );
  }

  async #bind({ podInfo, node, state, profile }: ScheduledPod, context: BindContext): Promise<PluginStatus | undefined> {
    const { extenders } = this.#options;
    this.#bindsInProgress += 1;
    try {
      if (extenders.length > 0 && (await runExtenderBind(extenders, { podInfo, node, signal: context.signal }))) return undefined;
      const status = await runBindPlugins(profile.framework, state, { pod: podInfo, node, context });
      return isSuccess(status) ? undefined : status;
    } finally {
      this.#bindsInProgress -= 1;
      this.#onCapacity?.();
      this.#onCapacity = undefined;
    }
  }
}
