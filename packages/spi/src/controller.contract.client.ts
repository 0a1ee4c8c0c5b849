import type { KubeObject, ObjectList } from '@oarlock/api/object';
import { groupResource, type Resource } from '@oarlock/api/resource';
import { conflict, failure, isStatus } from '@oarlock/api/status';
import type { Cause } from '@oarlock/kernel/tracing';
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
} from './client.ts';

/**
 * What goes wrong with one write. `conflict`, `unavailable`: it is refused. `lost`: it takes effect, and the answer does not arrive.
 * `killed before`, `killed after`: the controller's process ends then, before or after the write takes effect. `raced`: somebody else changes the
 * object just before. `unseen`: it takes effect, and the caches hear of it, and of all that follows, only after every key was reconciled again.
 */
export type Cut = 'conflict' | 'unavailable' | 'lost' | 'killed before' | 'killed after' | 'raced' | 'unseen';
export const cuts: readonly Cut[] = ['conflict', 'unavailable', 'lost', 'killed before', 'killed after', 'raced', 'unseen'];

/** What the clients of one run share. */
export class Writes {
  /** In order, such as `create pods`. Refused ones count too. */
  readonly made: string[] = [];
  readonly cut: { readonly at: number; readonly kind: Cut } | undefined;
  constructor(cut?: { readonly at: number; readonly kind: Cut }) {
    this.cut = cut;
  }
}

/** Holds back what watches tell. */
export class Lag {
  #held: Promise<void> | undefined;
  #release = () => {};
  get held(): boolean {
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
  async *late<T>(told: AsyncIterable<T>): AsyncIterable<T> {
    for await (const each of told) {
      await this.#held;
      yield each;
    }
  }
}

/** The end of the process that a client belongs to. */
export class Life {
  dead = false;
  readonly lag: Lag;
  readonly #end = new AbortController();
  constructor(lag = new Lag()) {
    this.lag = lag;
  }
  get signal(): AbortSignal {
    return this.#end.signal;
  }
  end(): void {
    this.dead = true;
    this.#end.abort(new Error('the process was killed'));
  }
}

const gone = () => failure('ServiceUnavailable', 'the connection was cut', { retryAfterSeconds: 1 });

/** Passes everything on, counts what is written, and cuts one write. */
export class CuttingClient implements Client {
  readonly #inner: Client;
  readonly #writes: Writes;
  readonly #life: Life;

  constructor(inner: Client, writes: Writes, life: Life) {
    this.#inner = inner;
    this.#writes = writes;
    this.#life = life;
  }

  get<T extends KubeObject>(resource: Resource<T>, name: ObjectName, options?: GetOptions): Promise<T> {
    return this.#read(() => this.#inner.get(resource, name, options));
  }
  list<T extends KubeObject>(resource: Resource<T>, options?: ListOptions): Promise<ObjectList<T>> {
    return this.#read(() => this.#inner.list(resource, options));
  }
  watch<T extends KubeObject>(resource: Resource<T>, options: WatchOptions): AsyncIterable<readonly WatchEvent<T>[]> {
    return this.#life.lag.late(this.#inner.watch(resource, options));
  }
  raw(method: 'GET' | 'POST' | 'PUT' | 'DELETE', path: string, body?: unknown, options?: CallOptions): Promise<unknown> {
    return this.#read(() => this.#inner.raw(method, path, body, options));
  }
  causedBy(cause: Cause | undefined): Client {
    return new CuttingClient(this.#inner.causedBy(cause), this.#writes, this.#life);
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
    if (this.#life.dead) throw gone();
    return call();
  }

  async #write<T>(verb: string, resource: Resource, of: Partial<ObjectName> | undefined, call: () => Promise<T>): Promise<T> {
    if (this.#life.dead) throw gone();
    const { made, cut } = this.#writes;
    const { name } = of ?? {};
    made.push(`${verb} ${groupResource(resource)}${name === undefined ? '' : ` ${name}`}`);
    if (cut?.at !== made.length) return call();
    switch (cut.kind) {
      case 'conflict':
        throw conflict(resource, name ?? '', 'the object has been modified; please apply your changes to the latest version and try again');
      case 'unavailable':
        throw gone();
      case 'lost':
        await call();
        throw gone();
      case 'killed before':
        this.#life.end();
        throw gone();
      case 'killed after':
        await call();
        this.#life.end();
        throw gone();
      case 'raced':
        await this.#race(resource, { ...of, name: name ?? '' });
        return call();
      case 'unseen':
        this.#life.lag.hold();
        return call();
    }
  }

  /** Leaves a note on the object: its version is another one then, and nothing that anybody goes by. */
  async #race(resource: Resource, name: ObjectName): Promise<void> {
    const note = { metadata: { annotations: { 'example.com/changed-by': 'somebody-else' } } };
    await this.#inner.patch(resource, name, 'merge', note).catch((error: unknown) => {
      if (!isStatus(error, 'NotFound')) throw error;
    });
  }
}
