import { objectKey, type KubeObject, type ObjectKey } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import { failure, isStatus } from '@oarlock/api/status';
import type { Clock } from '@oarlock/primitives/clock';
import { silentLogger, type Logger } from '@oarlock/primitives/logger';
import type { Client, InformerScope, WatchEvent } from '@oarlock/spi/client';
import { Backoff } from '@oarlock/primitives/backoff';
import { TransportError } from '../http/connection.ts';
import type { ResourceDiscovery } from '../resource-discovery.ts';
import { isStreamRetriable, isTooLargeVersion } from './reflector-errors.ts';

/** A store that receives the objects that a reflector reads. Calls do not overlap: the reflector waits until the previous promise has resolved. */
export interface ReflectorStore<T extends KubeObject> {
  /** Replaces the whole state: after the first list, and after each relist. */
  replace(items: readonly T[]): Promise<void>;
  /** Applies the changes since the last call, in order, each once. */
  apply(events: readonly WatchEvent<T>[]): Promise<void>;
}

export interface ReflectorOptions<T extends KubeObject> {
  readonly client: Client;
  readonly resource: Resource<T>;
  readonly scope?: InformerScope;
  readonly store: ReflectorStore<T>;
  readonly clock: Clock;
  /** Returns a number in [0, 1). */
  readonly random: () => number;
  readonly log?: Logger;
  /** Detects kinds that the server does not serve. If absent, such kinds are retried like other failures. */
  readonly discovery?: Pick<ResourceDiscovery, 'isMissing' | 'whenServed'>;
  /** Requests the initial state through the watch (KEP-3157) instead of a list. Falls back to a list if the stream fails. Default true. */
  readonly streamInitialList?: boolean;
}

const pageSize = 500;
/** A watch that ends within this time in milliseconds without an event counts as a failure. */
const shortWatchMs = 1000;
/** Minimum timeout of a watch in seconds. The timeout is random between this and twice this value (client-go's value). */
const minWatchSeconds = 300;

/**
 * Keeps a store up to date with one resource (cache.Reflector upstream): lists the objects, watches from the list's resourceVersion, and resumes from
 * the last resourceVersion after a disconnect. Lists again if that resourceVersion has expired, or is newer than that of a server that lost its
 * state. Failures are retried after client-go's delays: 0.8 s doubling to 30 s, plus up to 100 % at random. After a
 * connection loss the delays begin at 0.2 s and end at 2.5 s: the transport shares and delays connection attempts, and objects must not stay stale for
 * a minute after the server is back.
 */
export class Reflector<T extends KubeObject> {
  readonly #options: ReflectorOptions<T>;
  readonly #log: Logger;
  readonly #backoff: Backoff;
  readonly #connectionBackoff: Backoff;
  #streaming: boolean;
  /** The resourceVersion to resume from; undefined if everything must be listed. */
  #version: string | undefined;
  #hasListed = false;
  /** True if the last failure already caused a relist; a further relist is then delayed like other failures. */
  #relisted = false;
  /** True if the server responded that the resource does not exist or must not be read. */
  #maybeUnserved = false;
  /** Callbacks of `relist` calls; the next field has those that the list in progress satisfies. */
  readonly #relistWaiters = new Set<() => void>();
  #currentWaiters: readonly (() => void)[] = [];
  #attempt: AbortController | undefined;
  #ended = false;

  constructor(options: ReflectorOptions<T>) {
    this.#options = options;
    this.#log = (options.log ?? silentLogger).child({ resource: options.resource.resource });
    this.#backoff = new Backoff({ firstMs: 800, longestMs: 30_000, jitter: 1, random: options.random });
    this.#connectionBackoff = new Backoff({ firstMs: 200, longestMs: 2500, jitter: 1, random: options.random });
    this.#streaming = options.streamInitialList ?? true;
  }

  /** The resourceVersion up to which the store has received everything. */
  get lastSyncResourceVersion(): string | undefined {
    return this.#version;
  }

  /**
   * Lists everything again. Resolves when the store has received the state that the server had at the time of this call, when the server rejects the
   * list, or when the reflector has stopped. Rejects when the signal aborts.
   */
  relist(signal?: AbortSignal): Promise<void> {
    if (this.#ended) return Promise.resolve();
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(signal.reason);
        return;
      }
      const abort = () => {
        this.#relistWaiters.delete(done);
        reject(signal?.reason);
      };
      const done = () => {
        signal?.removeEventListener('abort', abort);
        resolve();
      };
      signal?.addEventListener('abort', abort, { once: true });
      this.#relistWaiters.add(done);
      this.#attempt?.abort();
    });
  }

  /** Resolves when the signal aborts. Rejects only if the store fails. */
  async run(signal: AbortSignal): Promise<void> {
    try {
      while (!signal.aborted) {
        const attempt = new AbortController();
        const stop = () => attempt.abort();
        signal.addEventListener('abort', stop, { once: true });
        this.#attempt = attempt;
        try {
          await this.#listAndWatch(attempt.signal, signal);
        } finally {
          signal.removeEventListener('abort', stop);
        }
      }
    } finally {
      this.#ended = true;
      this.#resolveWaiters([...this.#relistWaiters]);
    }
  }

  /** Lists and watches once. `attempt` aborts with `signal`, or for a relist. */
  async #listAndWatch(attempt: AbortSignal, signal: AbortSignal): Promise<void> {
    let failed: unknown;
    this.#currentWaiters = [...this.#relistWaiters];
    if (this.#currentWaiters.length > 0) this.#version = undefined;
    try {
      if (this.#maybeUnserved) await this.#waitUntilServed(attempt);
      if (attempt.aborted) return;
      if (this.#version === undefined && this.#streaming) await this.#watchList(attempt);
      else {
        if (this.#version === undefined) await this.#list(attempt);
        await this.#watch(attempt);
      }
      return;
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof StoreError) throw error.cause;
      if (attempt.aborted) return;
      failed = error;
    }
    const delay = this.#handleError(failed);
    this.#maybeUnserved = isStatus(failed, 'NotFound', 'Forbidden');
    if (this.#maybeUnserved) this.#resolveWaiters(this.#currentWaiters);
    if (delay > 0) await this.#options.clock.sleep(delay, signal).catch(() => undefined);
  }

  #resolveWaiters(waiters: readonly (() => void)[]): void {
    for (const done of waiters) if (this.#relistWaiters.delete(done)) done();
  }

  /** Updates the state after a failure, and returns the delay before the next attempt in milliseconds. */
  #handleError(error: unknown): number {
    if (isStatus(error, 'Expired', 'Gone') || isTooLargeVersion(error)) {
      this.#log.info({ err: error, version: this.#version }, 'the watch cannot be resumed; listing again');
      this.#version = undefined;
      if (this.#relisted) return this.#backoff.next();
      this.#relisted = true;
      return 0;
    }
    const backoff = isStatus(error) && error.cause instanceof TransportError ? this.#connectionBackoff : this.#backoff;
    const delay = backoff.next();
    this.#log[backoff.failures > 1 ? 'warn' : 'debug']({ err: error, delayMs: Math.round(delay) }, 'the watch failed; retrying');
    return delay;
  }

  /** Waits until the server serves the kind. The store keeps the objects listed before, because the server may serve the kind again. */
  async #waitUntilServed(signal: AbortSignal): Promise<void> {
    const { discovery, resource, store } = this.#options;
    this.#maybeUnserved = false;
    if (discovery === undefined || !(await discovery.isMissing(resource))) return;
    this.#log.info({ group: resource.group, version: resource.version }, 'the server does not serve this kind; waiting until it does');
    this.#version = undefined;
    if (!this.#hasListed) await callStore(store.replace([]));
    await discovery.whenServed([resource], signal);
    this.#log.info({ group: resource.group, version: resource.version }, 'the server serves this kind now');
  }

  /**
   * Streams the initial state and the changes after it. Lists instead if the stream fails before the initial state is complete:
   * a server may reject the stream with any error (over etcd 3.4: "RequestWatchProgress is disabled"), and would reject it again.
   */
  async #watchList(signal: AbortSignal): Promise<void> {
    try {
      await this.#watch(signal);
      return;
    } catch (error) {
      const isInitialized = this.#version !== undefined;
      if (signal.aborted || isInitialized || error instanceof StoreError || isStreamRetriable(error)) throw error;
      this.#log.info({ err: error }, 'the stream of the initial list failed; listing instead');
      if (isStatus(error, 'Invalid', 'BadRequest', 'MethodNotAllowed')) this.#streaming = false;
    }
    await this.#list(signal);
    await this.#watch(signal);
  }

  async #list(signal: AbortSignal): Promise<void> {
    const { client, resource, scope } = this.#options;
    const items: T[] = [];
    let version: string | undefined;
    // the first list may come from the server's cache; later ones must be the newest, so that the state does not go back in time
    if (!this.#hasListed) ({ version } = await this.#page(items, { resourceVersion: '0' }, signal));
    else {
      try {
        let next: string | undefined;
        do {
          const page = await this.#page(items, { limit: pageSize, ...(next !== undefined && { continue: next }) }, signal);
          version = page.version;
          next = page.next;
        } while (next !== undefined && next !== '');
      } catch (error) {
        if (!isStatus(error, 'Expired') || items.length === 0) throw error;
        items.length = 0; // the continue token expired between pages: list without a limit
        const list = await client.list(resource, { ...scope, signal });
        items.push(...list.items);
        version = list.metadata?.resourceVersion;
      }
    }
    await this.#replace(items, version);
  }

  async #page(
    into: T[],
    options: { resourceVersion?: string; limit?: number; continue?: string },
    signal: AbortSignal,
  ): Promise<{ version: string | undefined; next: string | undefined }> {
    const { client, resource, scope } = this.#options;
    const list = await client.list(resource, { ...scope, ...options, signal });
    for (const item of list.items) into.push(item);
    return { version: list.metadata?.resourceVersion, next: list.metadata?.continue };
  }

  async #watch(signal: AbortSignal): Promise<void> {
    const { client, resource, scope, clock, random } = this.#options;
    let initial = this.#version === undefined ? new Map<ObjectKey, T>() : undefined;
    const startedAt = clock.monotonic();
    let hasReceived = false;
    const events = client.watch(resource, {
      ...scope,
      signal,
      timeoutSeconds: Math.floor(minWatchSeconds * (1 + random())),
      ...(this.#version === undefined ? { sendInitialEvents: true } : { resourceVersion: this.#version }),
    });
    for await (const batch of events) {
      if (signal.aborted) return;
      let live: readonly WatchEvent<T>[] = batch;
      if (initial !== undefined) {
        const end = collect(batch, initial);
        if (end < 0) continue;
        await this.#replace([...initial.values()], batch[end]?.object.metadata?.resourceVersion);
        initial = undefined;
        live = batch.slice(end + 1);
      }
      if (live.length === 0) continue;
      await callStore(this.#options.store.apply(live));
      this.#version = live.at(-1)?.object.metadata?.resourceVersion ?? this.#version;
      hasReceived = true;
      this.#resetBackoff();
    }
    if (signal.aborted) return;
    if (initial !== undefined) throw failure('ServiceUnavailable', 'the watch ended before the initial events did');
    if (!hasReceived && clock.monotonic() - startedAt < shortWatchMs)
      throw failure('ServiceUnavailable', 'the watch ended immediately without events');
    this.#resetBackoff();
  }

  #resetBackoff(): void {
    this.#backoff.reset();
    this.#connectionBackoff.reset();
    this.#relisted = false;
  }

  async #replace(items: readonly T[], version: string | undefined): Promise<void> {
    await callStore(this.#options.store.replace(items));
    this.#hasListed = true;
    this.#version = version ?? '';
    this.#resolveWaiters(this.#currentWaiters);
  }
}

/**
 * Collects initial events until the bookmark that ends the initial events. Returns the bookmark's index, or -1 if this batch has no such bookmark.
 */
function collect<T extends KubeObject>(batch: readonly WatchEvent<T>[], into: Map<ObjectKey, T>): number {
  for (const [at, { type, object }] of batch.entries()) {
    if (type === 'BOOKMARK') {
      if (object.metadata?.annotations?.['k8s.io/initial-events-end'] === 'true') return at;
    } else if (type === 'DELETED') into.delete(objectKey(object));
    else into.set(objectKey(object), object);
  }
  return -1;
}

/** An error of the store, which is a bug of this process and therefore not retried. */
class StoreError extends Error {}
async function callStore(work: Promise<void>): Promise<void> {
  try {
    await work;
  } catch (cause) {
    throw new StoreError('the store of a reflector failed', { cause });
  }
}
