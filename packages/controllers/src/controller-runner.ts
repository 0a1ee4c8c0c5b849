import { setMaxListeners } from 'node:events';
import type { Resource } from '@oarlock/api/resource';
import { isStatus } from '@oarlock/api/status';
import { eventLoop } from '@oarlock/kernel/event-loop';
import { Workqueue, type Work } from '@oarlock/client/workqueue';
import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import { causeOf, failSpan, startSpan } from '@oarlock/kernel/tracing';
import type { Client } from '@oarlock/spi/client';
import type { Controller, Watch } from '@oarlock/spi/controller';
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
  /** Instead of the controller's own number. */
  readonly workers?: number;
}

const defaultWorkers = 5;
const restFromMs = 20;
const longestRestMs = 250;

/**
 * Runs one controller: its watches put keys in a queue, workers take them out and reconcile. A key that fails comes back with growing delay;
 * an update that lost a race (`Conflict`) does so without noise. Between two reconciles a worker lets the event loop turn when it was held too long.
 */
export class ControllerRunner {
  readonly #options: ControllerRunnerOptions;
  readonly #log: Logger;
  readonly #metrics: ReconcileMetrics;
  #awaited: readonly Watch[];

  constructor(options: ControllerRunnerOptions) {
    this.#options = options;
    this.#awaited = options.controller.watches;
    this.#log = options.log.child({ controller: options.controller.name });
    this.#metrics = reconcileMetrics(options.metrics, options.controller.name);
  }

  get name(): string {
    return this.#options.controller.name;
  }

  /** What it watches. */
  get resources(): readonly Resource[] {
    return this.#options.controller.watches.map(({ informer }) => informer.resource);
  }

  /** It does what it can without some of the kinds that it watches. */
  get partial(): boolean {
    return this.#options.controller.partial === true;
  }

  /** From now on it is not waited for kinds that the server does not have: what there is of them comes when there is any. */
  without(missing: (resource: Resource) => boolean): void {
    this.#awaited = this.#awaited.filter(({ informer }) => !missing(informer.resource));
  }

  /** Every informer that the controller has to wait for has synced. */
  async whenSynced(signal?: AbortSignal): Promise<void> {
    await Promise.all(this.#awaited.map(({ informer }) => informer.whenSynced(signal)));
  }

  /**
   * Resolves when the signal has aborted and every reconcile under way has ended. May be run again.
   * @param succeeds others worked until now: nothing is done before all that they wrote is known
   * @throws what an informer that cannot sync rejects with
   */
  async run(signal: AbortSignal, succeeds = false): Promise<void> {
    const { controller, clock, metrics, workers = controller.workers ?? defaultWorkers } = this.#options;
    const queue = new Workqueue({ name: controller.name, clock, metrics });
    const subscribe = ({ informer, keys }: Watch) =>
      informer.on({
        added: (object, cause) => {
          for (const key of keys(object, undefined)) queue.add(key, cause);
        },
        updated: (object, old, cause) => {
          for (const key of keys(object, old)) queue.add(key, cause);
        },
        deleted: (object, cause) => {
          for (const key of keys(object, undefined)) queue.add(key, cause);
        },
      });
    const off = controller.watches.map(subscribe);
    const leave = controller.follow?.(subscribe);
    setMaxListeners(0, signal); // one listener per informer that is waited for
    const stop = () => queue.shutDown();
    signal.addEventListener('abort', stop, { once: true });
    try {
      if (succeeds) await Promise.all(this.#awaited.map(({ informer }) => informer.refresh(signal)));
      await this.whenSynced(signal);
      if (signal.aborted) return;
      await Promise.all(Array.from({ length: workers }, () => this.#work(queue, signal)));
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      signal.removeEventListener('abort', stop);
      queue.shutDown();
      for (const unsubscribe of off) unsubscribe();
      leave?.();
    }
  }

  async #work(queue: Workqueue, signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    for (let work = await queue.next(); work !== undefined && !signal.aborted; work = await queue.next()) {
      while (eventLoop.held) await eventLoop.turn();
      const began = clock.monotonic();
      await this.#reconcile(queue, work, signal);
      const took = clock.monotonic() - began;
      // a key that is much work rests as long as it worked: what happens meanwhile is looked at once, not each time
      if (took > restFromMs) clock.after(Math.min(took, longestRestMs), () => queue.done(work.key));
      else queue.done(work.key);
    }
  }

  async #reconcile(queue: Workqueue, { key, causes, enqueuedAt }: Work, signal: AbortSignal): Promise<void> {
    const { controller, client, clock, tracer } = this.#options;
    const [cause, ...links] = causes;
    const span = startSpan(tracer, `reconcile ${controller.name}`, {
      cause,
      links,
      attributes: { 'oarlock.key': key, 'oarlock.enqueued_at': enqueuedAt },
    });
    const began = clock.monotonic();
    // What was to wake the key later is superseded by looking now.
    queue.cancelDelayed(key);
    const failures = queue.failures(key);
    try {
      const result = await controller.reconcile(key, { client: client.causedBy(causeOf(span)), log: this.#log, signal, span, failures });
      queue.forget(key);
      if (result?.requeueAfterMs !== undefined) queue.addAfter(key, result.requeueAfterMs);
      this.#metrics.ended(result?.requeueAfterMs === undefined ? 'success' : 'requeue_after', clock.monotonic() - began);
    } catch (error) {
      if (signal.aborted) return;
      const delayMs = queue.addRateLimited(key, ...causes);
      if (isStatus(error, 'Conflict')) {
        this.#log.debug({ key, err: error, delayMs }, 'lost a race; trying again');
        this.#metrics.ended('conflict', clock.monotonic() - began);
      } else {
        failSpan(span, error);
        this.#log.warn({ key, err: error, failures: failures + 1, delayMs }, 'reconcile failed; trying again');
        this.#metrics.ended('error', clock.monotonic() - began);
      }
    } finally {
      span.end();
    }
  }
}
