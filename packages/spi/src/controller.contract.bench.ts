import type { ObjectKey } from '@oarlock/api/object';
import { silentLogger } from '@oarlock/kernel/logger';
import type { Clock, Timer } from '@oarlock/kernel/clock';
import type { Lifecycle } from '@oarlock/kernel/plugin';
import { noTracer, startSpan } from '@oarlock/kernel/tracing';
import type { Client, Informers } from './client.ts';
import { CuttingClient, Life, Writes } from './controller.contract.client.ts';
import type { Controller, Watch } from './controller.ts';

/** An API in memory: `memoryApi` of @oarlock/testing is one. */
export interface ContractApi {
  client(): Client;
  dropWatches(): void;
  /** Forgets the history: a watch that resumes is told `Expired`. */
  compact(): void;
  stop(): Promise<void>;
}
/** A clock that stands still: `FakeClock` of @oarlock/testing is one. */
export interface ContractClock extends Clock {
  settle(): Promise<void>;
  advance(ms: number): Promise<void>;
  runUntil(condition: () => boolean, options?: { readonly within?: number; readonly what?: string }): Promise<void>;
}
/** Informers that somebody starts and stops: `SharedInformers` of @oarlock/client are. */
export interface ContractInformers extends Informers {
  start(): void;
  stop(): Promise<void>;
}

export interface ControllerWorld<A extends ContractApi = ContractApi> {
  readonly api: A;
  readonly clock: ContractClock;
  /** Informers over a client, with caches of their own: each life of the controller begins with empty ones. */
  informers(client: Client): ContractInformers;
}
/** What one life of a controller is made of. */
export interface ControllerParts<A extends ContractApi = ContractApi> {
  readonly api: A;
  readonly client: Client;
  readonly informers: Informers;
  readonly clock: ContractClock;
}
export type MakeController<A extends ContractApi> = (parts: ControllerParts<A>) => Controller & Lifecycle;

const maxReconciles = 5_000; // of one run; more means that it never comes to rest
const longestDelayMs = 1_000_000;

/** Runs one controller as the controllers role does, from its start to its end: keys from watches, several workers, growing delays. */
export class ControllerLife<A extends ContractApi> {
  readonly #world: ControllerWorld<A>;
  readonly #life = new Life();
  readonly #client: Client;
  readonly #informers: ContractInformers;
  readonly #off: (() => void)[] = [];
  readonly #ready = new Set<ObjectKey>();
  readonly #delayed = new Map<ObjectKey, Timer>();
  readonly #failures = new Map<ObjectKey, number>();
  readonly #seen = new Set<ObjectKey>();
  readonly #watched = new Set<Watch>();
  readonly controller: Controller & Lifecycle;
  /** What reconciles threw, in order. */
  readonly errors: unknown[] = [];
  #reconciles = 0;

  constructor(world: ControllerWorld<A>, make: MakeController<A>, writes: Writes) {
    this.#world = world;
    this.#client = new CuttingClient(world.api.client(), writes, this.#life);
    // what informers read is not cut, but may come late
    this.#informers = world.informers(new CuttingClient(world.api.client(), new Writes(), new Life(this.#life.lag)));
    this.controller = make({ api: world.api, client: this.#client, informers: this.#informers, clock: world.clock });
  }

  get dead(): boolean {
    return this.#life.dead;
  }
  /** Caches are behind what it has written. */
  get behind(): boolean {
    return this.#life.lag.held;
  }
  get delayed(): boolean {
    return this.#delayed.size > 0;
  }
  /** How often it was asked to reconcile, in this life. */
  get reconciles(): number {
    return this.#reconciles;
  }
  /** Every key that was ever woken. */
  get seen(): ReadonlySet<ObjectKey> {
    return this.#seen;
  }

  async start(): Promise<void> {
    for (const each of this.controller.watches) this.#off.push(this.#subscribe(each));
    const leave = this.controller.follow?.((each) => this.#subscribe(each));
    if (leave !== undefined) this.#off.push(leave);
    this.#informers.start();
    await this.controller.start?.(this.#life.signal);
    await this.#world.clock.settle();
  }

  #subscribe(watch: Watch): () => void {
    const { informer, keys } = watch;
    const wake = (found: Iterable<ObjectKey>) => {
      for (const key of found) this.wake(key);
    };
    this.#watched.add(watch);
    const off = informer.on({
      added: (object) => wake(keys(object, undefined)),
      updated: (object, old) => wake(keys(object, old)),
      deleted: (object) => wake(keys(object, undefined)),
    });
    return () => {
      this.#watched.delete(watch);
      off();
    };
  }

  async end(): Promise<void> {
    this.#life.end();
    this.#life.lag.release();
    for (const off of this.#off) off();
    for (const timer of this.#delayed.values()) timer.cancel();
    await this.controller.stop?.();
    await this.#informers.stop();
  }

  wake(key: ObjectKey): void {
    this.#seen.add(key);
    this.#ready.add(key);
  }

  /** Reconciles everything once more with caches that are behind, then lets them catch up. */
  async catchUp(): Promise<void> {
    for (const key of this.#seen) this.wake(key);
    await this.drain();
    this.#life.lag.release();
    await this.drain();
  }

  /** Wakes every key that any cached object stands for. */
  wakeAll(): void {
    for (const { informer, keys } of this.#watched)
      for (const object of informer.list()) for (const key of keys(object, undefined)) this.wake(key);
  }

  /** Reconciles until no key is left, or the process is dead. What is to come back later stays so. */
  async drain(): Promise<void> {
    const { clock } = this.#world;
    for (;;) {
      await clock.settle();
      const batch = [...this.#ready].slice(0, this.controller.workers ?? 5);
      if (batch.length === 0 || this.dead) return;
      for (const key of batch) {
        this.#ready.delete(key);
        this.#delayed.get(key)?.cancel();
        this.#delayed.delete(key);
      }
      this.#reconciles += batch.length;
      if (this.#reconciles > maxReconciles)
        throw new Error(`${this.controller.name} does not come to rest: ${maxReconciles} reconciles, the last of ${batch.join(', ')}`);
      let left = batch.length;
      for (const key of batch)
        void this.reconcile(key).finally(() => {
          left -= 1;
        });
      await clock.runUntil(() => left === 0, { what: `the reconcile of ${batch.join(', ')}` });
    }
  }

  /** Lets time go on to the next key that is to come back. */
  async wait(): Promise<void> {
    await this.#world.clock.runUntil(() => this.#ready.size > 0, { within: longestDelayMs });
  }

  async reconcile(key: ObjectKey): Promise<void> {
    const failures = this.#failures.get(key) ?? 0;
    const span = startSpan(noTracer, `reconcile ${this.controller.name}`);
    try {
      const result = await this.controller.reconcile(key, {
        client: this.#client,
        log: silentLogger,
        signal: this.#life.signal,
        span,
        failures,
      });
      this.#failures.delete(key);
      if (result?.requeueAfterMs !== undefined) this.#later(key, result.requeueAfterMs);
    } catch (error) {
      if (this.dead) return;
      this.errors.push(error);
      this.#failures.set(key, failures + 1);
      this.#later(key, Math.min(5 * 2 ** failures, longestDelayMs));
    } finally {
      span.end();
    }
  }

  #later(key: ObjectKey, ms: number): void {
    this.#delayed.get(key)?.cancel();
    this.#delayed.set(
      key,
      this.#world.clock.after(ms, () => {
        this.#delayed.delete(key);
        this.wake(key);
      }),
    );
  }
}
