import type { SpanContext } from '@oarlock/kernel/tracing';
import type { EncodedObject, ProtobufCodec, WatchFrame } from '../endpoints/request/response.ts';
import type { AccountedFrame } from './internal/watcher-memory.ts';
import type { Item } from './item.ts';
import { eventOverheadBytes } from './watch-cache-limits.ts';

/** A watch event whose encodings all watchers share. */
export class SharedWatchFrame implements WatchFrame, AccountedFrame {
  readonly type: WatchFrame['type'];
  readonly item: EncodedObject;
  readonly spanContext: SpanContext | undefined;
  readonly bytes: number;
  holders = 0;
  #json: Buffer | undefined;
  #protobuf: Buffer | undefined;

  /** Creates a frame. `bytes` is the memory that is accounted for the frame while watchers hold it. */
  constructor(type: WatchFrame['type'], item: EncodedObject, spanContext: SpanContext | undefined, bytes = eventOverheadBytes) {
    this.type = type;
    this.item = item;
    this.spanContext = spanContext;
    this.bytes = bytes;
  }

  releaseEncodings(): void {
    this.#json = undefined;
    this.#protobuf = undefined;
  }

  json(): Buffer {
    this.#json ??= this.item.json(`{"type":"${this.type}","object":`, '}\n');
    return this.#json;
  }

  protobuf(codec: ProtobufCodec): Buffer {
    const { apiVersion = '', kind = '' } = this.item.object;
    this.#protobuf ??= codec.watchEvent(this.type, apiVersion, kind, this.item.protobuf(codec));
    return this.#protobuf;
  }
}

/** Converts stored items to a served version. Returns the same object for the same item. */
export type ItemConverter = (item: Item) => EncodedObject;

export interface WatchCacheEventOptions {
  readonly key: string;
  readonly revision: number;
  /** The object after the change; undefined for a deletion. */
  readonly current: Item | undefined;
  /** The object before the change; undefined for a creation. */
  readonly previous: Item | undefined;
  readonly spanContext: SpanContext | undefined;
}

/** A change of one object (watchCacheEvent upstream). The watch frames of the change are created on first use and shared by watchers. */
export class WatchCacheEvent {
  readonly key: string;
  readonly revision: number;
  readonly current: Item | undefined;
  readonly previous: Item | undefined;
  readonly spanContext: SpanContext | undefined;
  /** The frame in the storage version with the event type that nearly all watchers receive. */
  #commonFrame: SharedWatchFrame | undefined;
  #frames: Map<ItemConverter | undefined, Partial<Record<WatchFrame['type'], SharedWatchFrame>>> | undefined;
  #deletedItem: Item | undefined;

  constructor({ key, revision, current, previous, spanContext }: WatchCacheEventOptions) {
    this.key = key;
    this.revision = revision;
    this.current = current;
    this.previous = previous;
    this.spanContext = spanContext;
  }

  /** The encoded size of the object that this event replaced or deleted, which only recent events keep in memory, with an overhead per event. */
  get replacedBytes(): number {
    return (this.previous?.value.length ?? 0) + eventOverheadBytes;
  }

  /**
   * The encoded size of the previous and the current object. Frames are accounted with both, because a watcher that still sends its initial list
   * keeps the previous object in memory.
   */
  get bytes(): number {
    return (this.current?.value.length ?? 0) + this.replacedBytes;
  }

  /**
   * Returns the frame for a watcher; undefined if the watcher does not see the change. `before` and `now` are true if the watcher selects the
   * previous or the current object.
   */
  frame(before: boolean, now: boolean, viewer: ItemConverter | undefined): SharedWatchFrame | undefined {
    if (now && this.current !== undefined) return this.#frame(before ? 'MODIFIED' : 'ADDED', this.current, viewer);
    return before && this.previous !== undefined ? this.#frame('DELETED', this.#deleted(this.previous), viewer) : undefined;
  }

  /**
   * Releases decoded objects and conversions that only this event keeps in memory. Called after the event was dispatched. Queued frames are kept;
   * watches that resume later convert the objects again.
   */
  releaseDecoded(): void {
    this.#frames = undefined;
    this.#deletedItem?.releaseDecoded();
    this.previous?.releaseDecoded();
  }

  #deleted(previous: Item): Item {
    this.#deletedItem ??= previous.withRevision(this.revision);
    return this.#deletedItem;
  }

  #frame(type: WatchFrame['type'], item: Item, viewer: ItemConverter | undefined): SharedWatchFrame {
    if (viewer === undefined) {
      this.#commonFrame ??= new SharedWatchFrame(type, item, this.spanContext, this.bytes);
      if (this.#commonFrame.type === type) return this.#commonFrame;
    }
    this.#frames ??= new Map();
    let frames = this.#frames.get(viewer);
    if (frames === undefined) this.#frames.set(viewer, (frames = {}));
    return (frames[type] ??= new SharedWatchFrame(type, viewer === undefined ? item : viewer(item), this.spanContext, this.bytes));
  }
}
