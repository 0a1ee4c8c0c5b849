import { errorText } from '@oarlock/primitives/error-text';
import { objectKey, deepFreeze, type KubeObject, type ObjectList } from '@oarlock/api/object';
import { parseFieldSelector } from '@oarlock/api/selectors/field-selector';
import { kinds } from '@oarlock/api/kinds';
import { parseLabelSelector } from '@oarlock/api/selectors/label-selector';
import { apiVersionOf, groupResource, type Resource } from '@oarlock/api/resource';
import { badRequest, failure } from '@oarlock/api/status';
import { LoopbackTransport, loopbackClient } from '@oarlock/client/loopback-client';
import { SharedInformerFactory } from '@oarlock/client/cache/shared-informer-factory';
import type { Identity } from '@oarlock/spi/authn';
import type { Client, Informers, ObjectName } from '@oarlock/spi/client';
import type { ApiHandler, ApiRequest, ApiResponse } from '@oarlock/spi/loopback';
import type { FakeClock } from './fake-clock.ts';
import { MemoryStore } from './internal/memory-store.ts';
import { MemoryWriter } from './internal/memory-writer.ts';

/** Selects requests: every given field must equal the field of the request. */
export type RequestMatcher =
  | ((request: ApiRequest) => boolean)
  | {
      readonly verb?: ApiRequest['verb'];
      readonly resource?: Resource;
      readonly subresource?: string;
      readonly namespace?: string;
      readonly name?: string;
    };

export interface MemoryApiOptions {
  readonly clock: FakeClock;
  /** A replacement of `Math.random`. By default a fixed sequence, so that generated names are the same in each run. */
  readonly random?: () => number;
  /**
   * Whether writes apply the defaults of the resource, as the server does. Objects then have to conform to their schemas. Off by default.
   */
  readonly defaults?: boolean;
  /** Group versions that discovery lists in addition to the default ones, such as `storagemigration.k8s.io/v1beta1`. */
  readonly served?: readonly string[];
}

/**
 * An in-memory API server for unit tests. Implements what reconcilers depend on: conflicts, generation, the status subresource, finalizers, graceful
 * deletion, and watches that resume and expire. Omits authorization, admission, validation and garbage collection; defaults are optional. Uids,
 * generated names and revisions are the same in every run.
 */
export interface MemoryApi {
  /** The request handler, for example for a separate loopback. */
  readonly handler: ApiHandler;
  /** Returns a client; `user` is a name or an identity, by default `system:admin` of `system:masters`. */
  client(user?: string | Identity): Client;
  /** Informers of the user `system:admin`, already running. */
  readonly informers: Informers;
  /** Resolves when no work is in progress at the current time. */
  settle(): Promise<void>;
  /** Returns the stored objects, frozen. */
  objects<T extends KubeObject>(resource: Resource<T>, namespace?: string): readonly T[];
  object<T extends KubeObject>(resource: Resource<T>, name: ObjectName): T | undefined;
  /** Stores objects directly, including status, without a request. Adds uid, creationTimestamp and generation if they are missing. */
  seed<T extends KubeObject>(resource: Resource<T>, ...objects: readonly T[]): readonly T[];
  /** Removes an object immediately, regardless of finalizers. */
  remove(resource: Resource, name: ObjectName): void;
  /** Makes the next `times` matching requests (default 1) fail with `error` without a change. */
  failNext(matcher: RequestMatcher, error: Error | ((request: ApiRequest) => Error), times?: number): void;
  /** The requests since the test last set `requests.length = 0`; at most the first 100,000. */
  readonly requests: ApiRequest[];
  /** Responses to raw requests, by path without query. Contains `/version` initially. */
  readonly paths: Map<string, unknown>;
  /** Ends open watches, of one resource or all, as a lost connection does. */
  dropWatches(resource?: Resource): void;
  /** Compacts the history, so that a resuming watch fails with `Expired`. */
  compact(): void;
  /** Sends a BOOKMARK to every watch of the resource. */
  bookmark(resource: Resource): void;
  /** Stops the informers. */
  stop(): Promise<void>;
}

export const admin: Identity = { name: 'system:admin', groups: ['system:masters', 'system:authenticated'] };
const keptRequests = 100_000;

/** Returns the resources that `/api/v1` or `/apis/GROUP/VERSION` list by default. */
const discovery = (path: string, also: readonly string[]) =>
  kinds
    .filter(
      ({ group, version, servedByDefault }) =>
        (servedByDefault || also.includes(`${group}/${version}`)) &&
        path === (group === '' ? `/api/${version}` : `/apis/${group}/${version}`),
    )
    .map(({ resource, kind, namespaced }) => ({ name: resource, kind, namespaced }));

type FaultError = Error | ((request: ApiRequest) => Error);

/** The errors with which requests will fail, in order. */
class FaultQueue {
  readonly #faults: { readonly matches: (request: ApiRequest) => boolean; readonly error: FaultError; left: number }[] = [];

  add(matcher: RequestMatcher, error: FaultError, times: number): void {
    this.#faults.push({ matches: typeof matcher === 'function' ? matcher : matching(matcher), error, left: times });
  }

  /** Throws the error of the first fault that matches the request, and counts it. */
  throwNext(request: ApiRequest): void {
    const index = this.#faults.findIndex(({ matches }) => matches(request));
    const fault = this.#faults[index];
    if (fault === undefined) return;
    fault.left -= 1;
    if (fault.left <= 0) this.#faults.splice(index, 1);
    throw typeof fault.error === 'function' ? fault.error(request) : fault.error;
  }
}

export function memoryApi({ clock, random = sequence(1), defaults = false, served = [] }: MemoryApiOptions): MemoryApi {
  const touch = () => clock.touch();
  const store = new MemoryStore(touch);
  const writer = new MemoryWriter(store, { clock, random, defaults });
  const requests: ApiRequest[] = [];
  const paths = new Map<string, unknown>([['/version', { major: '1', minor: '36', gitVersion: 'v1.36.0' }]]);
  const faults = new FaultQueue();

  const handler: ApiHandler = {
    async handle(request) {
      touch();
      if (requests.length < keptRequests) requests.push(request);
      await Promise.resolve();
      request.signal?.throwIfAborted();
      faults.throwNext(request);
      return answer(store, { writer, clock, request });
    },
    async handlePath(_method, path) {
      touch();
      const [bare = ''] = path.split('?');
      if (paths.has(bare)) return paths.get(bare);
      const resources = discovery(bare, served);
      if (resources.length > 0) return { kind: 'APIResourceList', resources };
      throw failure('NotFound', 'the server could not find the requested resource', {});
    },
  };
  const switchboard = new LoopbackTransport();
  switchboard.connect(handler);
  const client = (user: string | Identity = admin) =>
    loopbackClient(switchboard, typeof user === 'string' ? { name: user, groups: ['system:authenticated'] } : user, {
      userAgent: 'memory-api',
    });
  const informers = new SharedInformerFactory({ client: client(), clock, random });
  informers.start();

  return {
    handler,
    client,
    informers,
    requests,
    paths,
    settle: () => clock.settle(),
    objects: <T extends KubeObject>(resource: Resource<T>, namespace?: string) =>
      store.all(resource).filter((object) => namespace === undefined || object.metadata?.namespace === namespace) as T[],
    object: <T extends KubeObject>(resource: Resource<T>, name: ObjectName) =>
      store.get(resource, objectKey({ metadata: name })) as T | undefined,
    seed: <T extends KubeObject>(resource: Resource<T>, ...objects: readonly T[]) =>
      objects.map((object) => writer.seed(resource, object) as T),
    remove: (resource, name) => {
      writer.purge(resource, objectKey({ metadata: name }), undefined);
    },
    failNext: (matcher, error, times = 1) => faults.add(matcher, error, times),
    dropWatches: (resource) => store.endStreams(resource),
    compact: () => store.compact(),
    bookmark: (resource) => store.bookmark(resource),
    stop: () => informers.stop(),
  };
}

function answer(
  store: MemoryStore,
  { writer, clock, request }: { readonly writer: MemoryWriter; readonly clock: FakeClock; readonly request: ApiRequest },
): ApiResponse {
  const { verb, resource, namespace, query } = request;
  switch (verb) {
    case 'list': {
      const items = store
        .all(resource)
        .filter(selection(request))
        .sort((a, b) => (objectKey(a) < objectKey(b) ? -1 : 1));
      const from = query['continue'] === undefined ? 0 : items.findIndex((item) => objectKey(item) > (query['continue'] ?? ''));
      const rest = from < 0 ? [] : items.slice(from);
      const page = query['limit'] === undefined || query['limit'] === '0' ? rest : rest.slice(0, Number(query['limit']));
      const last = page.at(-1);
      const list: ObjectList = deepFreeze({
        apiVersion: apiVersionOf(resource),
        kind: `${resource.kind}List`,
        items: page,
        metadata: {
          resourceVersion: String(store.revision),
          ...(last && page.length < rest.length && { continue: objectKey(last), remainingItemCount: rest.length - page.length }),
        },
      });
      return { kind: 'list', list, warnings: [] };
    }
    case 'watch': {
      const { resourceVersion = '', sendInitialEvents, timeoutSeconds } = query;
      const initial =
        sendInitialEvents === 'true' || ((resourceVersion === '' || resourceVersion === '0') && sendInitialEvents !== 'false');
      const after = initial ? undefined : resourceVersion === '' ? store.revision : Number(resourceVersion);
      const stream = store.open(resource, {
        filter: selection(request),
        after,
        initialEventsEnd: sendInitialEvents === 'true',
        signal: request.signal,
      });
      // a watch that ends on a server timer would keep FakeClock from running out of timers
      if (timeoutSeconds !== undefined && Number(timeoutSeconds) < 60) clock.after(Number(timeoutSeconds) * 1000, () => stream.end());
      return { kind: 'watch', events: stream };
    }
    case 'deletecollection': {
      for (const object of store.all(resource).filter(selection(request)))
        writer.delete({ ...request, name: object.metadata?.name ?? '', namespace: object.metadata?.namespace ?? namespace });
      return { kind: 'list', list: { items: [] }, warnings: [] };
    }
    case 'get':
      return { kind: 'object', code: 200, object: writer.read(request), warnings: [] };
    case 'create':
      return { kind: 'object', code: 201, object: writer.create(request), warnings: [] };
    case 'update':
      return { kind: 'object', code: 200, object: writer.update(request), warnings: [] };
    case 'patch':
      return { kind: 'object', code: 200, object: writer.patch(request), warnings: [] };
    case 'delete':
      return { kind: 'object', code: 200, object: writer.delete(request), warnings: [] };
  }
}

/** Returns a field selector on any field, because the memory API has no list of supported field labels. */
function selection({ namespace, query }: ApiRequest): (object: KubeObject) => boolean {
  try {
    const labels = parseLabelSelector(query['labelSelector'] ?? '');
    const fields = parseFieldSelector(query['fieldSelector'] ?? '');
    return (object) =>
      (namespace === '' || object.metadata?.namespace === namespace) &&
      labels.matches(object.metadata?.labels) &&
      fields.requirements.every(({ field, operator, value }) => (fieldValue(object, field) === value) === (operator === '='));
  } catch (cause) {
    throw badRequest(errorText(cause));
  }
}

function fieldValue(object: KubeObject, path: string): string {
  let value: unknown = object;
  for (const part of path.split('.'))
    value = typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[part] : undefined;
  return value === undefined || value === null ? '' : String(value);
}

function matching(matcher: Exclude<RequestMatcher, (request: ApiRequest) => boolean>): (request: ApiRequest) => boolean {
  return ({ verb, resource, subresource, namespace, name }) =>
    (matcher.verb === undefined || matcher.verb === verb) &&
    (matcher.resource === undefined || groupResource(matcher.resource) === groupResource(resource)) &&
    (matcher.subresource === undefined || matcher.subresource === subresource) &&
    (matcher.namespace === undefined || matcher.namespace === namespace) &&
    (matcher.name === undefined || matcher.name === name);
}

/** Returns a generator of pseudo-random numbers in [0, 1), reproducible by seed (mulberry32). */
export function sequence(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
