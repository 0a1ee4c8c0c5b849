import { jsonEqual } from '@oarlock/api/json';
import type { KubeObject } from '@oarlock/api/object';
import { conflict, failure, objectModified } from '@oarlock/api/status';
import { SpanStatusCode } from '@opentelemetry/api';
import type { Commit, Expectation, StorageDriver, Write } from '@oarlock/spi/storage';
import type { Call } from './call.ts';
import type { StoredKind } from './served-kind.ts';
import { storageFault } from './storage-fault.ts';
import type { Item } from './watch-cache/item.ts';
import { OwnWrite } from './watch-cache/own-writes.ts';
import type { WatchCache } from './watch-cache/watch-cache.ts';

/** What else is to be written in the same commit, such as the address of a Service. */
export interface Reservation {
  readonly writes: readonly Write[];
  readonly expect: readonly Expectation[];
  /** Somebody else was faster; the decision is made again after this. */
  taken(key: string, present: boolean): void;
}

/** What is to become of an object. */
export type Decision =
  | {
      readonly action: 'put';
      readonly object: KubeObject;
      readonly ttlSeconds?: number | undefined;
      readonly reservation?: Reservation | undefined;
    }
  | { readonly action: 'delete'; readonly reservation?: Reservation | undefined }
  /** It is as it should be. */
  | { readonly action: 'keep' };
export type Decide = (current: Item | undefined) => Decision | Promise<Decision>;

export interface Outcome {
  /** The new state; the last one, at the revision of the deletion, when it was deleted. */
  readonly item: Item;
  readonly deleted: boolean;
}

const maxAttempts = 64;

/** Writes objects with optimistic concurrency. Decisions are made on the cached state, and made again on the newest when they refuse. */
export class ObjectStore {
  readonly #storage: StorageDriver;
  readonly #cache: WatchCache;
  readonly #stale: (value: Uint8Array) => boolean;

  /** `stale`: whether storage holds a value in a form that is to be replaced, though the value stays as it is. */
  constructor(storage: StorageDriver, cache: WatchCache, stale: (value: Uint8Array) => boolean = () => false) {
    this.#storage = storage;
    this.#cache = cache;
    this.#stale = stale;
  }

  /** Writes an object that is not there yet; undefined when there is one of that name. */
  async create(
    kind: StoredKind,
    key: string,
    object: KubeObject,
    call: Call,
    more: { readonly ttlSeconds?: number | undefined; readonly reservation?: Reservation | undefined } = {},
  ): Promise<Item | undefined | 'taken'> {
    const storageKey = kind.prefix + key;
    const write = new OwnWrite(kind.codec, key, object, kind.codec.encode(object), call.cause);
    const commit = await this.#commit(kind, storageKey, write, 0, more.ttlSeconds, more.reservation, call);
    if (commit.ok) return write.item(commit.revision);
    if (commit.key === storageKey) return undefined;
    more.reservation?.taken(commit.key, commit.current !== undefined);
    return 'taken';
  }

  /**
   * Decides and writes until nobody came in between. What `decide` throws is final only if it saw the newest state.
   * @throws StatusError what `decide` throws; Conflict when others write faster all the time
   */
  async change(kind: StoredKind, key: string, call: Call, decide: Decide): Promise<Outcome | undefined> {
    const storageKey = kind.prefix + key;
    let current = kind.cache.get(key);
    let newest = false;
    for (let attempt = 0; attempt < maxAttempts; attempt++) {
      call.request.signal?.throwIfAborted();
      let decision: Decision;
      try {
        const decided = decide(current);
        decision = decided instanceof Promise ? await decided : decided;
        if (decision.action === 'keep' && !newest) {
          const read = await this.read(kind, key);
          newest = true;
          if (read?.revision !== current?.revision) {
            current = read;
            continue;
          }
        }
      } catch (error) {
        if (newest) throw error;
        const read = await this.read(kind, key);
        newest = true;
        if (read?.revision === current?.revision) throw error;
        current = read;
        continue;
      }
      if (decision.action === 'keep' || (decision.action === 'delete' && current === undefined))
        return current && { item: current, deleted: false };
      const value = decision.action === 'put' ? kind.codec.encode(decision.object) : null;
      if (
        value !== null &&
        decision.action === 'put' &&
        current !== undefined &&
        unchanged(decision.object, value, current) &&
        !this.#stale(current.value)
      ) {
        // nothing changes: no write, but the answer has to be about the newest state
        if (newest) return { item: current, deleted: false };
        const read = await this.read(kind, key);
        newest = true;
        if (read?.revision === current.revision) return { item: current, deleted: false };
        current = read;
        continue;
      }
      const write = new OwnWrite(kind.codec, key, decision.action === 'put' ? decision.object : undefined, value, call.cause);
      const ttl = decision.action === 'put' ? decision.ttlSeconds : undefined;
      const commit = await this.#commit(kind, storageKey, write, current?.revision ?? 0, ttl, decision.reservation, call);
      if (commit.ok)
        return decision.action === 'put'
          ? { item: write.item(commit.revision), deleted: false }
          : { item: (current as Item).at(commit.revision), deleted: true };
      if (commit.key === storageKey) {
        current =
          commit.current &&
          (this.#known(kind, key, commit.current.revision) ?? kind.codec.parse(key, commit.current.value, commit.current.revision));
        newest = true;
      } else decision.reservation?.taken(commit.key, commit.current !== undefined);
    }
    throw conflict(kind.resource, key.slice(key.indexOf('/') + 1), objectModified);
  }

  /** The newest state, from storage. */
  async read(kind: StoredKind, key: string): Promise<Item | undefined> {
    try {
      const { entry } = await this.#storage.get(kind.prefix + key);
      return entry && (this.#known(kind, key, entry.revision) ?? kind.codec.parse(key, entry.value, entry.revision));
    } catch (error) {
      throw storageFault(error);
    }
  }

  #known(kind: StoredKind, key: string, revision: number): Item | undefined {
    const item = kind.cache.get(key);
    return item?.revision === revision ? item : undefined;
  }

  async #commit(
    kind: StoredKind,
    storageKey: string,
    write: OwnWrite,
    revision: number,
    ttlSeconds: number | undefined,
    reservation: Reservation | undefined,
    call: Call,
  ): Promise<Commit> {
    const { writes } = this.#cache;
    const span = call.child('storage write');
    const main: Write = { key: storageKey, value: write.value, ...(ttlSeconds !== undefined && { ttlSeconds }) };
    const expect: Expectation = { key: storageKey, revision };
    writes.add(storageKey, write);
    let ok = false;
    try {
      const commit = await this.#storage.commit(
        reservation === undefined ? [main] : [main, ...reservation.writes],
        reservation === undefined ? [expect] : [expect, ...reservation.expect],
      );
      ok = commit.ok;
      if (commit.ok) {
        write.revision = commit.revision;
        span?.setAttribute('oarlock.revision', commit.revision);
        call.wrote(commit.revision);
        // the watch may have told of it before
        if (this.#cache.revision >= commit.revision) writes.remove(storageKey, write);
      }
      return commit;
    } catch (error) {
      span?.setStatus({ code: SpanStatusCode.ERROR, message: String(error) });
      const fault = storageFault(error);
      throw fault === error ? failure('InternalError', `Internal error occurred: ${String(error)}`) : fault;
    } finally {
      if (!ok) writes.remove(storageKey, write);
      span?.end();
    }
  }
}

/** Whether a value says what stands there already; the order of its fields does not count, and cannot change its length. */
function unchanged(object: KubeObject, value: Uint8Array, current: Item): boolean {
  if (value.length !== current.value.length) return false;
  if (Buffer.compare(value, current.value) === 0) return true;
  // what differs mostly does outside of the metadata, which is most of small objects
  const metadata = undefined;
  return (
    jsonEqual(
      { ...current.object, metadata },
      { ...object, kind: current.object.kind, apiVersion: object.apiVersion ?? current.object.apiVersion, metadata },
    ) && jsonEqual({ ...current.object.metadata, resourceVersion: undefined }, { ...object.metadata, resourceVersion: undefined })
  );
}
