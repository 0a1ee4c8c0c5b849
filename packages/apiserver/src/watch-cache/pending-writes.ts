import type { KubeObject } from '@oarlock/api/object';
import type { SpanContext } from '@oarlock/kernel/tracing';
import type { Codec, Item } from './item.ts';

/** A write of this process that is on its way, so that it is not parsed again when storage tells of it. */
export class PendingWrite {
  readonly #codec: Codec;
  readonly #key: string;
  readonly #object: KubeObject | undefined;
  readonly value: Uint8Array | null;
  readonly spanContext: SpanContext | undefined;
  #item: Item | undefined;
  /** Known once storage acknowledged it. */
  revision: number | undefined;

  constructor(codec: Codec, key: string, object: KubeObject | undefined, value: Uint8Array | null, spanContext: SpanContext | undefined) {
    this.#codec = codec;
    this.#key = key;
    this.#object = object;
    this.value = value;
    this.spanContext = spanContext;
  }

  /** Whoever comes first, the writer or the watch, makes the item; both have the same one. */
  item(revision: number): Item {
    if (this.#object === undefined || this.value === null) throw new Error(`a delete of ${this.#key} has no item`);
    this.#item ??= this.#codec.item(this.#key, this.#object, this.value, revision);
    return this.#item;
  }
}

/** Writes on their way, by storage key. */
export class PendingWrites {
  readonly #byKey = new Map<string, PendingWrite[]>();

  add(storageKey: string, write: PendingWrite): void {
    const writes = this.#byKey.get(storageKey);
    if (writes === undefined) this.#byKey.set(storageKey, [write]);
    else writes.push(write);
  }

  remove(storageKey: string, write: PendingWrite): void {
    const writes = this.#byKey.get(storageKey);
    const at = writes?.indexOf(write) ?? -1;
    if (writes === undefined || at < 0) return;
    if (writes.length === 1) this.#byKey.delete(storageKey);
    else writes.splice(at, 1);
  }

  /** The write that storage tells of, if it is one of ours; it is forgotten. */
  take(storageKey: string, value: Uint8Array | null, revision: number): PendingWrite | undefined {
    const writes = this.#byKey.get(storageKey);
    if (writes === undefined) return undefined;
    const write = writes.find((candidate) =>
      candidate.revision === undefined ? same(candidate.value, value) : candidate.revision === revision,
    );
    if (write !== undefined) this.remove(storageKey, write);
    return write;
  }

  /** Forgets acknowledged writes up to `revision`: storage will not tell of them any more. */
  forget(revision: number): void {
    for (const [key, writes] of this.#byKey) {
      for (const write of [...writes]) if (write.revision !== undefined && write.revision <= revision) this.remove(key, write);
    }
  }
}

function same(a: Uint8Array | null, b: Uint8Array | null): boolean {
  if (a === b) return true;
  return a !== null && b !== null && a.length === b.length && Buffer.compare(a, b) === 0;
}
