import { setMaxListeners } from 'node:events';
import type { KubeObject } from '@oarlock/api/object';
import { groupResource, type Resource } from '@oarlock/api/resource';
import { systemClock, type Clock } from '@oarlock/kernel/clock';
import { silentLogger, type Logger } from '@oarlock/kernel/logger';
import type { Client, Informer, Informers, InformerScope } from '@oarlock/spi/client';
import { CachedInformer } from './informer.ts';
import { Reflector } from './reflector.ts';
import { ServedResources } from './served-resources.ts';

export interface SharedInformersOptions {
  readonly client: Client;
  readonly clock?: Clock;
  /** In [0, 1). */
  readonly random?: () => number;
  readonly log?: Logger;
  /** See `ReflectorOptions`. */
  readonly streamInitialList?: boolean;
}

/** Informers of one process: one per resource and scope, however many ask. */
export class SharedInformers implements Informers {
  readonly #options: SharedInformersOptions;
  readonly #log: Logger;
  readonly #served: ServedResources;
  readonly #abort = new AbortController();
  readonly #informers = new Map<string, CachedInformer<KubeObject>>();
  readonly #ends = new Map<CachedInformer<KubeObject>, AbortController>();
  readonly #runs = new Set<Promise<void>>();
  #started = false;

  constructor(options: SharedInformersOptions) {
    this.#options = options;
    this.#log = options.log ?? silentLogger;
    this.#served = new ServedResources(options.client, options.clock);
    setMaxListeners(0, this.#abort.signal); // each informer listens
  }

  of<T extends KubeObject>(resource: Resource<T>, scope: InformerScope = {}): Informer<T> {
    const key = JSON.stringify([
      groupResource(resource),
      resource.version,
      scope.namespace ?? '',
      scope.fieldSelector ?? '',
      scope.labelSelector ?? '',
    ]);
    const known = this.#informers.get(key);
    // The key holds the resource, and the resource stands for the type of its objects.
    if (known !== undefined) return known as unknown as Informer<T>;
    const informer = new CachedInformer<T>(resource, { log: this.#log });
    this.#informers.set(key, informer as unknown as CachedInformer<KubeObject>);
    if (this.#abort.signal.aborted) informer.close();
    else if (this.#started) this.#run(key, informer, resource, scope);
    else this.#pending.push(() => this.#run(key, informer, resource, scope));
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

  /** Resolves when every informer that was asked for so far has synced. */
  async whenSynced(signal?: AbortSignal): Promise<void> {
    await Promise.all([...this.#informers.values()].map((informer) => informer.whenSynced(signal)));
  }

  /** Ends all watches. What is cached stays readable. */
  async stop(): Promise<void> {
    this.#abort.abort();
    for (const informer of this.#informers.values()) informer.close();
    await Promise.all(this.#runs);
  }

  #run<T extends KubeObject>(key: string, informer: CachedInformer<T>, resource: Resource<T>, scope: InformerScope): void {
    const { client, clock = systemClock, random = Math.random, streamInitialList } = this.#options;
    const reflector = new Reflector<T>({
      client,
      resource,
      scope,
      sink: informer,
      clock,
      random,
      log: this.#log,
      served: this.#served,
      ...(streamInitialList !== undefined && { streamInitialList }),
    });
    informer.readBy((signal) => reflector.reread(signal));
    const end = new AbortController();
    const kept = informer as unknown as CachedInformer<KubeObject>;
    if (this.#informers.get(key) !== kept) return; // released before the start
    this.#ends.set(kept, end);
    const stop = () => end.abort();
    this.#abort.signal.addEventListener('abort', stop, { once: true });
    // In a microtask, so that whoever asked can add indexes and handlers before the first object comes.
    const run = Promise.resolve()
      .then(() => reflector.run(end.signal))
      .catch((error: unknown) => {
        this.#log.error({ err: error, resource: resource.resource }, 'an informer came to its end');
      })
      .finally(() => {
        this.#abort.signal.removeEventListener('abort', stop);
        this.#runs.delete(run);
      });
    this.#runs.add(run);
  }
}
