import { objectKey, type KubeObject, type ObjectKey } from '@oarlock/api/object';
import { apiVersionOf, groupResource, type Resource } from '@oarlock/api/resource';
import { expired, failure } from '@oarlock/api/status';
import type { SpanContext } from '@oarlock/kernel/tracing';
import type { WatchEvent } from '@oarlock/spi/client';

interface Change {
  readonly revision: number;
  readonly before: KubeObject | undefined;
  readonly after: KubeObject | undefined;
  readonly last: KubeObject;
  readonly spanContext: SpanContext | undefined;
}
interface Table {
  readonly objects: Map<ObjectKey, KubeObject>;
  history: Change[];
  compacted: number;
  readonly streams: Set<Stream>;
}

export interface StreamOptions {
  readonly filter: (object: KubeObject) => boolean;
  /** Revision after which changes are sent. If absent, the watch first sends the existing objects as ADDED. */
  readonly after?: number | undefined;
  /** Whether a bookmark marks the end of the initial objects. */
  readonly initialEventsEnd: boolean;
  readonly signal: AbortSignal | undefined;
}

const keptChanges = 10_000;
const maxQueued = 100_000;

/** The key to remove, the last state of its object, and the span that caused the removal. */
export interface MemoryRemoval {
  readonly key: ObjectKey;
  readonly last: (before: KubeObject, resourceVersion: string) => KubeObject;
  readonly spanContext: SpanContext | undefined;
}

/** Stores frozen objects by key with one sequence of revisions, and streams their changes. */
export class MemoryStore {
  readonly #tables = new Map<string, Table>();
  readonly #touch: () => void;
  #revision = 0;

  constructor(touch: () => void) {
    this.#touch = touch;
  }

  get revision(): number {
    return this.#revision;
  }
  get(resource: Resource, key: ObjectKey): KubeObject | undefined {
    return this.#table(resource).objects.get(key);
  }
  all(resource: Resource): KubeObject[] {
    return [...this.#table(resource).objects.values()];
  }

  /** Stores the object that `make(resourceVersion)` returns, under the object's key. */
  put(resource: Resource, make: (resourceVersion: string) => KubeObject, spanContext: SpanContext | undefined): KubeObject {
    const object = make(String(++this.#revision));
    const table = this.#table(resource);
    const key = objectKey(object);
    const before = table.objects.get(key);
    table.objects.set(key, object);
    this.#publish(table, { revision: this.#revision, before, after: object, last: object, spanContext });
    return object;
  }

  /** Removes an object. `last` returns the last state of the object with the revision of the removal. */
  remove(resource: Resource, { key, last, spanContext }: MemoryRemoval): KubeObject | undefined {
    const table = this.#table(resource);
    const before = table.objects.get(key);
    if (before === undefined) return undefined;
    table.objects.delete(key);
    const object = last(before, String(++this.#revision));
    this.#publish(table, { revision: this.#revision, before, after: undefined, last: object, spanContext });
    return object;
  }

  /** Opens a watch. @throws StatusError `Expired` if changes after `after` are compacted, `Timeout` if `after` is in the future */
  open(resource: Resource, { filter, after, initialEventsEnd, signal }: StreamOptions): Stream {
    const table = this.#table(resource);
    if (after !== undefined && after > this.#revision) {
      throw failure('Timeout', `Too large resource version: ${after}, current: ${this.#revision}`, {
        causes: [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }],
        retryAfterSeconds: 1,
      });
    }
    if (after !== undefined && after < table.compacted) throw expired(`too old resource version: ${after} (${table.compacted})`);
    const stream = new Stream(filter, { signal, touch: this.#touch, closed: () => table.streams.delete(stream) });
    if (after === undefined) {
      const initial = [...table.objects.values()].filter(filter).map((object): WatchEvent => ({ type: 'ADDED', object }));
      if (initialEventsEnd) initial.push({ type: 'BOOKMARK', object: this.#bookmark(resource, { 'k8s.io/initial-events-end': 'true' }) });
      stream.push(...initial);
    } else {
      for (const change of table.history) if (change.revision > after) stream.notify(change);
    }
    table.streams.add(stream);
    return stream;
  }

  /** Sends a BOOKMARK to every open stream of the resource. */
  bookmark(resource: Resource): void {
    for (const stream of this.#table(resource).streams) stream.push({ type: 'BOOKMARK', object: this.#bookmark(resource) });
  }

  /** Ends open streams as a lost connection does: queued events are delivered, then the stream ends without an error. */
  endStreams(resource?: Resource): void {
    for (const table of resource ? [this.#table(resource)] : this.#tables.values()) for (const stream of table.streams) stream.end();
  }

  /** Compacts the history: a watch that resumes at an earlier revision fails with `Expired`. */
  compact(): void {
    for (const table of this.#tables.values()) {
      table.history = [];
      table.compacted = this.#revision;
    }
  }

  #bookmark(resource: Resource, annotations?: Record<string, string>): KubeObject {
    return {
      apiVersion: apiVersionOf(resource),
      kind: resource.kind,
      metadata: { resourceVersion: String(this.#revision), ...(annotations && { annotations }) },
    };
  }

  #publish(table: Table, change: Change): void {
    table.history.push(change);
    if (table.history.length > 2 * keptChanges) {
      table.history = table.history.slice(-keptChanges);
      table.compacted = (table.history[0]?.revision ?? 1) - 1;
    }
    for (const stream of table.streams) stream.notify(change);
    this.#touch();
  }

  #table(resource: Resource): Table {
    const name = groupResource(resource);
    let table = this.#tables.get(name);
    if (table === undefined) this.#tables.set(name, (table = { objects: new Map(), history: [], compacted: 0, streams: new Set() }));
    return table;
  }
}

/** What a watch of the store is opened with. */
export interface MemoryStreamOptions {
  readonly signal: AbortSignal | undefined;
  readonly touch: () => void;
  readonly closed: () => void;
}

/** A watch. All changes since the last read are delivered as one batch. */
export class Stream implements AsyncIterable<readonly WatchEvent[]> {
  readonly #filter: (object: KubeObject) => boolean;
  readonly #touch: () => void;
  readonly #closed: () => void;
  readonly #signal: AbortSignal | undefined;
  #queue: WatchEvent[] = [];
  #ended = false;
  #error: unknown;
  #wake: (() => void) | undefined;
  readonly #abort = () => this.end();

  constructor(filter: (object: KubeObject) => boolean, { signal, touch, closed }: MemoryStreamOptions) {
    this.#filter = filter;
    this.#touch = touch;
    this.#closed = closed;
    this.#signal = signal;
    if (signal?.aborted) this.#ended = true;
    else signal?.addEventListener('abort', this.#abort, { once: true });
  }

  /** Queues a change for a watch. With selectors, an object that starts or stops matching is reported as ADDED or DELETED. */
  notify({ revision, before, after, last, spanContext }: Change): void {
    const was = before !== undefined && this.#filter(before);
    const is = after !== undefined && this.#filter(after);
    if (!was && !is) return;
    const type = is ? (was ? 'MODIFIED' : 'ADDED') : 'DELETED';
    const object =
      type !== 'DELETED'
        ? last
        : Object.freeze({
            ...(before ?? last),
            metadata: Object.freeze({ ...(before ?? last).metadata, resourceVersion: String(revision) }),
          });
    this.push({ type, object, ...(spanContext && { spanContext }) });
  }

  push(...events: WatchEvent[]): void {
    if (this.#ended || events.length === 0) return;
    if (this.#queue.length + events.length > maxQueued) {
      this.end(expired('the watcher is too slow'));
      return;
    }
    for (const event of events) this.#queue.push(event);
    this.#touch();
    this.#wake?.();
  }

  end(error?: unknown): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#error = error;
    this.#signal?.removeEventListener('abort', this.#abort);
    this.#closed();
    this.#touch();
    this.#wake?.();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<readonly WatchEvent[]> {
    try {
      for (;;) {
        if (this.#queue.length > 0 && this.#signal?.aborted !== true) {
          const batch = this.#queue;
          this.#queue = [];
          yield batch;
          this.#touch();
        } else if (this.#ended) {
          if (this.#error !== undefined) throw this.#error;
          return;
        } else {
          await new Promise<void>((resolve) => {
            this.#wake = resolve;
          });
          this.#wake = undefined;
        }
      }
    } finally {
      this.end();
    }
  }
}
