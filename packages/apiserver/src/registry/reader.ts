import type { ListMeta } from '@oarlock/api/object';
import { expired, failure, notFound, StatusError } from '@oarlock/api/status';
import type { Clock } from '@oarlock/primitives/clock';
import { continueWith } from '@oarlock/primitives/concurrency/continue-with';
import { StorageError, type StorageDriver } from '@oarlock/spi/storage';
import { convertWatch, filterConverted, splitFieldSelector } from './converted-reads.ts';
import {
  inconsistentContinueToken,
  formatContinueToken,
  parseListOptions,
  parseResourceVersion,
  parseWatchOptions,
  type ListOptions,
} from './list-options.ts';
import type { EncodedObject, PipelineResponse } from '../endpoints/request/response.ts';
import { toServed, type ServedKind } from './served-kind.ts';
import { toStatusError } from '../storage/storage-error.ts';
import type { ApiRequest } from '@oarlock/spi/loopback';
import { DerivedObject, type Item } from '../watch-cache/item.ts';
import { SharedWatchFrame, type ItemConverter } from '../watch-cache/watch-cache-event.ts';
import type { PastPage, ResourceCache } from '../watch-cache/resource-cache.ts';
import { selection, type Selection } from '../watch-cache/selection.ts';
import { decodeStored } from '../watch-cache/unreadable-object.ts';
import { eventOverheadBytes } from '../watch-cache/watch-cache-limits.ts';
import type { Caller } from '../watch-cache/watch-cache-options.ts';
import type { WatchCache } from '../watch-cache/watch-cache.ts';
import { Watcher } from '../watch-cache/watcher.ts';

export interface ReaderOptions {
  readonly storage: StorageDriver;
  readonly watchCache: WatchCache;
  readonly clock: Clock;
  readonly random: () => number;
}

interface ListResult {
  readonly items: readonly Item[];
  readonly revision: number;
  readonly next: string | undefined;
  readonly remaining: number | undefined;
}

const minWatchMs = 30 * 60_000;
/** The annotation of the bookmark that follows the initial events of a watch (KEP-3157). */
const initialEventsEnd = 'k8s.io/initial-events-end';

export interface LatestRead {
  /** The namespace of the object; '' for a cluster-scoped kind. */
  readonly namespace: string;
  readonly name: string;
  readonly signal?: AbortSignal | undefined;
}

/**
 * The read path of the registry: get, list and watch, served from the watch cache. Only a list at a revision that is older than the cached
 * events is read from storage. A list at a revision that storage has discarded is rejected even if the cache still has the revision.
 */
export class Reader {
  readonly #storage: StorageDriver;
  readonly #cache: WatchCache;
  readonly #clock: Clock;
  readonly #random: () => number;

  constructor({ storage, watchCache: cache, clock, random }: ReaderOptions) {
    this.#storage = storage;
    this.#cache = cache;
    this.#clock = clock;
    this.#random = random;
  }

  /**
   * Returns an object in the served version, at least as new as the requested resourceVersion. Returns a promise only if it has to wait.
   * @throws StatusError NotFound if the object does not exist
   */
  get(kind: ServedKind, request: ApiRequest): EncodedObject | Promise<EncodedObject> {
    const revision = parseResourceVersion(request.query['resourceVersion'] ?? '');
    const fresh =
      revision === undefined
        ? this.#cache.waitUntilFresh(request)
        : revision > this.#cache.revision
          ? this.#waitForRevision(revision, request)
          : undefined;
    return continueWith<unknown, EncodedObject>(fresh, () => this.#getCached(kind, request));
  }

  #getCached(kind: ServedKind, request: ApiRequest): EncodedObject | Promise<EncodedObject> {
    const { namespace, name } = request;
    const item = kind.cache.get(kind.namespaced ? `${namespace}/${name}` : name);
    if (item === undefined) throw notFound(kind.resource, name);
    return toServed(kind, item, request);
  }

  /** Returns the newest stored state of an object (consistent read). @throws StatusError NotFound if the object does not exist */
  async getLatest(kind: ServedKind, { namespace, name, signal }: LatestRead): Promise<Item> {
    await this.#cache.waitUntilFresh({ signal });
    const item = kind.cache.get(kind.namespaced ? `${namespace}/${name}` : name);
    if (item === undefined) throw notFound(kind.resource, name);
    return item;
  }

  async list(kind: ServedKind, request: ApiRequest): Promise<PipelineResponse> {
    const { items, revision, next, remaining } = await this.select(kind, request);
    const metadata: ListMeta = {
      resourceVersion: String(revision),
      ...(next !== undefined && { continue: next }),
      ...(remaining !== undefined && { remainingItemCount: remaining }),
    };
    return { kind: 'list', resource: kind.resource, items: await toServedItems(kind, items, request.signal), metadata, warnings: [] };
  }

  /** Returns the stored items of the page that a list request selects. */
  async select(kind: ServedKind, { namespace, query, signal }: ApiRequest): Promise<ListResult> {
    const parsed = parseListOptions(query, kind.fields);
    const split = splitFieldSelector(kind, parsed.fields);
    const options = split === undefined ? parsed : { ...parsed, fields: split.stored, limit: 0 };
    const listed = await this.#listPage(kind, namespace, options, signal);
    return split === undefined
      ? listed
      : truncatePage(await filterConverted({ kind, signal }, split, listed.items), parsed, listed.revision);
  }

  async #listPage(kind: ServedKind, namespace: string, options: ListOptions, signal: AbortSignal | undefined): Promise<ListResult> {
    const { token, revision, match } = options;
    const wanted = selectionOf(kind, namespace, options);
    if (token !== undefined && token.revision > 0) return this.#listAtRevision(kind, wanted, options, token.revision, token.after, signal);
    if (match === 'Exact' && revision !== undefined) return this.#listAtRevision(kind, wanted, options, revision, '', signal);
    await this.#waitForRevision(token === undefined ? revision : undefined, { signal });
    kind.cache.unreadable.requireNone(wanted);
    return this.#listCurrent(kind, wanted, options, token?.after ?? '', this.#cache.revision);
  }

  #listCurrent(kind: ServedKind, wanted: Selection, { limit, labels, fields }: ListOptions, after: string, revision: number): ListResult {
    const { cache } = kind;
    if (limit === 0 && after === '') return { items: cache.select(wanted), revision, next: undefined, remaining: undefined };
    const prefix = keyPrefixOf(wanted);
    const { items, more } = cache.page(prefix, after, limit === 0 ? Number.MAX_SAFE_INTEGER : limit, (item) =>
      isSelected(wanted, cache, item),
    );
    const last = items.at(-1)?.key ?? after;
    return {
      items,
      revision,
      next: more ? formatContinueToken({ revision, after: last }) : undefined,
      remaining: more && labels.empty && fields.empty ? cache.count(prefix, last) : undefined,
    };
  }

  /** Returns the objects at an exact revision: reconstructed from the cached events, otherwise read from storage. */
  async #listAtRevision(
    kind: ServedKind,
    wanted: Selection,
    options: ListOptions,
    revision: number,
    after: string,
    signal: AbortSignal | undefined,
  ): Promise<ListResult> {
    if (revision > this.#cache.revision && !(await this.#cache.waitForRevision(revision, signal)))
      throw this.#futureRevisionError(revision);
    await this.#checkNotCompacted(kind, revision, after);
    const { cache } = kind;
    cache.unreadable.requireNone(wanted);
    if (revision >= cache.lastChangeRevision) return this.#listCurrent(kind, wanted, options, after, revision);
    const prefix = keyPrefixOf(wanted);
    const matches = (item: Item) => isSelected(wanted, cache, item);
    const page = cache.pageAt(revision, { prefix, after, limit: options.limit || Number.MAX_SAFE_INTEGER, matches });
    return page === undefined ? this.#listFromStorage(kind, wanted, options, revision, after) : resultOf(page, options, revision);
  }

  /**
   * Checks that storage still has a revision. The cache may have it longer, but a list must not depend on the server that serves it, and
   * another server or an administrator may compact storage.
   * @throws StatusError Expired if storage has discarded the revision
   */
  async #checkNotCompacted(kind: ServedKind, revision: number, after: string): Promise<void> {
    if (revision >= this.#cache.revision) return;
    try {
      await this.#storage.get(kind.storedKind.storagePrefix + after, { revision });
    } catch (error) {
      throw readError(error, after);
    }
  }

  async #listFromStorage(kind: ServedKind, wanted: Selection, options: ListOptions, revision: number, after: string): Promise<ListResult> {
    const { limit } = options;
    const prefix = kind.storedKind.storagePrefix + keyPrefixOf(wanted);
    const found: Item[] = [];
    let from = after === '' ? '' : kind.storedKind.storagePrefix + after;
    try {
      for (;;) {
        const page = await this.#storage.range({ prefix, limit: 500, revision, ...(from !== '' && { after: from }) });
        for (const entry of page.entries) {
          const key = entry.key.slice(kind.storedKind.storagePrefix.length);
          const item = decodeStored(kind.storedKind.codec, { ...entry, storageKey: entry.key, key });
          if (isSelected(wanted, kind.cache, item)) found.push(item);
        }
        const last = page.entries.at(-1);
        if (!page.more || last === undefined) return truncatePage(found, options, revision);
        if (limit > 0 && found.length > limit) {
          const part = truncatePage(found, options, revision);
          const lastKey = part.items.at(-1)?.key ?? '';
          const plain = options.labels.empty && options.fields.empty;
          return { ...part, remaining: plain ? found.filter((item) => item.key > lastKey).length + page.remaining : undefined };
        }
        from = last.key;
      }
    } catch (error) {
      throw readError(error, after);
    }
  }

  async watch(kind: ServedKind, { namespace, query, signal }: ApiRequest): Promise<PipelineResponse> {
    const asked = parseWatchOptions(query, kind.fields);
    const split = splitFieldSelector(kind, asked.fields);
    const options = split === undefined ? asked : { ...asked, fields: split.stored };
    const { revision, sendInitialEvents } = options;
    const wanted = selectionOf(kind, namespace, options);
    const fromNow = revision === undefined || revision === 0;
    // without a revision the initial state must be consistent; with one the watch starts with NotOlderThan semantics
    if (revision === undefined || sendInitialEvents === true) await this.#waitForRevision(revision, { signal });
    else if (revision > this.#cache.revision) await this.#cache.waitUntilFresh({ signal });
    const initial = sendInitialEvents === true || (sendInitialEvents === undefined && fromNow);
    const { cache } = kind;
    if (initial) cache.unreadable.requireNone(wanted);
    const { oldestRevision: floor } = cache.ring;
    const at = this.#cache.revision;
    const watcher = new Watcher({
      selection: wanted,
      viewer: itemConverterOf(kind),
      indexOf: (item) => (item === undefined ? undefined : cache.resource.index?.value(item.object)),
      after: initial || fromNow ? at : revision,
      clock: this.#clock,
      random: this.#random,
      signal,
      memory: this.#cache.watcherMemory,
      maxBytes: this.#cache.limits.watcherBytes,
      initial: initial
        ? this.#initialEvents(kind, cache.select(wanted), sendInitialEvents === true && options.bookmarks ? at : undefined)
        : [][Symbol.iterator](),
      bookmark: options.bookmarks ? () => bookmarkFrame(kind, this.#cache.revision) : undefined,
      timeoutMs: options.timeoutSeconds === undefined ? minWatchMs * (1 + this.#random()) : options.timeoutSeconds * 1000,
      onEnd: () => cache.watchers.remove(watcher),
    });
    // an accepted watch reports its errors as an event
    if (!initial && !fromNow && revision < floor) watcher.fail(expired(`too old resource version: ${revision} (${floor})`));
    // a revision of another history, from before the storage was restored: changes up to it would be missed without an error
    if (!initial && !fromNow && revision > this.#cache.revision)
      watcher.fail(expired(`too large resource version: ${revision}, current: ${this.#cache.revision}`));
    if (!watcher.ended) {
      if (!initial && !fromNow) watcher.replay(cache.ring.after(revision));
      cache.watchers.add(watcher);
    }
    if (kind.customResource?.convertsByWebhook !== true) return { kind: 'watch', resource: kind.resource, frames: watcher };
    const before = split === undefined || initial ? [] : (cache.eventsReplayedTo(keyPrefixOf(wanted), fromNow ? at : revision) ?? []);
    return { kind: 'watch', resource: kind.resource, frames: convertWatch(watcher, { kind, split, before, signal }) };
  }

  /**
   * Yields the existing objects as ADDED events, which begin a watch. If `end` is a revision, yields the bookmark that ends the initial
   * events (KEP-3157) as well.
   */
  *#initialEvents(kind: ServedKind, items: readonly Item[], end: number | undefined): Generator<SharedWatchFrame> {
    const viewer = itemConverterOf(kind);
    for (const item of items) {
      const spanContext = this.#cache.spanContexts.get(item.revision);
      yield new SharedWatchFrame('ADDED', viewer?.(item) ?? item, spanContext, item.value.length + eventOverheadBytes);
    }
    if (end !== undefined) yield bookmarkFrame(kind, end, { [initialEventsEnd]: 'true' });
  }

  /**
   * Waits until the cache contains all changes up to a revision: the newest revision of storage if `revision` is undefined. Does not wait
   * for revision 0.
   * @throws StatusError Timeout if the cache does not reach the revision in time
   */
  async #waitForRevision(revision: number | undefined, caller: Caller): Promise<void> {
    if (revision === undefined) await this.#cache.waitUntilFresh(caller);
    else if (revision > this.#cache.revision && !(await this.#cache.waitForRevision(revision, caller.signal)))
      throw this.#futureRevisionError(revision);
  }

  #futureRevisionError(revision: number): StatusError {
    return failure('Timeout', `Timeout: Too large resource version: ${revision}, current: ${this.#cache.revision}`, {
      causes: [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }],
      retryAfterSeconds: 1,
    });
  }
}

/** Returns the StatusError for a failed read of the page that begins after a key. */
function readError(error: unknown, after: string): unknown {
  if (!(error instanceof StorageError) || error.code !== 'Compacted') return toStatusError(error);
  return after === ''
    ? expired('The resourceVersion for the provided list is too old.')
    : new StatusError(inconsistentContinueToken(after), { cause: error });
}

function selectionOf(kind: ServedKind, namespace: string, { labels, fields }: Pick<ListOptions, 'labels' | 'fields'>): Selection {
  return selection({
    namespaced: kind.namespaced,
    namespace,
    labels,
    fields,
    readers: kind.fields,
    indexField: kind.storedKind.index?.field,
  });
}

const keyPrefixOf = ({ namespace }: Selection) => (namespace === '' ? '' : `${namespace}/`);

function isSelected({ key, indexed, matches }: Selection, cache: ResourceCache, item: Item): boolean {
  return (
    (key === undefined || item.key === key) &&
    (indexed === undefined || cache.resource.index?.value(item.object) === indexed) &&
    (matches === undefined || matches(item.object))
  );
}

/** Returns the first `limit` items, and a continue token if there are more. */
function truncatePage(items: readonly Item[], { limit, labels, fields }: ListOptions, revision: number): ListResult {
  if (limit === 0 || items.length <= limit) return { items, revision, next: undefined, remaining: undefined };
  const page = items.slice(0, limit);
  return {
    items: page,
    revision,
    next: formatContinueToken({ revision, after: page.at(-1)?.key ?? '' }),
    remaining: labels.empty && fields.empty ? items.length - limit : undefined,
  };
}

/** Returns the result of a page that was read with the limit of the options. */
function resultOf({ items, more, remaining }: PastPage, { labels, fields }: ListOptions, revision: number): ListResult {
  const next = more ? formatContinueToken({ revision, after: items.at(-1)?.key ?? '' }) : undefined;
  return { items, revision, next, remaining: more && labels.empty && fields.empty ? remaining : undefined };
}

export async function toServedItems(kind: ServedKind, items: readonly Item[], signal?: AbortSignal): Promise<readonly EncodedObject[]> {
  const { toServedItem: viewer, customResource: custom } = kind;
  if (viewer === undefined) return items;
  const ready = custom?.prepareConversion(items, signal);
  if (ready !== undefined) await ready;
  return items.map(viewer);
}

/**
 * Returns the converter that a watcher applies to stored items. Undefined for a kind that a webhook converts: `convertWatch` converts the
 * items later.
 */
const itemConverterOf = ({ toServedItem: viewer, customResource: custom }: ServedKind): ItemConverter | undefined =>
  custom?.convertsByWebhook === true ? undefined : viewer;

function bookmarkFrame(
  { resource, apiVersion }: Pick<ServedKind, 'resource' | 'apiVersion'>,
  revision: number,
  annotations?: Readonly<Record<string, string>>,
): SharedWatchFrame {
  return new SharedWatchFrame(
    'BOOKMARK',
    new DerivedObject(
      { kind: resource.kind, apiVersion, metadata: { resourceVersion: String(revision), ...(annotations && { annotations }) } },
      revision,
    ),
    undefined,
  );
}
