import { systemClock, type Clock } from '@oarlock/primitives/clock';
import { silentLogger, type Logger } from '@oarlock/primitives/logger';
import {
  StorageError,
  type ChangeBatch,
  type CommitResult,
  type Entry,
  type Precondition,
  type Page,
  type RangeOptions,
  type Revision,
  type StorageCondition,
  type StorageDriver,
  type StorageErrorCode,
  type Write,
} from '@oarlock/spi/storage';
import type { Health } from '@oarlock/spi/role';
import type { StorageMembers } from '@oarlock/spi/storage-server';
import { beforeAbort, EtcdConnection } from './client/etcd-connection.ts';
import { isLeaseNotFound, toStorageError } from './client/etcd-errors.ts';
import { atRevision, int, rpcs, type RequestOp, type TxnRequest, type TxnResponse } from './rpc/etcd-messages.ts';
import { entryOf } from './watch/event-changes.ts';
import { KeySpace, type ByteRange } from './client/key-space.ts';
import { LeasePool } from './client/lease-pool.ts';
import { MemberHealth } from './client/member-health.ts';
import { WatchBroadcaster } from './watch/watch-broadcaster.ts';

export interface EtcdStorageOptions {
  /** Members of one cluster: `http://host:port` or `https://host:port`. */
  readonly endpoints: readonly string[];
  readonly caFile?: string;
  readonly certFile?: string;
  readonly keyFile?: string;
  /** Prefix of all keys, without a trailing slash. */
  readonly prefix?: string;
  readonly requestTimeoutSeconds?: number;
  readonly keepaliveSeconds?: number;
  readonly dialTimeoutSeconds?: number;
  /** `--max-request-bytes` of the members. */
  readonly maxRequestBytes?: number;
  /** `--quota-backend-bytes` of the members, if it is known. */
  readonly quotaBytes?: number;
  readonly watchBytes?: number;
  readonly watchChanges?: number;
  readonly clock?: Clock;
  readonly log?: Logger;
  readonly random?: () => number;
}

export const defaults = {
  prefix: '/oarlock',
  requestTimeoutSeconds: 10,
  keepaliveSeconds: 10,
  dialTimeoutSeconds: 2,
  maxRequestBytes: 1.5 * 1024 * 1024,
  watchBytes: 64 * 1024 * 1024,
  watchChanges: 100_000,
} as const;

/** Part of a request that is reserved for keys, preconditions and etcd's header. */
const overheadBytes = 8 * 1024;
/** A range is read in parts: as many entries at a time as are expected to have `bytes` bytes. */
const part = { bytes: 4 * 1024 * 1024, first: 500, least: 10, most: 5_000 };

/** A storage driver for etcd v3, over one HTTP/2 connection to one of its members. */
export class EtcdStorage implements StorageDriver {
  readonly traits: StorageDriver['traits'];
  readonly members?: StorageMembers;
  readonly #connection: EtcdConnection;
  readonly #keys: KeySpace;
  readonly #leases: LeasePool;
  readonly #watches: WatchBroadcaster;
  readonly #health: MemberHealth;
  readonly #maxRequestBytes: number;

  constructor({ clock = systemClock, log = silentLogger, random = Math.random, ...options }: EtcdStorageOptions) {
    const { prefix, requestTimeoutSeconds, keepaliveSeconds, dialTimeoutSeconds, maxRequestBytes, watchBytes, watchChanges, ...others } = {
      ...defaults,
      ...options,
    };
    const { quotaBytes, ...addresses } = others;
    this.traits = { durable: true, shared: true, maxValueBytes: maxRequestBytes - overheadBytes };
    this.#maxRequestBytes = maxRequestBytes;
    this.#keys = new KeySpace(prefix);
    this.#connection = new EtcdConnection({
      ...addresses,
      clock,
      log,
      random,
      requestTimeoutMs: requestTimeoutSeconds * 1000,
      keepaliveMs: keepaliveSeconds * 1000,
      dialTimeoutMs: dialTimeoutSeconds * 1000,
    });
    this.#health = new MemberHealth({ connection: this.#connection, clock, log, quotaBytes });
    this.#leases = new LeasePool(this.#connection, clock, random);
    this.#watches = new WatchBroadcaster(this.#connection, {
      keys: this.#keys,
      limits: { bytes: watchBytes, changes: watchChanges },
      clock,
      log,
    });
  }

  /** Replaces the endpoints and TLS files before `start`. */
  protected connectTo({ endpoints, ...files }: Pick<EtcdStorageOptions, 'endpoints' | 'caFile' | 'certFile' | 'keyFile'>): void {
    this.#connection.useFiles(files);
    this.#connection.useEndpoints(endpoints);
  }

  /** Replaces the endpoints when members have joined or left. */
  protected useEndpoints(endpoints: readonly string[]): void {
    this.#connection.useEndpoints(endpoints);
  }

  /** Not healthy while etcd rejects writes or has found that its data is corrupt. */
  checkHealth(): Health {
    const { alarms } = this.#health.state;
    return alarms.length === 0 ? { healthy: true } : { healthy: false, reason: `etcd has alarms: ${alarms.join(', ')}` };
  }

  watchConditions(listener: (conditions: readonly StorageCondition[]) => void): () => void {
    return this.#health.watchConditions(listener);
  }

  /** Statistics for metrics. */
  get stats() {
    return { calls: this.#connection.calls, watches: this.#watches.size, feeds: this.#watches.feeds, member: this.#health.state };
  }

  /** Connects to etcd. @throws StorageError `Unavailable` if no quorum responds within the request timeout */
  async start(signal: AbortSignal = new AbortController().signal): Promise<void> {
    await beforeAbort(this.#newest(), signal, () => new StorageError('Unavailable', 'the start was canceled', { cause: signal.reason }));
    this.#health.start();
  }

  async stop(): Promise<void> {
    this.#health.stop();
    this.#watches.stop();
    this.#connection.close();
  }

  async get(key: string, { revision }: { readonly revision?: Revision } = {}): Promise<{ entry: Entry | undefined; revision: Revision }> {
    const { header, kvs } = await this.#range({ key: this.#keys.encode(key), ...at(revision) });
    return { entry: kvs[0] && entryOf(kvs[0], key), revision: revision ?? int(header.revision) };
  }

  async range({ prefix, after, limit = Infinity, revision }: RangeOptions): Promise<Page> {
    const range = this.#keys.range(prefix, after);
    if (!range)
      return { entries: [], revision: (await this.#count({ key: this.#keys.marker }, revision)).revision, more: false, remaining: 0 };
    if (limit === 0) {
      const { count, revision: read } = await this.#count(range, revision);
      return { entries: [], revision: read, more: count > 0, remaining: count };
    }
    for (;;) {
      try {
        return await this.#page(range, limit, revision);
      } catch (error) {
        // the revision of the first part was compacted before the last part was read: start again at the newest revision
        if (revision !== undefined || !(error instanceof StorageError) || error.code !== 'Compacted') throw error;
      }
    }
  }

  async commit(writes: readonly Write[], expect: readonly Precondition[]): Promise<CommitResult> {
    this.#checkWrites(writes);
    if (writes.length === 0 && expect.length === 0) return { ok: true, revision: await this.#newest() };
    const { header, succeeded, responses } = await this.#txn(writes, expect);
    if (succeeded) return { ok: true, revision: int(header.revision) };
    for (const [index, { key, revision }] of expect.entries()) {
      const kv = responses[index]?.response_range?.kvs[0];
      const current = kv && entryOf(kv, key);
      if ((current?.revision ?? 0) !== revision) return { ok: false, key, current };
    }
    throw new StorageError('Corrupt', 'etcd rejected a transaction whose preconditions all hold');
  }

  watch(prefix: string, { after, signal }: { readonly after: Revision; readonly signal: AbortSignal }): AsyncIterable<ChangeBatch> {
    return this.#watches.watch(prefix, after, signal);
  }

  async requestProgress(): Promise<Revision> {
    return this.#watches.progress().catch((error: unknown) => {
      throw toStorageError(error);
    });
  }

  async compact(revision: Revision): Promise<void> {
    if (revision < 1) return;
    try {
      await this.#connection.call(rpcs.compact, { revision }, { repeated: true });
    } catch (error) {
      const storageError = toStorageError(error);
      if (!(storageError instanceof StorageError) || storageError.code !== 'Compacted') throw storageError;
    }
    this.#watches.compacted(revision);
  }

  async #newest(): Promise<Revision> {
    return this.#watches.newest().catch((error: unknown) => {
      throw toStorageError(error);
    });
  }

  async #range(request: Parameters<typeof rpcs.range.encode>[0]) {
    return this.#connection.call(rpcs.range, request, { repeated: true }).catch((error: unknown) => {
      throw toStorageError(error);
    });
  }

  async #count(
    range: { readonly key: Buffer; readonly range_end?: Buffer },
    revision: Revision | undefined,
  ): Promise<{ count: number; revision: Revision }> {
    const { header, count } = await this.#range({ ...range, ...at(revision), count_only: true });
    return { count: int(count), revision: revision ?? int(header.revision) };
  }

  /** Reads a page. All parts are read at the revision of the first one. */
  async #page({ key, range_end }: ByteRange, limit: number, revision: Revision | undefined): Promise<Page> {
    const entries: Entry[] = [];
    let from = key;
    let pinned = revision;
    for (let size: number = part.first; ; ) {
      const { header, kvs, count } = await this.#range({
        key: from,
        range_end,
        limit: Math.min(size, limit - entries.length),
        ...at(pinned),
      });
      pinned ??= int(header.revision);
      let bytes = 1;
      for (const kv of kvs) {
        entries.push(entryOf(kv, this.#keys.decode(kv.key)));
        bytes += kv.key.length + kv.value.length;
      }
      const remaining = int(count) - kvs.length;
      const last = kvs.at(-1);
      if (!last || remaining === 0 || entries.length >= limit) return { entries, revision: pinned, more: remaining > 0, remaining };
      from = Buffer.concat([last.key, Buffer.from([0])]);
      size = Math.max(part.least, Math.min(part.most, Math.floor(part.bytes / (bytes / kvs.length))));
    }
  }

  #checkWrites(writes: readonly Write[]): void {
    for (const { key, value, ttlSeconds } of writes) {
      if (value !== null && value.length > this.traits.maxValueBytes) {
        throw new StorageError(
          'TooLarge',
          `the value of ${JSON.stringify(key)} has ${value.length} bytes; the limit is ${this.traits.maxValueBytes}`,
        );
      }
      if (ttlSeconds !== undefined && (!Number.isInteger(ttlSeconds) || ttlSeconds < 1))
        throw new TypeError(`ttlSeconds must be a positive integer: ${ttlSeconds}`);
    }
    if (writes.length > 1 && new Set(writes.map((write) => write.key)).size < writes.length)
      throw new TypeError('a commit contains two writes of one key');
  }

  async #txn(writes: readonly Write[], expect: readonly Precondition[]): Promise<TxnResponse> {
    const expected = expect.map(({ key, revision }) => ({ key: this.#keys.encode(key), revision }));
    const compare = expected.map(({ key, revision }) => atRevision(key, revision));
    const failure = expected.map(({ key }): RequestOp => ({ request_range: { key } }));
    for (let attempt = 0; ; attempt += 1) {
      try {
        const success = await Promise.all(writes.map((write) => this.#operation(write)));
        const request = rpcs.txn.encode({ compare, success, failure } satisfies TxnRequest);
        if (request.length > this.#maxRequestBytes)
          throw new StorageError('TooLarge', `the commit has ${request.length} bytes; the limit is ${this.#maxRequestBytes}`);
        return await this.#connection.call(rpcs.txn, request, { repeated: false });
      } catch (error) {
        if (!isLeaseNotFound(error) || attempt > 0) {
          const storageError = toStorageError(error);
          if (storageError instanceof StorageError && hasAlarm.has(storageError.code)) this.#health.recheck();
          throw storageError;
        }
        this.#leases.invalidate();
      }
    }
  }

  async #operation({ key, value, ttlSeconds }: Write): Promise<RequestOp> {
    const bytes = this.#keys.encode(key);
    if (value === null) return { request_delete_range: { key: bytes } };
    return { request_put: { key: bytes, value, ...(ttlSeconds !== undefined && { lease: await this.#leases.lease(ttlSeconds) }) } };
  }
}

/** The errors of commits while a member has an alarm. */
const hasAlarm: ReadonlySet<string> = new Set<StorageErrorCode>(['Full', 'Corrupt']);

/** etcd interprets revision 0 as the newest. Revision 1 is the empty store, so it is equivalent to 0 here. */
const at = (revision: Revision | undefined) => (revision === undefined ? {} : { revision: Math.max(1, revision) });
