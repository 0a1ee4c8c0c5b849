import type { ListMeta } from '@oarlock/api/object';
import { expired, failure, notFound, StatusError } from '@oarlock/api/status';
import type { Clock } from '@oarlock/kernel/clock';
import { StorageError, type StorageDriver } from '@oarlock/spi/storage';
import { converted, matching, splitFields } from './custom-resources/converted-reads.ts';
import { expiredToken, formatToken, listOptions, revisionOf, watchOptions, type ListOptions } from './list-options.ts';
import type { Encoded, PipelineResponse, WatchFrame } from './response.ts';
import { show, type ServedKind } from './served-kind.ts';
import { storageFault } from './storage-fault.ts';
import type { ApiRequest } from '@oarlock/spi/loopback';
import { Frame, View, type Item, type Viewer } from './watch-cache/item.ts';
import type { ResourceCache } from './watch-cache/resource-cache.ts';
import { selection, type Selection } from './watch-cache/selection.ts';
import type { Asker, WatchCache } from './watch-cache/watch-cache.ts';
import { Watcher } from './watch-cache/watcher.ts';

export interface ReaderOptions {
  readonly storage: StorageDriver;
  readonly cache: WatchCache;
  readonly clock: Clock;
  readonly random: () => number;
}

interface Listed {
  readonly items: readonly Item[];
  readonly revision: number;
  readonly next: string | undefined;
  readonly remaining: number | undefined;
}

const minWatchMs = 30 * 60_000;
/** KEP-3157. */
const initialEventsEnd = 'k8s.io/initial-events-end';

/** get, list and watch: all from the watch cache, but for pages of a past that it no longer has. */
export class Reader {
  readonly #storage: StorageDriver;
  readonly #cache: WatchCache;
  readonly #clock: Clock;
  readonly #random: () => number;

  constructor({ storage, cache, clock, random }: ReaderOptions) {
    this.#storage = storage;
    this.#cache = cache;
    this.#clock = clock;
    this.#random = random;
  }

  /** @throws StatusError NotFound */
  async get(kind: ServedKind, request: ApiRequest): Promise<Encoded> {
    const { namespace, name, query } = request;
    await this.#atLeast(revisionOf(query['resourceVersion'] ?? ''), request);
    const item = kind.cache.get(kind.namespaced ? `${namespace}/${name}` : name);
    if (item === undefined) throw notFound(kind.resource, name);
    return show(kind, item, request);
  }

  /** The newest stored state of an object. @throws StatusError NotFound */
  async newest(kind: ServedKind, namespace: string, name: string, signal?: AbortSignal): Promise<Item> {
    await this.#cache.fresh({ signal });
    const item = kind.cache.get(kind.namespaced ? `${namespace}/${name}` : name);
    if (item === undefined) throw notFound(kind.resource, name);
    return item;
  }

  async list(kind: ServedKind, request: ApiRequest): Promise<PipelineResponse> {
    const { items, revision, next, remaining } = await this.find(kind, request);
    const metadata: ListMeta = {
      resourceVersion: String(revision),
      ...(next !== undefined && { continue: next }),
      ...(remaining !== undefined && { remainingItemCount: remaining }),
    };
    return { kind: 'list', resource: kind.resource, items: await shown(kind, items, request.signal), metadata, warnings: [] };
  }

  /** What a list of the request finds, as it is stored. */
  async find(kind: ServedKind, { namespace, query, signal }: ApiRequest): Promise<Listed> {
    const asked = listOptions(query, kind.fields);
    const split = splitFields(kind, asked.fields);
    const options = split === undefined ? asked : { ...asked, fields: split.stored, limit: 0 };
    const listed = await this.#listed(kind, namespace, options, signal);
    return split === undefined ? listed : cut(await matching(kind, split, listed.items, signal), asked, listed.revision);
  }

  async #listed(kind: ServedKind, namespace: string, options: ListOptions, signal: AbortSignal | undefined): Promise<Listed> {
    const { token, revision, match } = options;
    const wanted = select(kind, namespace, options);
    if (token !== undefined && token.revision > 0) return this.#past(kind, wanted, options, token.revision, token.after, signal);
    if (match === 'Exact' && revision !== undefined) return this.#past(kind, wanted, options, revision, '', signal);
    await this.#atLeast(token === undefined ? revision : undefined, { signal });
    return this.#present(kind, wanted, options, token?.after ?? '', this.#cache.revision);
  }

  #present(kind: ServedKind, wanted: Selection, { limit, labels, fields }: ListOptions, after: string, revision: number): Listed {
    const { cache } = kind;
    if (limit === 0 && after === '') return { items: cache.select(wanted), revision, next: undefined, remaining: undefined };
    const prefix = prefixOf(wanted);
    const { items, more } = cache.page(prefix, after, limit === 0 ? Number.MAX_SAFE_INTEGER : limit, (item) =>
      selects(wanted, cache, item),
    );
    const last = items.at(-1)?.key ?? after;
    return {
      items,
      revision,
      next: more ? formatToken({ revision, after: last }) : undefined,
      remaining: more && labels.empty && fields.empty ? cache.count(prefix, last) : undefined,
    };
  }

  /** At exactly a revision: from the recent past that the cache has, else from storage. */
  async #past(
    kind: ServedKind,
    wanted: Selection,
    options: ListOptions,
    revision: number,
    after: string,
    signal: AbortSignal | undefined,
  ): Promise<Listed> {
    if (revision > this.#cache.revision && !(await this.#cache.reached(revision, signal))) throw this.#tooLarge(revision);
    const { cache } = kind;
    if (revision >= cache.changed) return this.#present(kind, wanted, options, after, revision);
    const prefix = prefixOf(wanted);
    const all = cache.past(prefix, revision);
    if (all === undefined) return this.#stored(kind, wanted, options, revision, after);
    const matching = (item: Item) => item.key > after && selects(wanted, cache, item);
    return cut(all.filter(matching), options, revision);
  }

  async #stored(kind: ServedKind, wanted: Selection, options: ListOptions, revision: number, after: string): Promise<Listed> {
    const { limit } = options;
    const prefix = kind.store.prefix + prefixOf(wanted);
    const found: Item[] = [];
    let from = after === '' ? '' : kind.store.prefix + after;
    try {
      for (;;) {
        const page = await this.#storage.range({ prefix, limit: 500, revision, ...(from !== '' && { after: from }) });
        for (const entry of page.entries) {
          const item = kind.store.codec.parse(entry.key.slice(kind.store.prefix.length), entry.value, entry.revision);
          if (selects(wanted, kind.cache, item)) found.push(item);
        }
        const last = page.entries.at(-1);
        if (!page.more || last === undefined) return cut(found, options, revision);
        if (limit > 0 && found.length > limit) {
          const part = cut(found, options, revision);
          const lastKey = part.items.at(-1)?.key ?? '';
          const plain = options.labels.empty && options.fields.empty;
          return { ...part, remaining: plain ? found.filter((item) => item.key > lastKey).length + page.remaining : undefined };
        }
        from = last.key;
      }
    } catch (error) {
      if (!(error instanceof StorageError) || error.code !== 'Compacted') throw storageFault(error);
      throw after === ''
        ? expired(`The resourceVersion for the provided list is too old.`)
        : new StatusError(expiredToken(after), { cause: error });
    }
  }

  async watch(kind: ServedKind, { namespace, query, signal }: ApiRequest): Promise<PipelineResponse> {
    const asked = watchOptions(query, kind.fields);
    const split = splitFields(kind, asked.fields);
    const options = split === undefined ? asked : { ...asked, fields: split.stored };
    const { revision, sendInitialEvents } = options;
    const wanted = select(kind, namespace, options);
    const fromNow = revision === undefined || revision === 0;
    // without a revision the start has to be consistent; with one a list with NotOlderThan semantics begins
    if (revision === undefined || sendInitialEvents === true) await this.#atLeast(revision, { signal });
    const initial = sendInitialEvents === true || (sendInitialEvents === undefined && fromNow);
    const { cache } = kind;
    const { floor } = cache.ring;
    const at = this.#cache.revision;
    const watcher = new Watcher({
      selection: wanted,
      viewer: viewerOf(kind),
      indexOf: (item) => (item === undefined ? undefined : cache.resource.index?.value(item.object)),
      after: initial || fromNow ? at : revision,
      clock: this.#clock,
      random: this.#random,
      signal,
      initial: initial
        ? this.#state(kind, cache.select(wanted), sendInitialEvents === true && options.bookmarks ? at : undefined)
        : [][Symbol.iterator](),
      bookmark: options.bookmarks ? () => bookmark(kind, this.#cache.revision) : undefined,
      timeoutMs: options.timeoutSeconds === undefined ? minWatchMs * (1 + this.#random()) : options.timeoutSeconds * 1000,
      onEnd: () => cache.watchers.remove(watcher),
    });
    // a watch that has been let in tells of its errors in an event
    if (!initial && !fromNow && revision < floor) watcher.fail(expired(`too old resource version: ${revision} (${floor})`));
    if (!watcher.ended) {
      if (!initial && !fromNow) for (const event of cache.ring.after(revision)) watcher.push(event);
      cache.watchers.add(watcher);
    }
    if (kind.custom?.awaits !== true) return { kind: 'watch', resource: kind.resource, frames: watcher };
    const before = split === undefined || initial ? [] : (cache.past(prefixOf(wanted), fromNow ? at : revision) ?? []);
    return { kind: 'watch', resource: kind.resource, frames: converted(kind, watcher, split, before, signal) };
  }

  /** The present objects as ADDED; where `end` is given, with the bookmark that says that those were all. */
  *#state(kind: ServedKind, items: readonly Item[], end: number | undefined): Generator<WatchFrame> {
    const viewer = viewerOf(kind);
    for (const item of items) {
      const cause = this.#cache.causes.get(item.revision);
      yield new Frame('ADDED', viewer?.(item) ?? item, cause);
    }
    if (end !== undefined) yield bookmark(kind, end, { [initialEventsEnd]: 'true' });
  }

  /** Waits until the cache has a revision; the newest when there is none given, and not at all for 0. */
  async #atLeast(revision: number | undefined, asker: Asker): Promise<void> {
    if (revision === undefined) await this.#cache.fresh(asker);
    else if (revision > this.#cache.revision && !(await this.#cache.reached(revision, asker.signal))) throw this.#tooLarge(revision);
  }

  #tooLarge(revision: number): StatusError {
    return failure('Timeout', `Timeout: Too large resource version: ${revision}, current: ${this.#cache.revision}`, {
      causes: [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }],
      retryAfterSeconds: 1,
    });
  }
}

function select(kind: ServedKind, namespace: string, { labels, fields }: Pick<ListOptions, 'labels' | 'fields'>): Selection {
  return selection({ namespaced: kind.namespaced, namespace, labels, fields, readers: kind.fields, indexField: kind.store.index?.field });
}

const prefixOf = ({ namespace }: Selection) => (namespace === '' ? '' : `${namespace}/`);

function selects({ key, indexed, matches }: Selection, cache: ResourceCache, item: Item): boolean {
  return (
    (key === undefined || item.key === key) &&
    (indexed === undefined || cache.resource.index?.value(item.object) === indexed) &&
    (matches === undefined || matches(item.object))
  );
}

/** The first page of what is left at a revision. */
function cut(items: readonly Item[], { limit, labels, fields }: ListOptions, revision: number): Listed {
  if (limit === 0 || items.length <= limit) return { items, revision, next: undefined, remaining: undefined };
  const page = items.slice(0, limit);
  return {
    items: page,
    revision,
    next: formatToken({ revision, after: page.at(-1)?.key ?? '' }),
    remaining: labels.empty && fields.empty ? items.length - limit : undefined,
  };
}

export async function shown(kind: ServedKind, items: readonly Item[], signal?: AbortSignal): Promise<readonly Encoded[]> {
  const { viewer, custom } = kind;
  if (viewer === undefined) return items;
  const ready = custom?.prepare(items, signal);
  if (ready !== undefined) await ready;
  return items.map(viewer);
}

/** Where somebody else converts, a watch shows stored items first. */
const viewerOf = ({ viewer, custom }: ServedKind): Viewer | undefined => (custom?.awaits === true ? undefined : viewer);

function bookmark(
  { resource, apiVersion }: Pick<ServedKind, 'resource' | 'apiVersion'>,
  revision: number,
  annotations?: Readonly<Record<string, string>>,
): Frame {
  return new Frame(
    'BOOKMARK',
    new View(
      { kind: resource.kind, apiVersion, metadata: { resourceVersion: String(revision), ...(annotations && { annotations }) } },
      revision,
    ),
    undefined,
  );
}
