import type { KubeObject } from '@oarlock/api/object';
import type { SpanContext } from '@oarlock/kernel/tracing';
import type { Codec, Item } from './item.ts';
import { eventOverheadBytes, watchCacheLimits } from './watch-cache-limits.ts';

export interface PendingWriteOptions {
  readonly codec: Codec;
  /** The key of the object: `namespace/name`, or `name` for a cluster-scoped object. */
  readonly key: string;
  /** The written object; undefined for a deletion. */
  readonly object: KubeObject | undefined;
  readonly value: Uint8Array | null;
  readonly spanContext: SpanContext | undefined;
}

/** A write of this process whose watch event has not arrived. The event uses the object of the write instead of decoding the value. */
export class PendingWrite {
  readonly #options: PendingWriteOptions;
  readonly value: Uint8Array | null;
  #item: Item | undefined;
  /** The revision of the write; undefined until storage has acknowledged the write. */
  revision: number | undefined;

  constructor(options: PendingWriteOptions) {
    this.#options = options;
    this.value = options.value;
  }

  get spanContext(): SpanContext | undefined {
    return this.#options.spanContext;
  }

  /** Returns the item of the write. The request and the watch event share the item, whichever of them needs it first. */
  item(revision: number): Item {
    const { codec, key, object } = this.#options;
    if (object === undefined || this.value === null) throw new Error(`a delete of ${key} has no item`);
    this.#item ??= codec.item({ key, object, value: this.value, revision });
    return this.#item;
  }
}

/**
 * The pending writes by storage key. Limited in bytes, because acknowledged writes accumulate while the watch of storage is interrupted. The event
 * of a write that was not added is decoded, like an event of another API server's write.
 */
export class PendingWrites {
  readonly maxBytes: number;
  readonly #byKey = new Map<string, PendingWrite[]>();
  #bytes = 0;

  constructor(maxBytes = watchCacheLimits.pendingWriteBytes) {
    this.maxBytes = maxBytes;
  }

  /** The encoded size of all values, with an overhead per write. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Adds a write, unless the limit is reached. */
  add(storageKey: string, write: PendingWrite): void {
    const bytes = sizeOf(write);
    if (this.#bytes + bytes > this.maxBytes) return;
    this.#bytes += bytes;
    const writes = this.#byKey.get(storageKey);
    if (writes === undefined) this.#byKey.set(storageKey, [write]);
    else writes.push(write);
  }

  remove(storageKey: string, write: PendingWrite): void {
    const writes = this.#byKey.get(storageKey);
    const at = writes?.indexOf(write) ?? -1;
    if (writes === undefined || at < 0) return;
    this.#bytes -= sizeOf(write);
    if (writes.length === 1) this.#byKey.delete(storageKey);
    else writes.splice(at, 1);
  }

  /** Removes and returns the pending write that caused a change of storage; undefined if another process made the change. */
  take(storageKey: string, value: Uint8Array | null, revision: number): PendingWrite | undefined {
    const writes = this.#byKey.get(storageKey);
    if (writes === undefined) return undefined;
    const write = writes.find((candidate) =>
      candidate.revision === undefined ? equalValues(candidate.value, value) : candidate.revision === revision,
    );
    if (write !== undefined) this.remove(storageKey, write);
    return write;
  }

  /** Removes acknowledged writes up to `revision`, for which no watch event will arrive any more. */
  forget(revision: number): void {
    for (const [key, writes] of this.#byKey) {
      for (const write of [...writes]) if (write.revision !== undefined && write.revision <= revision) this.remove(key, write);
    }
  }
}

const sizeOf = ({ value }: PendingWrite): number => (value?.length ?? 0) + eventOverheadBytes;

function equalValues(a: Uint8Array | null, b: Uint8Array | null): boolean {
  if (a === b) return true;
  return a !== null && b !== null && a.length === b.length && Buffer.compare(a, b) === 0;
}
