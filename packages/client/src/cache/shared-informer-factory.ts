import { setMaxListeners } from 'node:events';
import type { KubeObject } from '@oarlock/api/object';
import { groupResource, type Resource } from '@oarlock/api/resource';
import { systemClock, type Clock } from '@oarlock/primitives/clock';
import { silentLogger, type Logger } from '@oarlock/primitives/logger';
import type { Client, Informer, Informers, InformerScope } from '@oarlock/spi/client';
import { SharedIndexInformer } from './shared-index-informer.ts';
import { Reflector } from './reflector.ts';
import { ResourceDiscovery } from '../resource-discovery.ts';

export interface SharedInformerFactoryOptions {
  readonly client: Client;
  readonly clock?: Clock;
  /** Returns a number in [0, 1). */
  readonly random?: () => number;
  readonly log?: Logger;
  /** See `ReflectorOptions`. */
  readonly streamInitialList?: boolean;
}

/** The shared informers of one process: one per resource and scope. */
export class SharedInformerFactory implements Informers {
  readonly #options: SharedInformerFactoryOptions;
  readonly #log: Logger;
  readonly #discovery: ResourceDiscovery;
  readonly #abort = new AbortController();
  readonly #informers = new Map<string, SharedIndexInformer<KubeObject>>();
  readonly #ends = new Map<SharedIndexInformer<KubeObject>, AbortController>();
  readonly #runs = new Set<Promise<void>>();
  #started = false;

  constructor(options: SharedInformerFactoryOptions) {
    this.#options = options;
    this.#log = options.log ?? silentLogger;
    this.#discovery = new ResourceDiscovery(options.client, options.clock);
    setMaxListeners(0, this.#abort.signal); // each informer adds a listener
  }

  forResource<T extends KubeObject>(resource: Resource<T>, scope: InformerScope = {}): Informer<T> {
    const key = JSON.stringify([
      groupResource(resource),
      resource.version,
      scope.namespace ?? '',
      scope.fieldSelector ?? '',
      scope.labelSelector ?? '',
    ]);
    const known = this.#informers.get(key);
    // the key contains the resource, which determines the type of its objects
    if (known !== undefined) return known as unknown as Informer<T>;
    const informer = new SharedIndexInformer<T>(resource, { log: this.#log });
    this.#informers.set(key, informer as unknown as SharedIndexInformer<KubeObject>);
    if (this.#abort.signal.aborted) informer.close();
    else if (this.#started) this.#run(key, { informer, resource, scope });
    else this.#pending.push(() => this.#run(key, { informer, resource, scope }));
    return informer;
  }

  readonly #pending: (() => void)[] = [];

  release(resource: Resource): void {
    for (const [key, informer] of this.#informers) {
      const { resource: own } = informer;
      if (own.version !== resource.version || groupResource(own) !== groupResource(resource)) continue;
      this.#informers.delete(key);
      this.#ends.get(informer)?.abort();
      this.#ends.delete(informer);
      informer.close();
    }
  }

  start(): void {
    if (this.#started) return;
    this.#started = true;
    for (const run of this.#pending.splice(0)) run();
  }

  /** Resolves when every informer that exists at the time of the call has synced. */
  async whenSynced(signal?: AbortSignal): Promise<void> {
    await Promise.all([...this.#informers.values()].map((informer) => informer.whenSynced(signal)));
  }

  /** Stops all informers. Their caches stay readable. */
  async stop(): Promise<void> {
    this.#abort.abort();
    for (const informer of this.#informers.values()) informer.close();
    await Promise.all(this.#runs);
  }

  #run<T extends KubeObject>(
    key: string,
    {
      informer,
      resource,
      scope,
    }: { readonly informer: SharedIndexInformer<T>; readonly resource: Resource<T>; readonly scope: InformerScope },
  ): void {
    const { client, clock = systemClock, random = Math.random, streamInitialList } = this.#options;
    const reflector = new Reflector<T>({
      client,
      resource,
      scope,
      store: informer,
      clock,
      random,
      log: this.#log,
      discovery: this.#discovery,
      ...(streamInitialList !== undefined && { streamInitialList }),
    });
    informer.setRelist((signal) => reflector.relist(signal));
    const end = new AbortController();
    const kept = informer as unknown as SharedIndexInformer<KubeObject>;
    if (this.#informers.get(key) !== kept) return; // released before the start
    this.#ends.set(kept, end);
    const stop = () => end.abort();
    this.#abort.signal.addEventListener('abort', stop, { once: true });
    // in a microtask, so that the caller can add indexes and handlers before the first object arrives
    const run = Promise.resolve()
      .then(() => reflector.run(end.signal))
      .catch((error: unknown) => {
        this.#log.error({ err: error, resource: resource.resource }, 'an informer stopped after an error');
      })
      .finally(() => {
        this.#abort.signal.removeEventListener('abort', stop);
        this.#runs.delete(run);
      });
    this.#runs.add(run);
  }
}
