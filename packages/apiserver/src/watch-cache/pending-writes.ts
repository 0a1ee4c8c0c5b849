import type { KubeObject } from '@oarlock/api/object';
import type { SpanContext } from '@oarlock/kernel/tracing';
import type { Codec, Item } from './item.ts';
import { eventOverheadBytes, watchCacheLimits } from './watch-cache-limits.ts';

export interface PendingWriteOptions {
  readonly codec: Codec;
  /** `namespace/name`, or `name`. */
  readonly key: string;
  /** Absent for a delete. */
  readonly object: KubeObject | undefined;
  readonly value: Uint8Array | null;
  readonly spanContext: SpanContext | undefined;
}

/** A write of this process whose watch event has not arrived: the event reuses its object instead of decoding the value. */
export class PendingWrite {
  readonly #options: PendingWriteOptions;
  readonly value: Uint8Array | null;
  #item: Item | undefined;
  /** Set when storage acknowledged the write. */
  revision: number | undefined;

  constructor(options: PendingWriteOptions) {
    this.#options = options;
    this.value = options.value;
  }

  get spanContext(): SpanContext | undefined {
    return this.#options.spanContext;
  }

  /** Returns the item of the write. The request and the watch event share it, in whatever order they need it. */
  item(revision: number): Item {
    const { codec, key, object } = this.#options;
    if (object === undefined || this.value === null) throw new Error(`a delete of ${key} has no item`);
    this.#item ??= codec.item({ key, object, value: this.value, revision });
    return this.#item;
  }
}

/**
 * Pending writes by storage key, bounded in bytes: while the watch of storage is interrupted, acknowledged writes accumulate. A write that was
 * not added is decoded when storage reports it, as a write of another API server is.
 */
export class PendingWrites {
  readonly maxBytes: number;
  readonly #byKey = new Map<string, PendingWrite[]>();
  #bytes = 0;

  constructor(maxBytes = watchCacheLimits.pendingWriteBytes) {
    this.maxBytes = maxBytes;
  }

  /** Encoded size of the values, with an overhead per write. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Adds a write unless the bound is reached. */
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

  /** Removes and returns the pending write that a change of storage corresponds to, if this process made the change. */
  take(storageKey: string, value: Uint8Array | null, revision: number): PendingWrite | undefined {
    const writes = this.#byKey.get(storageKey);
    if (writes === undefined) return undefined;
    const write = writes.find((candidate) =>
      candidate.revision === undefined ? equalValues(candidate.value, value) : candidate.revision === revision,
    );
    if (write !== undefined) this.remove(storageKey, write);
    return write;
  }

  /** Removes acknowledged writes up to `revision`, whose changes storage will not report any more. */
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
