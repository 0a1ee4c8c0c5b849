import type { KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import { apiserverIdentity } from './own-requests.ts';
import type { Pipeline } from './pipeline.ts';
import type { WatchFrame } from './response.ts';

export interface FollowingOptions {
  readonly pipeline: Pick<Pipeline, 'handle'>;
  readonly clock: Clock;
  readonly log: Logger;
  /** Called after every batch of changes, once everything has been seen; what is `gone` is the last state of what was deleted. */
  onChange(gone: readonly KubeObject[]): void;
}

const initialEventsEnd = 'k8s.io/initial-events-end';
const query = { sendInitialEvents: 'true', resourceVersionMatch: 'NotOlderThan', allowWatchBookmarks: 'true' };
const againMs = 1_000;

/** All objects of a resource as the server itself works with them: its own watch, in process, begun anew whenever it ends. */
export class Following<T extends KubeObject> {
  readonly #resource: Resource<T>;
  readonly #options: FollowingOptions;
  readonly #stop = new AbortController();
  #objects = new Map<string, T>();
  #running: Promise<void> | undefined;

  constructor(resource: Resource<T>, options: FollowingOptions) {
    this.#resource = resource;
    this.#options = options;
  }

  /** By `namespace/name`, or `name`. */
  get objects(): ReadonlyMap<string, T> {
    return this.#objects;
  }

  /** Resolves when everything that is there has been seen. */
  start(): Promise<void> {
    return new Promise((resolve) => {
      this.#running = this.#run(resolve);
    });
  }

  async stop(): Promise<void> {
    this.#stop.abort(new Error('the API server is stopping'));
    await this.#running;
  }

  async #run(seen: () => void): Promise<void> {
    const { clock, log } = this.#options;
    const { signal } = this.#stop;
    while (!signal.aborted) {
      try {
        await this.#follow(seen);
      } catch (error) {
        if (signal.aborted) break;
        log.debug({ resource: this.#resource.resource, error: String(error) }, 'a watch of the server itself begins anew');
        await clock.sleep(againMs, signal).catch(() => undefined); // rejects when the server stops
      }
    }
    seen();
  }

  async #follow(seen: () => void): Promise<void> {
    const response = await this.#options.pipeline.handle({
      verb: 'watch',
      resource: this.#resource,
      subresource: '',
      namespace: '',
      name: '',
      query,
      identity: apiserverIdentity,
      signal: this.#stop.signal,
    });
    if (response.kind !== 'watch') throw new Error(`a ${response.kind} is no watch`);
    let fresh: Map<string, T> | undefined = new Map();
    for await (const frames of response.frames) {
      const gone: T[] = [];
      for (const frame of frames) {
        if (fresh !== undefined && isEnd(frame)) {
          for (const [key, object] of this.#objects) if (!fresh.has(key)) gone.push(object);
          this.#objects = fresh;
          fresh = undefined;
        } else this.#apply(fresh ?? this.#objects, frame, gone);
      }
      if (fresh !== undefined) continue;
      this.#options.onChange(gone);
      seen();
    }
  }

  #apply(objects: Map<string, T>, { type, item }: WatchFrame, gone: T[]): void {
    if (type === 'BOOKMARK') return;
    const { name = '', namespace = '' } = item.object.metadata ?? {};
    const key = namespace === '' ? name : `${namespace}/${name}`;
    if (type === 'DELETED') {
      objects.delete(key);
      gone.push(item.object as T);
    } else objects.set(key, item.object as T);
  }
}

const isEnd = ({ type, item }: WatchFrame): boolean =>
  type === 'BOOKMARK' && item.object.metadata?.annotations?.[initialEventsEnd] === 'true';
