import { jsonEqual } from '@oarlock/api/json/json';
import type { KubeObject } from '@oarlock/api/object';
import { conflict, failure, objectModified } from '@oarlock/api/status';

import type { CommitResult, Precondition, StorageDriver, Write } from '@oarlock/spi/storage';
import type { Clock } from '@oarlock/primitives/clock';
import { errorName } from '../endpoints/request/confidential.ts';
import type { RequestContext } from '../endpoints/request/request-context.ts';
import type { StoredKind } from './served-kind.ts';
import type { Allocation } from './strategy.ts';
import { toStatusError } from '../storage/storage-error.ts';
import type { Item } from '../watch-cache/item.ts';
import { PendingWrite } from '../watch-cache/pending-writes.ts';
import { decodeStored, type StoredValue } from '../watch-cache/unreadable-object.ts';
import type { WatchCache } from '../watch-cache/watch-cache.ts';

/** The decision about the current object in a guaranteed update: to write, delete or keep it. */
export type WriteDecision =
  | {
      readonly action: 'put';
      readonly object: KubeObject;
      readonly ttlSeconds?: number | undefined;
      readonly reservation?: Allocation | undefined;
    }
  | { readonly action: 'delete'; readonly reservation?: Allocation | undefined }
  /** The object needs no write. */
  | { readonly action: 'keep' };
export type DecideWrite = (current: Item | undefined) => WriteDecision | Promise<WriteDecision>;

export interface WriteResult {
  /** The new state of the object. After a deletion: the last state, with the deletion's revision as its resourceVersion. */
  readonly item: Item;
  readonly deleted: boolean;
}

export interface ObjectStoreOptions {
  readonly storage: StorageDriver;
  readonly cache: WatchCache;
  /** Returns true for a stored value that must be rewritten even if its content is unchanged, for example after a rotation of encryption keys. */
  readonly isStale: (value: Uint8Array) => boolean;
  readonly clock: Pick<Clock, 'monotonic'>;
}

const maxAttempts = 64;

/**
 * Writes objects with optimistic concurrency. Decisions are based on the cached state. A decision that rejects the write is repeated on the newest
 * stored state before it becomes final.
 */
export class ObjectStore {
  readonly #storage: StorageDriver;
  readonly #cache: WatchCache;
  readonly #isStale: (value: Uint8Array) => boolean;
  readonly #clock: Pick<Clock, 'monotonic'>;

  constructor({ storage, cache, isStale, clock }: ObjectStoreOptions) {
    this.#storage = storage;
    this.#cache = cache;
    this.#isStale = isStale;
    this.#clock = clock;
  }

  /** Creates an object; returns undefined if an object with this name exists. */
  async create(
    kind: StoredKind,
    key: string,
    object: KubeObject,
    context: RequestContext,
    more: { readonly ttlSeconds?: number | undefined; readonly reservation?: Allocation | undefined } = {},
  ): Promise<Item | undefined | 'taken'> {
    const storageKey = kind.storagePrefix + key;
    const { codec } = kind;
    const write = new PendingWrite({ codec, key, object, value: codec.encode(object), spanContext: context.spanContext });
    const commit = await this.#commit(kind, storageKey, write, 0, more.ttlSeconds, more.reservation, context);
    if (commit.ok) return write.item(commit.revision);
    if (commit.key === storageKey) return undefined;
    more.reservation?.onConflict(commit.key, commit.current !== undefined);
    return 'taken';
  }

  /**
   * Calls `decide` with the current object and commits the decision. If another write interferes, both are repeated. An error that `decide` throws
   * is final only if `decide` received the newest state.
   * @throws StatusError the error of `decide`; Conflict after too many concurrent writes
   */
  async guaranteedUpdate(kind: StoredKind, key: string, context: RequestContext, decide: DecideWrite): Promise<WriteResult | undefined> {
    const storageKey = kind.storagePrefix + key;
    let current = kind.cache.get(key);
    let newest = false;
    for (let attempt = 0; attempt < maxAttempts; attempt++) {
      context.request.signal?.throwIfAborted();
      let decision: WriteDecision;
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
        !this.#isStale(current.value)
      ) {
        // nothing changes: no write, but the response must show the newest state
        if (newest) return { item: current, deleted: false };
        const read = await this.read(kind, key);
        newest = true;
        if (read?.revision === current.revision) return { item: current, deleted: false };
        current = read;
        continue;
      }
      const write = new PendingWrite({
        codec: kind.codec,
        key,
        object: decision.action === 'put' ? decision.object : undefined,
        value,
        spanContext: context.spanContext,
      });
      const ttl = decision.action === 'put' ? decision.ttlSeconds : undefined;
      const commit = await this.#commit(kind, storageKey, write, current?.revision ?? 0, ttl, decision.reservation, context);
      if (commit.ok)
        return decision.action === 'put'
          ? { item: write.item(commit.revision), deleted: false }
          : { item: (current as Item).withRevision(commit.revision), deleted: true };
      if (commit.key === storageKey) {
        current =
          commit.current &&
          (this.#cachedItem(kind, key, commit.current.revision) ?? decodeStored(kind.codec, { ...commit.current, storageKey, key }));
        newest = true;
      } else decision.reservation?.onConflict(commit.key, commit.current !== undefined);
    }
    throw conflict(kind.resource, key.slice(key.indexOf('/') + 1), objectModified);
  }

  /**
   * Deletes an object that cannot be decrypted or decoded, regardless of its finalizers. Deletes nothing if the object can be read.
   * @throws StatusError Conflict if another write interferes
   */
  async deleteUnreadable(kind: StoredKind, key: string): Promise<'deleted' | 'absent' | 'readable'> {
    const storageKey = kind.storagePrefix + key;
    try {
      const { entry } = await this.#storage.get(storageKey);
      if (entry === undefined) return 'absent';
      if (isReadable(kind, { ...entry, storageKey, key })) return 'readable';
      const { ok } = await this.#storage.commit([{ key: storageKey, value: null }], [{ key: storageKey, revision: entry.revision }]);
      if (!ok) throw conflict(kind.resource, key.slice(key.indexOf('/') + 1), objectModified);
      return 'deleted';
    } catch (error) {
      throw toStatusError(error);
    }
  }

  /** Reads the newest state of an object from storage; returns undefined if it does not exist. */
  async read(kind: StoredKind, key: string): Promise<Item | undefined> {
    try {
      const storageKey = kind.storagePrefix + key;
      const { entry } = await this.#storage.get(storageKey);
      return entry && (this.#cachedItem(kind, key, entry.revision) ?? decodeStored(kind.codec, { ...entry, storageKey, key }));
    } catch (error) {
      throw toStatusError(error);
    }
  }

  #cachedItem(kind: StoredKind, key: string, revision: number): Item | undefined {
    const item = kind.cache.peek(key);
    return item?.revision === revision ? item : undefined;
  }

  async #commit(
    kind: StoredKind,
    storageKey: string,
    write: PendingWrite,
    revision: number,
    ttlSeconds: number | undefined,
    reservation: Allocation | undefined,
    context: RequestContext,
  ): Promise<CommitResult> {
    const { pendingWrites: writes } = this.#cache;
    const span = context.startChildSpan('storage write');
    const main: Write = { key: storageKey, value: write.value, ...(ttlSeconds !== undefined && { ttlSeconds }) };
    const expect: Precondition = { key: storageKey, revision };
    writes.add(storageKey, write);
    let ok = false;
    const began = this.#clock.monotonic();
    try {
      const commit = await this.#storage.commit(
        reservation === undefined ? [main] : [main, ...reservation.writes],
        reservation === undefined ? [expect] : [expect, ...reservation.expect],
      );
      ok = commit.ok;
      if (commit.ok) {
        write.revision = commit.revision;
        span?.setAttribute('oarlock.revision', commit.revision);
        context.setRevision(commit.revision);
        // the watch may have delivered the change before the commit returned
        if (this.#cache.revision >= commit.revision) writes.remove(storageKey, write);
      }
      return commit;
    } catch (error) {
      if (span !== undefined) context.failSpan(span, error);
      const fault = toStatusError(error);
      throw fault === error
        ? failure('InternalError', `Internal error occurred: ${context.isConfidential ? errorName(error) : String(error)}`)
        : fault;
    } finally {
      context.addLatency('etcd', this.#clock.monotonic() - began);
      if (!ok) writes.remove(storageKey, write);
      span?.end();
    }
  }
}

/** Returns true if a value encodes the same content as the current item. The order of fields may differ. */
function unchanged(object: KubeObject, value: Uint8Array, current: Item): boolean {
  if (value.length !== current.value.length) return false;
  if (Buffer.compare(value, current.value) === 0) return true;
  // objects that differ mostly differ outside the metadata, which is the larger part of small objects
  const metadata = undefined;
  return (
    jsonEqual(
      { ...current.object, metadata },
      { ...object, kind: current.object.kind, apiVersion: object.apiVersion ?? current.object.apiVersion, metadata },
    ) && jsonEqual({ ...current.object.metadata, resourceVersion: undefined }, { ...object.metadata, resourceVersion: undefined })
  );
}

function isReadable(kind: StoredKind, stored: StoredValue): boolean {
  try {
    decodeStored(kind.codec, stored);
    return true;
  } catch {
    return false; // the caller deletes the object
  }
}
