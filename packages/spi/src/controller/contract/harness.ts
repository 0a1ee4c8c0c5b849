import type { ObjectKey } from '@oarlock/api/object';
import { silentLogger } from '@oarlock/primitives/logger';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import type { Lifecycle } from '@oarlock/kernel/plugin';
import { noTracer, startSpan } from '@oarlock/kernel/tracing';
import type { Client, Informers } from '../../composition/client.ts';
import { FaultInjectingClient, ProcessLifetime, WriteLog } from './fault-injection.ts';
import type { Controller, ControllerWatch } from '../controller.ts';

/** An in-memory API server, such as `memoryApi` of @oarlock/testing. */
export interface ContractApi {
  client(): Client;
  dropWatches(): void;
  /** Compacts the history: a watch that resumes afterwards fails with `Expired`. */
  compact(): void;
  stop(): Promise<void>;
}
/** A clock that the test advances, such as `FakeClock` of @oarlock/testing. */
export interface ContractClock extends Clock {
  settle(): Promise<void>;
  advance(ms: number): Promise<void>;
  runUntil(condition: () => boolean, options?: { readonly within?: number; readonly what?: string }): Promise<void>;
}
/** Informers that the test starts and stops, such as `SharedInformerFactory` of @oarlock/client. */
export interface ContractInformers extends Informers {
  start(): void;
  stop(): Promise<void>;
}

export interface ControllerTestEnvironment<A extends ContractApi = ContractApi> {
  readonly api: A;
  readonly clock: ContractClock;
  /** Creates informers with empty caches, one set for each simulated process. */
  informers(client: Client): ContractInformers;
}
/** Dependencies of the controller in one simulated process. */
export interface ControllerDependencies<A extends ContractApi = ContractApi> {
  readonly api: A;
  readonly client: Client;
  readonly informers: Informers;
  readonly clock: ContractClock;
}
export type ControllerFactory<A extends ContractApi> = (parts: ControllerDependencies<A>) => Controller & Lifecycle;

const maxReconciles = 5_000; // limit per run: a controller that exceeds it does not come to rest
const longestDelayMs = 1_000_000;

/** Runs one controller as the controller manager does: keys from watches, several workers, backoff. */
export class ControllerProcess<A extends ContractApi> {
  readonly #environment: ControllerTestEnvironment<A>;
  readonly #lifetime = new ProcessLifetime();
  readonly #client: Client;
  readonly #informers: ContractInformers;
  readonly #unsubscribe: (() => void)[] = [];
  readonly #ready = new Set<ObjectKey>();
  readonly #delayed = new Map<ObjectKey, Timer>();
  readonly #failures = new Map<ObjectKey, number>();
  readonly #seenKeys = new Set<ObjectKey>();
  readonly #watched = new Set<ControllerWatch>();
  readonly controller: Controller & Lifecycle;
  /** Errors thrown by reconciles, in order. */
  readonly errors: unknown[] = [];
  #reconcileCount = 0;

  constructor(environment: ControllerTestEnvironment<A>, create: ControllerFactory<A>, writes: WriteLog) {
    this.#environment = environment;
    this.#client = new FaultInjectingClient(environment.api.client(), writes, this.#lifetime);
    // the informers' reads are not faulted, but may be delayed
    this.#informers = environment.informers(
      new FaultInjectingClient(environment.api.client(), new WriteLog(), new ProcessLifetime(this.#lifetime.lag)),
    );
    this.controller = create({ api: environment.api, client: this.#client, informers: this.#informers, clock: environment.clock });
  }

  get isDead(): boolean {
    return this.#lifetime.isDead;
  }
  /** True if the caches do not contain all writes of the controller. */
  get isCacheBehind(): boolean {
    return this.#lifetime.lag.isHeld;
  }
  get hasDelayedKeys(): boolean {
    return this.#delayed.size > 0;
  }
  /** Number of reconciles in this process. */
  get reconcileCount(): number {
    return this.#reconcileCount;
  }
  /** All keys enqueued so far. */
  get seenKeys(): ReadonlySet<ObjectKey> {
    return this.#seenKeys;
  }

  async start(): Promise<void> {
    for (const each of this.controller.watches) this.#unsubscribe.push(this.#subscribe(each));
    const removeDynamicWatches = this.controller.addDynamicWatches?.((each) => this.#subscribe(each));
    if (removeDynamicWatches !== undefined) this.#unsubscribe.push(removeDynamicWatches);
    this.#informers.start();
    await this.controller.start?.(this.#lifetime.signal);
    await this.#environment.clock.settle();
  }

  #subscribe(watch: ControllerWatch): () => void {
    const { informer, keys } = watch;
    const enqueueKeys = (keysToEnqueue: Iterable<ObjectKey>) => {
      for (const key of keysToEnqueue) this.enqueue(key);
    };
    this.#watched.add(watch);
    const off = informer.addEventHandler({
      onAdd: (object) => enqueueKeys(keys(object, undefined)),
      onUpdate: (object, old) => enqueueKeys(keys(object, old)),
      onDelete: (object) => enqueueKeys(keys(object, undefined)),
    });
    return () => {
      this.#watched.delete(watch);
      off();
    };
  }

  async kill(): Promise<void> {
    this.#lifetime.end();
    this.#lifetime.lag.release();
    for (const off of this.#unsubscribe) off();
    for (const timer of this.#delayed.values()) timer.cancel();
    await this.controller.stop?.();
    await this.#informers.stop();
  }

  enqueue(key: ObjectKey): void {
    this.#seenKeys.add(key);
    this.#ready.add(key);
  }

  /** Reconciles every key once with stale caches, then delivers the delayed events to the caches. */
  async catchUp(): Promise<void> {
    for (const key of this.#seenKeys) this.enqueue(key);
    await this.drain();
    this.#lifetime.lag.release();
    await this.drain();
  }

  /** Enqueues the keys of every cached object. */
  enqueueAll(): void {
    for (const { informer, keys } of this.#watched)
      for (const object of informer.list()) for (const key of keys(object, undefined)) this.enqueue(key);
  }

  /** Reconciles until no key is ready or the process is dead. Delayed keys stay delayed. */
  async drain(): Promise<void> {
    const { clock } = this.#environment;
    for (;;) {
      await clock.settle();
      const batch = [...this.#ready].slice(0, this.controller.concurrentReconciles ?? 5);
      if (batch.length === 0 || this.isDead) return;
      for (const key of batch) {
        this.#ready.delete(key);
        this.#delayed.get(key)?.cancel();
        this.#delayed.delete(key);
      }
      this.#reconcileCount += batch.length;
      if (this.#reconcileCount > maxReconciles)
        throw new Error(`${this.controller.name} does not come to rest: ${maxReconciles} reconciles, the last of ${batch.join(', ')}`);
      let left = batch.length;
      for (const key of batch)
        void this.reconcile(key).finally(() => {
          left -= 1;
        });
      await clock.runUntil(() => left === 0, { what: `the reconcile of ${batch.join(', ')}` });
    }
  }

  /** Advances time until a delayed key is ready. */
  async waitForDelayedKey(): Promise<void> {
    await this.#environment.clock.runUntil(() => this.#ready.size > 0, { within: longestDelayMs });
  }

  async reconcile(key: ObjectKey): Promise<void> {
    const failures = this.#failures.get(key) ?? 0;
    const span = startSpan(noTracer, `reconcile ${this.controller.name}`);
    try {
      const result = await this.controller.reconcile(key, {
        client: this.#client,
        log: silentLogger,
        signal: this.#lifetime.signal,
        span,
        failures,
      });
      this.#failures.delete(key);
      if (result?.requeueAfterMs !== undefined) this.#requeueAfter(key, result.requeueAfterMs);
    } catch (error) {
      if (this.isDead) return;
      this.errors.push(error);
      this.#failures.set(key, failures + 1);
      this.#requeueAfter(key, Math.min(5 * 2 ** failures, longestDelayMs));
    } finally {
      span.end();
    }
  }

  #requeueAfter(key: ObjectKey, ms: number): void {
    this.#delayed.get(key)?.cancel();
    this.#delayed.set(
      key,
      this.#environment.clock.after(ms, () => {
        this.#delayed.delete(key);
        this.enqueue(key);
      }),
    );
  }
}
