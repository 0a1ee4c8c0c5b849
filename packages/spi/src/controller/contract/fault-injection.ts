import type { KubeObject, ObjectList } from '@oarlock/api/object';
import { groupResource, type Resource } from '@oarlock/api/resource';
import { conflict, failure, isStatus } from '@oarlock/api/status';
import type { SpanContext } from '@oarlock/kernel/tracing';
import type {
  CallOptions,
  Client,
  DeleteOptions,
  GetOptions,
  ListOptions,
  ObjectName,
  PatchOptions,
  PatchType,
  WatchEvent,
  WatchOptions,
  WriteOptions,
} from '../../composition/client.ts';

/**
 * A fault of one write.
 *
 * - `conflict`, `unavailable`: the server rejects the write;
 * - `lost`: the write takes effect, but the response is lost;
 * - `killed before`, `killed after`: the controller's process dies before or after the write takes effect;
 * - `raced`: another client changes the object just before the write;
 * - `unseen`: the write takes effect, but the caches receive this and all later changes only after every key was reconciled again.
 */
export type WriteFault = 'conflict' | 'unavailable' | 'lost' | 'killed before' | 'killed after' | 'raced' | 'unseen';
export const writeFaults: readonly WriteFault[] = ['conflict', 'unavailable', 'lost', 'killed before', 'killed after', 'raced', 'unseen'];

/** The writes of one run of a scenario, and the fault to inject. */
export class WriteLog {
  /** All writes in order, such as `create pods`, including rejected ones. */
  readonly writes: string[] = [];
  readonly fault: { readonly at: number; readonly kind: WriteFault } | undefined;
  constructor(fault?: { readonly at: number; readonly kind: WriteFault }) {
    this.fault = fault;
  }
}

/** Delays watch events. */
export class CacheLag {
  #held: Promise<void> | undefined;
  #release = () => {};
  get isHeld(): boolean {
    return this.#held !== undefined;
  }
  hold(): void {
    this.#held ??= new Promise((resolve) => {
      this.#release = resolve;
    });
  }
  release(): void {
    this.#held = undefined;
    this.#release();
  }
  async *delay<T>(events: AsyncIterable<T>): AsyncIterable<T> {
    for await (const each of events) {
      await this.#held;
      yield each;
    }
  }
}

/** The lifetime of the simulated process to which a client belongs. */
export class ProcessLifetime {
  isDead = false;
  readonly lag: CacheLag;
  readonly #end = new AbortController();
  constructor(lag = new CacheLag()) {
    this.lag = lag;
  }
  get signal(): AbortSignal {
    return this.#end.signal;
  }
  end(): void {
    this.isDead = true;
    this.#end.abort(new Error('the process was killed'));
  }
}

const connectionLost = () => failure('ServiceUnavailable', 'the connection was cut', { retryAfterSeconds: 1 });

/** A client that forwards all calls, records writes, and injects one fault. */
export class FaultInjectingClient implements Client {
  readonly #inner: Client;
  readonly #writes: WriteLog;
  readonly #lifetime: ProcessLifetime;

  constructor(inner: Client, writes: WriteLog, lifetime: ProcessLifetime) {
    this.#inner = inner;
    this.#writes = writes;
    this.#lifetime = lifetime;
  }

  get<T extends KubeObject>(resource: Resource<T>, name: ObjectName, options?: GetOptions): Promise<T> {
    return this.#read(() => this.#inner.get(resource, name, options));
  }
  list<T extends KubeObject>(resource: Resource<T>, options?: ListOptions): Promise<ObjectList<T>> {
    return this.#read(() => this.#inner.list(resource, options));
  }
  watch<T extends KubeObject>(resource: Resource<T>, options: WatchOptions): AsyncIterable<readonly WatchEvent<T>[]> {
    return this.#lifetime.lag.delay(this.#inner.watch(resource, options));
  }
  raw(method: 'GET' | 'POST' | 'PUT' | 'DELETE', path: string, body?: unknown, options?: CallOptions): Promise<unknown> {
    return this.#read(() => this.#inner.raw(method, path, body, options));
  }
  withSpanContext(spanContext: SpanContext | undefined): Client {
    return new FaultInjectingClient(this.#inner.withSpanContext(spanContext), this.#writes, this.#lifetime);
  }

  create<T extends KubeObject>(resource: Resource<T>, object: T, options?: WriteOptions & { readonly name?: ObjectName }): Promise<T> {
    return this.#write('create', resource, object.metadata, () => this.#inner.create(resource, object, options));
  }
  update<T extends KubeObject>(resource: Resource<T>, object: T, options?: WriteOptions): Promise<T> {
    return this.#write('update', resource, object.metadata, () => this.#inner.update(resource, object, options));
  }
  patch<T extends KubeObject>(
    resource: Resource<T>,
    name: ObjectName,
    type: PatchType,
    patch: unknown,
    options?: PatchOptions,
  ): Promise<T> {
    return this.#write('patch', resource, name, () => this.#inner.patch(resource, name, type, patch, options));
  }
  delete<T extends KubeObject>(resource: Resource<T>, name: ObjectName, options?: DeleteOptions): Promise<T | undefined> {
    return this.#write('delete', resource, name, () => this.#inner.delete(resource, name, options));
  }
  deleteCollection<T extends KubeObject>(
    resource: Resource<T>,
    options?: DeleteOptions & Pick<ListOptions, 'namespace' | 'labelSelector' | 'fieldSelector'>,
  ): Promise<void> {
    return this.#write('deletecollection', resource, undefined, () => this.#inner.deleteCollection(resource, options));
  }

  async #read<T>(call: () => Promise<T>): Promise<T> {
    if (this.#lifetime.isDead) throw connectionLost();
    return call();
  }

  async #write<T>(verb: string, resource: Resource, of: Partial<ObjectName> | undefined, call: () => Promise<T>): Promise<T> {
    if (this.#lifetime.isDead) throw connectionLost();
    const { writes, fault } = this.#writes;
    const { name } = of ?? {};
    writes.push(`${verb} ${groupResource(resource)}${name === undefined ? '' : ` ${name}`}`);
    if (fault?.at !== writes.length) return call();
    switch (fault.kind) {
      case 'conflict':
        throw conflict(resource, name ?? '', 'the object has been modified; please apply your changes to the latest version and try again');
      case 'unavailable':
        throw connectionLost();
      case 'lost':
        await call();
        throw connectionLost();
      case 'killed before':
        this.#lifetime.end();
        throw connectionLost();
      case 'killed after':
        await call();
        this.#lifetime.end();
        throw connectionLost();
      case 'raced':
        await this.#race(resource, { ...of, name: name ?? '' });
        return call();
      case 'unseen':
        this.#lifetime.lag.hold();
        return call();
    }
  }

  /** Changes an annotation, so that the object has a new resourceVersion and is otherwise the same. */
  async #race(resource: Resource, name: ObjectName): Promise<void> {
    const change = { metadata: { annotations: { 'example.com/changed-by': 'another-client' } } };
    await this.#inner.patch(resource, name, 'merge', change).catch((error: unknown) => {
      if (!isStatus(error, 'NotFound')) throw error;
    });
  }
}
