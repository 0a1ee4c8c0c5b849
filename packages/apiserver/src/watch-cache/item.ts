import { copyFields } from '@oarlock/api/json/copy-fields';
import { parseExact, stringifyExact } from '@oarlock/api/json/exact-json';
import { managersText, sharedManagers } from '@oarlock/api/managed-fields/managers';
import { deepFreeze, type KubeObject } from '@oarlock/api/object';
import type { ByteSink, EncodedObject, ProtobufCodec } from '../endpoints/request/response.ts';
import { ValueSlab } from './internal/value-slab.ts';

/**
 * The size of a value in bytes above which its decoded form is released when the object is replaced. Smaller ones are kept, because resumed watches
 * evaluate selectors on them.
 */
const maxRetainedDecodedBytes = 32 * 1024;

/** Encodes and decodes the stored form of one kind: JSON that begins with kind and apiVersion, then the metadata without resourceVersion. */
export class Codec {
  readonly apiVersion: string;
  readonly kind: string;
  /** The constant bytes with which every value begins, such as `{"kind":"Pod","apiVersion":"v1","metadata":{`. */
  readonly opening: Buffer;
  /** True if no component of this process reads the objects permanently. They are then decoded only when a request needs them. */
  readonly decodesOnDemand: boolean;
  /** True if the objects contain arbitrary JSON of users, whose numbers must keep every digit. */
  readonly preservesNumbers: boolean;
  readonly #start: string;
  readonly #slab = new ValueSlab();

  constructor(
    apiVersion: string,
    kind: string,
    { decodesOnDemand = false, preservesNumbers = false }: { readonly decodesOnDemand?: boolean; readonly preservesNumbers?: boolean } = {},
  ) {
    this.apiVersion = apiVersion;
    this.kind = kind;
    this.decodesOnDemand = decodesOnDemand;
    this.preservesNumbers = preservesNumbers;
    this.#start = `{"kind":${JSON.stringify(kind)},"apiVersion":${JSON.stringify(apiVersion)},"metadata":`;
    this.opening = Buffer.from(`${this.#start}{`);
  }

  /** Returns the stored form of an object: `kind`, `apiVersion` and `metadata` first, regardless of their order in the object. */
  encode(object: KubeObject): Buffer {
    const { metadata = {} } = object;
    const { managedFields } = metadata;
    const head = JSON.stringify(without(metadata, separatelyEncodedFields));
    const tail = stringifyExact(without(object, leadingFields));
    // managed fields are the largest part of many objects and rarely change, so their encoding is cached
    const managers = managedFields === undefined ? '' : `${head.length > 2 ? ',' : ''}"managedFields":${managersText(managedFields)}`;
    return this.#slab.write(`${this.#start}${head.slice(0, -1)}${managers}}${tail.length > 2 ? `,${tail.slice(1)}` : '}'}`);
  }

  /** Returns the item of an object that this process encoded, without decoding the value. */
  item({ key, object, value, revision }: Omit<ItemOptions, 'codec'>): Item {
    return new Item({ codec: this, key, object: withRevisionFrozen(object, revision), value, revision });
  }

  /** Decodes a stored value to an item. @throws SyntaxError if the value is not JSON */
  parse(key: string, value: Uint8Array, revision: number): Item {
    return new Item({ codec: this, key, object: this.decode(value, revision), value, revision });
  }

  /** Decodes a stored value to a deeply frozen object. @throws SyntaxError if the value is not JSON */
  decode(value: Uint8Array, revision: number): KubeObject {
    const buffer = Buffer.isBuffer(value) ? value : Buffer.from(value.buffer, value.byteOffset, value.byteLength);
    const text = buffer.toString('utf8');
    const read = (this.preservesNumbers ? parseExact(text) : JSON.parse(text)) as KubeObject;
    const { metadata } = read;
    const managedFields = metadata?.managedFields && sharedManagers(metadata.managedFields);
    const object = copyFields(read, { kind: this.kind, apiVersion: this.apiVersion });
    return withRevisionFrozen(managedFields ? copyFields(object, { metadata: copyFields(metadata, { managedFields }) }) : object, revision);
  }
}

const leadingFields: ReadonlySet<string> = new Set(['kind', 'apiVersion', 'metadata']);
const separatelyEncodedFields: ReadonlySet<string> = new Set(['resourceVersion', 'managedFields']);

function without(object: object, names: ReadonlySet<string>): object {
  const rest: Record<string, unknown> = {};
  for (const name in object) if (!names.has(name)) rest[name] = (object as Readonly<Record<string, unknown>>)[name];
  return rest;
}

/** Returns the object, deeply frozen, with the revision as resourceVersion. */
function withRevisionFrozen(object: KubeObject, revision: number): KubeObject {
  return deepFreeze(copyFields(object, { metadata: copyFields(object.metadata ?? {}, { resourceVersion: String(revision) }) }));
}

export interface ItemOptions {
  readonly codec: Codec;
  /** The key of the object: `namespace/name`, or `name` for a cluster-scoped object. */
  readonly key: string;
  /** The object, deeply frozen. */
  readonly object: KubeObject;
  readonly value: Uint8Array;
  readonly revision: number;
}

/** One version of one stored object, decoded and encoded at most once per format. */
export class Item implements EncodedObject {
  readonly codec: Codec;
  /** The key of the object: `namespace/name`, or `name` for a cluster-scoped object. */
  readonly key: string;
  readonly value: Uint8Array;
  readonly revision: number;
  #object: KubeObject | undefined;
  #decodedRef: WeakRef<KubeObject> | undefined;
  #protobuf: Buffer | undefined;

  constructor({ codec, key, object, value, revision }: ItemOptions) {
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

  /**
   * Releases the protobuf encoding, and the decoded form of a large value. Called when the object is replaced, because recent events may keep the
   * item for minutes.
   */
  releaseDecoded(): void {
    this.#protobuf = undefined;
    if (this.#object === undefined || this.value.length <= maxRetainedDecodedBytes) return;
    this.#decodedRef = new WeakRef(this.#object);
    this.#object = undefined;
  }

  protobuf(codec: ProtobufCodec): Buffer {
    this.#protobuf ??= codec.message(this.object);
    return this.#protobuf;
  }

  /** Returns an item with the same content at another revision, for DELETED events. */
  withRevision(revision: number): Item {
    const { codec, key, value } = this;
    return new Item({ codec, key, object: withRevisionFrozen(this.object, revision), value, revision });
  }

  writeJson(sink: ByteSink, typeMeta?: Buffer): void {
    const { opening } = this.codec;
    const { value } = this;
    if (!startsWith(value, opening)) {
      writeReplaced(sink, Buffer.from(stringifyExact(this.object)), typeMeta);
      return;
    }
    writeReplaced(sink, opening, typeMeta);
    sink.add(versionField);
    sink.addDecimal(this.revision);
    sink.add(value[opening.length] === closingBrace ? quote : quoteComma);
    sink.add(value, opening.length);
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

  /** Returns the JSON of the resourceVersion field, which stored values do not contain. */
  #version(): string {
    return `"resourceVersion":"${this.revision}"${this.value[this.codec.opening.length] === closingBrace ? '' : ','}`;
  }
}

const closingBrace = 0x7d;
const openingBrace = Buffer.from('{');
const versionField = Buffer.from('"resourceVersion":"');
const quote = Buffer.from('"');
const quoteComma = Buffer.from('",');

/** Adds a JSON text to a sink, with an opening brace in place of `typeMeta` if it begins with that. */
function writeReplaced(sink: ByteSink, json: Buffer, typeMeta: Buffer | undefined): void {
  if (typeMeta === undefined || !startsWith(json, typeMeta)) sink.add(json);
  else {
    sink.add(openingBrace);
    sink.add(json, typeMeta.length);
  }
}

function startsWith(value: Uint8Array, opening: Buffer): boolean {
  if (value.length < opening.length) return false;
  for (let i = 0; i < opening.length; i++) if (value[i] !== opening[i]) return false;
  return true;
}

/** An object that is not stored in this form: converted to another version, or not stored at all. Encoded on first use. */
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
  writeJson(sink: ByteSink, typeMeta?: Buffer): void {
    writeReplaced(sink, this.#whole(), typeMeta);
  }
  protobuf(codec: ProtobufCodec): Buffer {
    this.#protobuf ??= codec.message(this.object);
    return this.#protobuf;
  }
  #whole(): Buffer {
    const { kind, apiVersion, metadata, ...rest } = this.object;
    // in the order of stored objects: encodings recognize the type metadata at the beginning
    this.#json ??= Buffer.from(stringifyExact({ kind, apiVersion, metadata, ...rest }));
    return this.#json;
  }
}
