import type { KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { apiserverIdentity } from './loopback-client.ts';
import type { WatchFrame, RequestHandler } from '../endpoints/request/response.ts';

export interface LoopbackInformerOptions {
  readonly pipeline: RequestHandler;
  /** The namespace of the cached objects; all namespaces if absent. */
  readonly namespace?: string;
  /** The field selector of the cached objects; all objects if absent. */
  readonly fieldSelector?: string;
  readonly clock: Clock;
  readonly log: Logger;
  /** Called after each batch of changes that follows the initial list. `deleted` contains the last state of deleted objects. */
  onChange(deleted: readonly KubeObject[]): void;
}

const initialEventsEnd = 'k8s.io/initial-events-end';
const query = { sendInitialEvents: 'true', resourceVersionMatch: 'NotOlderThan', allowWatchBookmarks: 'true' };
const retryDelayMs = 1_000;

/** Caches all objects of a resource from an in-process watch of the API server; restarts the watch when it ends. */
export class LoopbackInformer<T extends KubeObject> {
  readonly #resource: Resource<T>;
  readonly #options: LoopbackInformerOptions;
  readonly #stop = new AbortController();
  #objects = new Map<string, T>();
  #running: Promise<void> | undefined;

  constructor(resource: Resource<T>, options: LoopbackInformerOptions) {
    this.#resource = resource;
    this.#options = options;
  }

  /** The cached objects, by `namespace/name`, or by `name` for cluster-scoped objects. */
  get objects(): ReadonlyMap<string, T> {
    return this.#objects;
  }

  /** Starts the watch. Resolves when the initial list is complete. */
  start(): Promise<void> {
    return new Promise((resolve) => {
      this.#running = this.#runWatch(resolve);
    });
  }

  async stop(): Promise<void> {
    this.#stop.abort(new Error('the API server is stopping'));
    await this.#running;
  }

  async #runWatch(onListed: () => void): Promise<void> {
    const { clock, log } = this.#options;
    const { signal } = this.#stop;
    while (!signal.aborted) {
      try {
        await this.#watchOnce(onListed);
      } catch (error) {
        if (signal.aborted) break;
        log.debug({ resource: this.#resource.resource, error: String(error) }, 'a loopback watch failed and restarts');
        await clock.sleep(retryDelayMs, signal).catch(() => undefined); // rejects when the server stops
      }
    }
    onListed();
  }

  async #watchOnce(onListed: () => void): Promise<void> {
    const { pipeline, namespace = '', fieldSelector } = this.#options;
    const response = await pipeline.handle({
      verb: 'watch',
      resource: this.#resource,
      subresource: '',
      namespace,
      name: '',
      query: { ...query, ...(fieldSelector !== undefined && { fieldSelector }) },
      identity: apiserverIdentity,
      signal: this.#stop.signal,
    });
    if (response.kind !== 'watch') throw new Error(`expected a watch, the API server returned ${response.kind}`);
    let initial: Map<string, T> | undefined = new Map();
    for await (const frames of response.frames) {
      const deleted: T[] = [];
      for (const frame of frames) {
        if (initial !== undefined && isInitialEventsEnd(frame)) {
          for (const [key, object] of this.#objects) if (!initial.has(key)) deleted.push(object);
          this.#objects = initial;
          initial = undefined;
        } else this.#apply(initial ?? this.#objects, frame, deleted);
      }
      if (initial !== undefined) continue;
      this.#options.onChange(deleted);
      onListed();
    }
  }

  #apply(objects: Map<string, T>, { type, item }: WatchFrame, deleted: T[]): void {
    if (type === 'BOOKMARK') return;
    const { name = '', namespace = '' } = item.object.metadata ?? {};
    const key = namespace === '' ? name : `${namespace}/${name}`;
    if (type === 'DELETED') {
      objects.delete(key);
      deleted.push(item.object as T);
    } else objects.set(key, item.object as T);
  }
}

const isInitialEventsEnd = ({ type, item }: WatchFrame): boolean =>
  type === 'BOOKMARK' && item.object.metadata?.annotations?.[initialEventsEnd] === 'true';
