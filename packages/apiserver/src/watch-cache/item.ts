import { parseExact, stringifyExact } from '@oarlock/api/json/exact-json';
import { managersText, sharedManagers } from '@oarlock/api/managed-fields/managers';
import { deepFreeze, type KubeObject } from '@oarlock/api/object';
import type { SpanContext } from '@oarlock/kernel/tracing';
import type { EncodedObject, ProtobufCodec, WatchFrame } from '../request/response.ts';
import { ValueSlab } from './internal/value-slab.ts';

/** How one kind is written to storage: JSON whose metadata follows a constant opening and has no resourceVersion. */
export class Codec {
  readonly apiVersion: string;
  readonly kind: string;
  /** `{"kind":"Pod","apiVersion":"v1","metadata":{` */
  readonly opening: Buffer;
  /** Nobody in this process keeps looking at them: they are parsed for who asks. */
  readonly decodesOnDemand: boolean;
  /** Its objects hold JSON of users, of which every digit is kept. */
  readonly preservesNumbers: boolean;
  readonly #start: string;
  readonly #slab = new ValueSlab();

  constructor(
    apiVersion: string,
    kind: string,
    { seldomRead = false, exact = false }: { readonly seldomRead?: boolean; readonly exact?: boolean } = {},
  ) {
    this.apiVersion = apiVersion;
    this.kind = kind;
    this.decodesOnDemand = seldomRead;
    this.preservesNumbers = exact;
    this.#start = `{"kind":${JSON.stringify(kind)},"apiVersion":${JSON.stringify(apiVersion)},"metadata":`;
    this.opening = Buffer.from(`${this.#start}{`);
  }

  /** What is stored for an object. `kind`, `apiVersion` and `metadata` come first, whatever order the object has. */
  encode(object: KubeObject): Buffer {
    const { metadata = {} } = object;
    const { managedFields } = metadata;
    const head = JSON.stringify(without(metadata, separatelyEncodedFields));
    const tail = stringifyExact(without(object, leadingFields));
    // managers are most of many objects, and seldom new
    const managers = managedFields === undefined ? '' : `${head.length > 2 ? ',' : ''}"managedFields":${managersText(managedFields)}`;
    return this.#slab.write(`${this.#start}${head.slice(0, -1)}${managers}}${tail.length > 2 ? `,${tail.slice(1)}` : '}'}`);
  }

  /** An item of a value that this process wrote: nothing is parsed. */
  item(key: string, object: KubeObject, value: Uint8Array, revision: number): Item {
    return new Item(this, key, withRevisionFrozen(object, revision), value, revision);
  }

  /** @throws SyntaxError when the value is no JSON */
  parse(key: string, value: Uint8Array, revision: number): Item {
    return new Item(this, key, this.decode(value, revision), value, revision);
  }

  /** The object of a value, frozen in depth. @throws SyntaxError when the value is no JSON */
  decode(value: Uint8Array, revision: number): KubeObject {
    const buffer = Buffer.isBuffer(value) ? value : Buffer.from(value.buffer, value.byteOffset, value.byteLength);
    const text = buffer.toString('utf8');
    const read = (this.preservesNumbers ? parseExact(text) : JSON.parse(text)) as KubeObject;
    const { metadata } = read;
    const managedFields = metadata?.managedFields && sharedManagers(metadata.managedFields);
    const object = {
      ...read,
      kind: this.kind,
      apiVersion: this.apiVersion,
      ...(managedFields && { metadata: { ...metadata, managedFields } }),
    };
    return withRevisionFrozen(object, revision);
  }
}

const leadingFields: ReadonlySet<string> = new Set(['kind', 'apiVersion', 'metadata']);
const separatelyEncodedFields: ReadonlySet<string> = new Set(['resourceVersion', 'managedFields']);

function without(object: object, names: ReadonlySet<string>): object {
  const rest: Record<string, unknown> = {};
  for (const name in object) if (!names.has(name)) rest[name] = (object as Readonly<Record<string, unknown>>)[name];
  return rest;
}

/** The object at a revision, frozen in depth. */
function withRevisionFrozen(object: KubeObject, revision: number): KubeObject {
  return deepFreeze({ ...object, metadata: { ...object.metadata, resourceVersion: String(revision) } });
}

/** One version of one stored object. */
export class Item implements EncodedObject {
  readonly codec: Codec;
  /** `namespace/name`, or `name`. */
  readonly key: string;
  readonly value: Uint8Array;
  readonly revision: number;
  readonly #object: KubeObject | undefined;
  #decodedRef: WeakRef<KubeObject> | undefined;
  #protobuf: Buffer | undefined;

  constructor(codec: Codec, key: string, object: KubeObject, value: Uint8Array, revision: number) {
    this.codec = codec;
    this.key = key;
    if (codec.decodesOnDemand) this.#decodedRef = new WeakRef(object);
    else this.#object = object;
    this.value = value;
    this.revision = revision;
  }

  get object(): KubeObject {
    let object = this.#object ?? this.#decodedRef?.deref();
    if (object === undefined) {
      object = this.codec.decode(this.value, this.revision);
      this.#decodedRef = new WeakRef(object);
    }
    return object;
  }

  protobuf(codec: ProtobufCodec): Buffer {
    this.#protobuf ??= codec.message(this.object);
    return this.#protobuf;
  }

  /** The same content at another revision: what a DELETED event shows. */
  withRevision(revision: number): Item {
    return new Item(this.codec, this.key, withRevisionFrozen(this.object, revision), this.value, revision);
  }

  pieces(): readonly Buffer[] {
    const { opening } = this.codec;
    const { value } = this;
    if (!startsWith(value, opening)) return [Buffer.from(stringifyExact(this.object))];
    const rest = Buffer.from(value.buffer, value.byteOffset + opening.length, value.byteLength - opening.length);
    return [opening, Buffer.from(this.#version(), 'latin1'), rest];
  }

  json(before = '', after = ''): Buffer {
    const { opening } = this.codec;
    const { value } = this;
    if (!startsWith(value, opening)) return Buffer.from(before + stringifyExact(this.object) + after);
    const version = this.#version();
    const buffer = Buffer.allocUnsafe(before.length + value.length + version.length + after.length);
    let at = buffer.write(before, 0, 'latin1');
    buffer.set(opening, at);
    at += opening.length;
    at += buffer.write(version, at, 'latin1');
    buffer.set(value.subarray(opening.length), at);
    buffer.write(after, at + value.length - opening.length, 'latin1');
    return buffer;
  }

  /** What stored values lack. */
  #version(): string {
    return `"resourceVersion":"${this.revision}"${this.value[this.codec.opening.length] === closingBrace ? '' : ','}`;
  }
}

const closingBrace = 0x7d;

function startsWith(value: Uint8Array, opening: Buffer): boolean {
  if (value.length < opening.length) return false;
  for (let i = 0; i < opening.length; i++) if (value[i] !== opening[i]) return false;
  return true;
}

/** An object in another version than the stored one, or one that is not stored. Encoded when first asked for. */
export class DerivedObject implements EncodedObject {
  readonly object: KubeObject;
  readonly revision: number;
  #json: Buffer | undefined;
  #protobuf: Buffer | undefined;
  constructor(object: KubeObject, revision: number) {
    this.object = deepFreeze(object);
    this.revision = revision;
  }
  json(before = '', after = ''): Buffer {
    return Buffer.concat([Buffer.from(before), this.#whole(), Buffer.from(after)]);
  }
  pieces(): readonly Buffer[] {
    return [this.#whole()];
  }
  protobuf(codec: ProtobufCodec): Buffer {
    this.#protobuf ??= codec.message(this.object);
    return this.#protobuf;
  }
  #whole(): Buffer {
    this.#json ??= Buffer.from(stringifyExact(this.object));
    return this.#json;
  }
}

export class SharedWatchFrame implements WatchFrame {
  readonly type: WatchFrame['type'];
  readonly item: EncodedObject;
  readonly spanContext: SpanContext | undefined;
  #json: Buffer | undefined;
  #protobuf: Buffer | undefined;

  constructor(type: WatchFrame['type'], item: EncodedObject, spanContext: SpanContext | undefined) {
    this.type = type;
    this.item = item;
    this.spanContext = spanContext;
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

/** How one served version shows stored items; the stored version has none. The same item always gives the same view. */
export type ItemConverter = (item: Item) => EncodedObject;

/** One change of one object, and the frames in which watchers see it, made when first needed and shared. */
export class WatchCacheEvent {
  readonly key: string;
  readonly revision: number;
  readonly current: Item | undefined;
  readonly previous: Item | undefined;
  readonly spanContext: SpanContext | undefined;
  /** Nearly all watchers see the stored version and the same change. */
  #commonFrame: SharedWatchFrame | undefined;
  #frames: Map<ItemConverter | undefined, Partial<Record<WatchFrame['type'], SharedWatchFrame>>> | undefined;
  #deletedItem: Item | undefined;

  constructor(key: string, revision: number, current: Item | undefined, previous: Item | undefined, spanContext: SpanContext | undefined) {
    this.key = key;
    this.revision = revision;
    this.current = current;
    this.previous = previous;
    this.spanContext = spanContext;
  }

  /** What a watcher sees to which the object did or did not belong before and does or does not now. */
  frame(before: boolean, now: boolean, viewer: ItemConverter | undefined): SharedWatchFrame | undefined {
    if (now && this.current !== undefined) return this.#frame(before ? 'MODIFIED' : 'ADDED', this.current, viewer);
    return before && this.previous !== undefined ? this.#frame('DELETED', this.#deleted(this.previous), viewer) : undefined;
  }

  #deleted(previous: Item): Item {
    this.#deletedItem ??= previous.withRevision(this.revision);
    return this.#deletedItem;
  }

  #frame(type: WatchFrame['type'], item: Item, viewer: ItemConverter | undefined): SharedWatchFrame {
    if (viewer === undefined) {
      this.#commonFrame ??= new SharedWatchFrame(type, item, this.spanContext);
      if (this.#commonFrame.type === type) return this.#commonFrame;
    }
    this.#frames ??= new Map();
    let frames = this.#frames.get(viewer);
    if (frames === undefined) this.#frames.set(viewer, (frames = {}));
    return (frames[type] ??= new SharedWatchFrame(type, viewer === undefined ? item : viewer(item), this.spanContext));
  }
}
