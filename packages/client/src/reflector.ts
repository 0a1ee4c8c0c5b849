import { objectKey, type KubeObject, type ObjectKey } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import { failure, isStatus } from '@oarlock/api/status';
import type { Clock } from '@oarlock/kernel/clock';
import { silentLogger, type Logger } from '@oarlock/kernel/logger';
import type { Client, InformerScope, WatchEvent } from '@oarlock/spi/client';
import { Backoff } from './backoff.ts';
import type { ServedResources } from './served-resources.ts';

/** Receives what a reflector reads. The next call comes when the promise of the last has resolved. */
export interface ReflectorSink<T extends KubeObject> {
  /** The state as a whole: once at the beginning, and again whenever the thread was lost. */
  replace(items: readonly T[]): Promise<void>;
  /** What happened since, in order, each once. */
  apply(events: readonly WatchEvent<T>[]): Promise<void>;
}

export interface ReflectorOptions<T extends KubeObject> {
  readonly client: Client;
  readonly resource: Resource<T>;
  readonly scope?: InformerScope;
  readonly sink: ReflectorSink<T>;
  readonly clock: Clock;
  /** In [0, 1). */
  readonly random: () => number;
  readonly log?: Logger;
  /** Tells of kinds that the server does not have. Absent: they are asked for like those that cannot be had. */
  readonly served?: Pick<ServedResources, 'lacks' | 'whenServed'>;
  /** Get the first state through the watch (KEP-3157) rather than by a list; given up for good when the server refuses. On by default. */
  readonly streamInitialList?: boolean;
}

const pageSize = 500;
/** A watch that ends within this time without a word counts as a failure. Milliseconds. */
const shortWatchMs = 1000;
const minWatchSeconds = 300;

/**
 * Follows one resource: reads all of it, then watches from there, and resumes from the last resourceVersion after a disconnect.
 * When that is too old (`Expired`), or lies in the future of a server that lost its state, it reads everything anew.
 * Delays between failures are client-go's: 0.8 s doubling to 30 s, each up to doubled at random.
 */
export class Reflector<T extends KubeObject> {
  readonly #options: ReflectorOptions<T>;
  readonly #log: Logger;
  readonly #backoff: Backoff;
  #streaming: boolean;
  /** Where to go on; undefined: everything has to be read. */
  #version: string | undefined;
  #readBefore = false;
  /** Whether the last failure too made us read anew: then it waits like any other. */
  #rereading = false;
  /** The server said that there is no such thing, or that it may not be read. */
  #doubted = false;
  /** Who waits for what is read from now on, and of them those whom the reading that is under way will do for. */
  readonly #asked = new Set<() => void>();
  #answered: readonly (() => void)[] = [];
  #turn: AbortController | undefined;
  #ended = false;

  constructor(options: ReflectorOptions<T>) {
    this.#options = options;
    this.#log = (options.log ?? silentLogger).child({ resource: options.resource.resource });
    this.#backoff = new Backoff({ firstMs: 800, longestMs: 30_000, jitter: 1, random: options.random });
    this.#streaming = options.streamInitialList ?? true;
  }

  /** The resourceVersion up to which the sink has been told everything. */
  get version(): string | undefined {
    return this.#version;
  }

  /**
   * Reads everything anew. Resolves when the sink has been told all that the server had when this was called; also when the server refuses to tell, or
   * nothing is read any more. Rejects when the signal aborts.
   */
  reread(signal?: AbortSignal): Promise<void> {
    if (this.#ended) return Promise.resolve();
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(signal.reason);
        return;
      }
      const abort = () => {
        this.#asked.delete(done);
        reject(signal?.reason);
      };
      const done = () => {
        signal?.removeEventListener('abort', abort);
        resolve();
      };
      signal?.addEventListener('abort', abort, { once: true });
      this.#asked.add(done);
      this.#turn?.abort();
    });
  }

  /** Resolves when the signal aborts; never rejects but for faults of the sink. */
  async run(signal: AbortSignal): Promise<void> {
    try {
      while (!signal.aborted) {
        const turn = new AbortController();
        const stop = () => turn.abort();
        signal.addEventListener('abort', stop, { once: true });
        this.#turn = turn;
        try {
          await this.#follow(turn.signal, signal);
        } finally {
          signal.removeEventListener('abort', stop);
        }
      }
    } finally {
      this.#ended = true;
      this.#answer([...this.#asked]);
    }
  }

  /** Reads and watches, once. `turn` ends it: with `signal`, or because everything is to be read anew. */
  async #follow(turn: AbortSignal, signal: AbortSignal): Promise<void> {
    let failed: unknown;
    this.#answered = [...this.#asked];
    if (this.#answered.length > 0) this.#version = undefined;
    try {
      if (this.#doubted) await this.#whileUnserved(turn);
      if (turn.aborted) return;
      if (this.#version === undefined && !this.#streaming) await this.#list(turn);
      await this.#watch(turn);
      return;
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof SinkFault) throw error.cause;
      if (turn.aborted) return;
      failed = error;
    }
    const delay = this.#judge(failed);
    this.#doubted = isStatus(failed, 'NotFound', 'Forbidden');
    if (this.#doubted) this.#answer(this.#answered);
    if (delay > 0) await this.#options.clock.sleep(delay, signal).catch(() => undefined);
  }

  #answer(all: readonly (() => void)[]): void {
    for (const done of all) if (this.#asked.delete(done)) done();
  }

  /** Decides what a failure means for the next attempt, and how long to wait for it. */
  #judge(error: unknown): number {
    if (this.#version === undefined && this.#streaming && isStatus(error, 'Invalid', 'BadRequest', 'MethodNotAllowed')) {
      this.#log.debug({ err: error }, 'the server does not stream initial lists; listing instead');
      this.#streaming = false;
      return 0;
    }
    if (isStatus(error, 'Expired', 'Gone') || isTooLarge(error)) {
      this.#log.info({ err: error, version: this.#version }, 'the watch cannot be resumed; reading everything anew');
      this.#version = undefined;
      if (this.#rereading) return this.#backoff.next();
      this.#rereading = true;
      return 0;
    }
    const delay = this.#backoff.next();
    this.#log[this.#backoff.failures > 1 ? 'warn' : 'debug'](
      { err: error, delayMs: Math.round(delay) },
      'the watch was lost; trying again',
    );
    return delay;
  }

  /** Where the server does not have the kind there are no objects of it; what was read before stays, for it may come back. */
  async #whileUnserved(signal: AbortSignal): Promise<void> {
    const { served, resource, sink } = this.#options;
    this.#doubted = false;
    if (served === undefined || !(await served.lacks(resource))) return;
    this.#log.info({ group: resource.group, version: resource.version }, 'the server does not have this kind; waiting until it does');
    this.#version = undefined;
    if (!this.#readBefore) await toSink(sink.replace([]));
    await served.whenServed([resource], signal);
  }

  async #list(signal: AbortSignal): Promise<void> {
    const { client, resource, scope } = this.#options;
    const items: T[] = [];
    let version: string | undefined;
    // Any state will do at first, from the server's cache; later only the newest, so that time does not run backwards.
    if (!this.#readBefore) ({ version } = await this.#page(items, { resourceVersion: '0' }, signal));
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
        items.length = 0; // the pages took longer than the server remembers: all at once then
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
    const began = clock.monotonic();
    let heard = false;
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
      await toSink(this.#options.sink.apply(live));
      this.#version = live.at(-1)?.object.metadata?.resourceVersion ?? this.#version;
      heard = true;
      this.#healthy();
    }
    if (signal.aborted) return;
    if (initial !== undefined) throw failure('ServiceUnavailable', 'the watch ended before the initial events did');
    if (!heard && clock.monotonic() - began < shortWatchMs)
      throw failure('ServiceUnavailable', 'the watch ended at once and without events');
    this.#healthy();
  }

  #healthy(): void {
    this.#backoff.reset();
    this.#rereading = false;
  }

  async #replace(items: readonly T[], version: string | undefined): Promise<void> {
    await toSink(this.#options.sink.replace(items));
    this.#readBefore = true;
    this.#version = version ?? '';
    this.#answer(this.#answered);
  }
}

/** Takes initial events in until the bookmark that ends them; returns where it stands, or -1. */
function collect<T extends KubeObject>(batch: readonly WatchEvent<T>[], into: Map<ObjectKey, T>): number {
  for (const [at, { type, object }] of batch.entries()) {
    if (type === 'BOOKMARK') {
      if (object.metadata?.annotations?.['k8s.io/initial-events-end'] === 'true') return at;
    } else if (type === 'DELETED') into.delete(objectKey(object));
    else into.set(objectKey(object), object);
  }
  return -1;
}

function isTooLarge(error: unknown): boolean {
  return (
    isStatus(error) &&
    (error.status.details?.causes?.some(({ reason }) => reason === 'ResourceVersionTooLarge') === true ||
      /Too large resource version/i.test(error.message))
  );
}

/** A sink that fails is a fault of this process, which asking the server again would not mend. */
class SinkFault extends Error {}
async function toSink(work: Promise<void>): Promise<void> {
  try {
    await work;
  } catch (cause) {
    throw new SinkFault('the sink of a reflector failed', { cause });
  }
}
