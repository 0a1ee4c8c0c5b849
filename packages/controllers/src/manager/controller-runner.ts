import { setMaxListeners } from 'node:events';
import type { Resource } from '@oarlock/api/resource';
import type { ObjectKey } from '@oarlock/api/object';
import { isStatus } from '@oarlock/api/status';
import { eventLoop } from '@oarlock/primitives/concurrency/event-loop';
import { workqueueMetrics } from '@oarlock/client/workqueue-metrics';
import { Workqueue, type WorkItem } from '@oarlock/primitives/workqueue/workqueue';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { spanContextOf, failSpan, startSpan, type SpanContext } from '@oarlock/kernel/tracing';
import type { Client } from '@oarlock/spi/client';
import type { Controller, ControllerWatch } from '@oarlock/spi/controller';
import type { Tracer } from '@opentelemetry/api';
import type { Registry } from 'prom-client';
import { reconcileMetrics, type ReconcileMetrics } from './reconcile-metrics.ts';

export interface ControllerRunnerOptions {
  readonly controller: Controller;
  readonly client: Client;
  readonly clock: Clock;
  readonly log: Logger;
  readonly tracer: Tracer;
  readonly metrics: Registry;
  /** Overrides the controller's own number of concurrent reconciles. */
  readonly workers?: number;
}

type Queue = Workqueue<ObjectKey, SpanContext>;
const defaultWorkers = 5;
const cooldownThresholdMs = 20;
const maxCooldownMs = 250;

/**
 * Runs one controller: the controller's watches add keys to a work queue, and workers reconcile the keys. A failed key is retried with
 * exponential backoff; a `Conflict` is logged at debug level only. Between two reconciles, a worker yields to the event loop if it has blocked
 * the event loop too long.
 */
export class ControllerRunner {
  readonly #options: ControllerRunnerOptions;
  readonly #log: Logger;
  readonly #metrics: ReconcileMetrics;
  #requiredWatches: readonly ControllerWatch[];

  constructor(options: ControllerRunnerOptions) {
    this.#options = options;
    this.#requiredWatches = options.controller.watches;
    this.#log = options.log.child({ controller: options.controller.name });
    this.#metrics = reconcileMetrics(options.metrics, options.controller.name);
  }

  get name(): string {
    return this.#options.controller.name;
  }

  /** Resources that the controller watches. */
  get resources(): readonly Resource[] {
    return this.#options.controller.watches.map(({ informer }) => informer.resource);
  }

  /** True if the controller can run without some of the kinds that it watches. */
  get toleratesMissingKinds(): boolean {
    return this.#options.controller.toleratesMissingKinds === true;
  }

  /** Excludes missing resources from `whenSynced` and from the initial refresh. Events of these resources are handled once they are served. */
  skipWaitingFor(missing: (resource: Resource) => boolean): void {
    this.#requiredWatches = this.#requiredWatches.filter(({ informer }) => !missing(informer.resource));
  }

  /** Resolves when every informer of a resource that is not excluded has synced. */
  async whenSynced(signal?: AbortSignal): Promise<void> {
    await Promise.all(this.#requiredWatches.map(({ informer }) => informer.whenSynced(signal)));
  }

  /**
   * Runs the controller until the signal aborts. Resolves when every reconcile in flight has ended; can then be called again.
   * @param hadOtherLeaders if true, another process may have been the leader before: all informers are refreshed first, so that the cache
   * contains the writes of that process
   * @throws the error of an informer that cannot sync
   */
  async run(signal: AbortSignal, hadOtherLeaders = false): Promise<void> {
    const { controller, clock, metrics, workers = controller.concurrentReconciles ?? defaultWorkers } = this.#options;
    const queue: Queue = new Workqueue({ clock, metrics: metrics && workqueueMetrics(metrics, controller.name) });
    const subscribe = ({ informer, keys }: ControllerWatch) =>
      informer.addEventHandler({
        onAdd: (object, spanContext) => {
          for (const key of keys(object, undefined)) queue.add(key, spanContext);
        },
        onUpdate: (object, old, spanContext) => {
          for (const key of keys(object, old)) queue.add(key, spanContext);
        },
        onDelete: (object, spanContext) => {
          for (const key of keys(object, undefined)) queue.add(key, spanContext);
        },
      });
    const unsubscribes = controller.watches.map(subscribe);
    const removeDynamicWatches = controller.addDynamicWatches?.(subscribe);
    setMaxListeners(0, signal); // each informer adds a listener while it syncs
    const stop = () => queue.shutDown();
    signal.addEventListener('abort', stop, { once: true });
    try {
      if (hadOtherLeaders) await Promise.all(this.#requiredWatches.map(({ informer }) => informer.refresh(signal)));
      await this.whenSynced(signal);
      if (signal.aborted) return;
      await Promise.all(Array.from({ length: workers }, () => this.#runWorker(queue, signal)));
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      signal.removeEventListener('abort', stop);
      queue.shutDown();
      for (const unsubscribe of unsubscribes) unsubscribe();
      removeDynamicWatches?.();
    }
  }

  async #runWorker(queue: Queue, signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    for (let work = await queue.get(); work !== undefined && !signal.aborted; work = await queue.get()) {
      while (eventLoop.shouldYield) await eventLoop.yield();
      const began = clock.monotonic();
      await this.#reconcile(queue, work, signal);
      const took = clock.monotonic() - began;
      // an expensive key cools down for as long as its reconcile took: events that arrive meanwhile cause one reconcile
      if (took > cooldownThresholdMs) clock.after(Math.min(took, maxCooldownMs), () => queue.done(work.key));
      else queue.done(work.key);
    }
  }

  async #reconcile(queue: Queue, { key, spanContexts, enqueuedAt }: WorkItem<ObjectKey, SpanContext>, signal: AbortSignal): Promise<void> {
    const { controller, client, clock, tracer } = this.#options;
    const [spanContext, ...links] = spanContexts;
    const span = startSpan(tracer, `reconcile ${controller.name}`, {
      spanContext,
      links,
      attributes: { 'oarlock.key': key, 'oarlock.enqueued_at': enqueuedAt },
    });
    const began = clock.monotonic();
    // this reconcile supersedes a delayed one
    queue.cancelDelayed(key);
    const failures = queue.numRequeues(key);
    try {
      const result = await controller.reconcile(key, {
        client: client.withSpanContext(spanContextOf(span)),
        log: this.#log,
        signal,
        span,
        failures,
      });
      queue.forget(key);
      if (result?.requeueAfterMs !== undefined) queue.addAfter(key, result.requeueAfterMs);
      this.#metrics.observe(result?.requeueAfterMs === undefined ? 'success' : 'requeue_after', clock.monotonic() - began);
    } catch (error) {
      if (signal.aborted) return;
      const delayMs = queue.addRateLimited(key, ...spanContexts);
      if (isStatus(error, 'Conflict')) {
        this.#log.debug({ key, err: error, delayMs }, 'reconcile conflict; retrying');
        this.#metrics.observe('conflict', clock.monotonic() - began);
      } else {
        failSpan(span, error);
        this.#log.warn({ key, err: error, failures: failures + 1, delayMs }, 'reconcile failed; retrying');
        this.#metrics.observe('error', clock.monotonic() - began);
      }
    } finally {
      span.end();
    }
  }
}
