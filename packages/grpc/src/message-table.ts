import protobuf from 'protobufjs/light.js';

/**
 * Encodes and decodes one message type. After decoding, a field that is absent on the wire has its zero value; an absent message field has
 * the value that the `MessageTable` defines.
 */
export interface Codec<T extends object> {
  encode(value: T): Buffer;
  decode(bytes: Uint8Array): T;
}

/**
 * The messages of a protocol by name. Each field, in camelCase, is declared as `number type`, `number repeated type` or `number
 * map<key,type>`.
 */
export type Messages = Readonly<Record<string, Readonly<Record<string, string>>>>;
/** The enums of a protocol by name. The number of an enum value is its index in the list. */
export type Enums = Readonly<Record<string, readonly string[]>>;

function rootOf(messages: Messages, enums: Enums): protobuf.Root {
  const nested: Record<string, protobuf.AnyNestedObject> = {};
  for (const [name, values] of Object.entries(enums))
    nested[name] = { values: Object.fromEntries(values.map((value, index) => [value, index])) };
  for (const [name, fields] of Object.entries(messages)) {
    nested[name] = {
      fields: Object.fromEntries(Object.entries(fields).map(([field, text]) => [field, fieldOf(`${name}.${field}`, text)])),
    };
  }
  return protobuf.Root.fromJSON({ nested: nested as { [k: string]: protobuf.AnyNestedObject } }).resolveAll() as protobuf.Root;
}

function fieldOf(path: string, text: string): protobuf.IField | protobuf.IMapField {
  const match = /^(\d+) (repeated )?(?:map<(\w+),(\w+)>|(\w+))$/.exec(text);
  if (!match) throw new SyntaxError(`${path}: ${JSON.stringify(text)} is not "number type"`);
  const id = Number(match[1]);
  if (match[3] !== undefined) return { id, keyType: match[3], type: match[4] ?? '' };
  return { id, type: match[5] ?? '', ...(match[2] !== undefined && { rule: 'repeated' }) };
}

const conversionOptions = { longs: Number, enums: String, bytes: Buffer, defaults: true, arrays: true, objects: true };

/** Removes members that are null. The decoder of protobufjs sets absent message fields to null. */
function withoutNulls(value: Record<string, unknown>): Record<string, unknown> {
  for (const [key, each] of Object.entries(value)) {
    if (each === null) delete value[key];
    else if (Array.isArray(each)) {
      for (const item of each) if (isMessage(item)) withoutNulls(item);
    } else if (isMessage(each)) withoutNulls(each);
  }
  return value;
}
const isMessage = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !(value instanceof Uint8Array);

/** The maximum number of fields of a received message, nested ones included. A message of 4 MiB could have two million, which take a second. */
const maxFields = 100_000;

/** Counts the fields of a message and of its nested messages. @throws RangeError if there are more than `left` */
function countFields(reader: protobuf.Reader, type: protobuf.Type, { end, left }: { readonly end: number; readonly left: number }): number {
  let count = left;
  while (reader.pos < end) {
    const tag = reader.uint32();
    count -= 1;
    if (count < 0) throw new RangeError('the message has too many fields');
    const nested = (tag & 7) === 2 ? type.fieldsById[tag >>> 3]?.resolvedType : undefined;
    if (nested instanceof protobuf.Type && type.fieldsById[tag >>> 3]?.map !== true) {
      const length = reader.uint32();
      if (length > end - reader.pos) throw new RangeError('the message ends early');
      count = countFields(reader, nested, { end: reader.pos + length, left: count });
    } else reader.skipType(tag & 7);
  }
  return count;
}

export interface MessageTableOptions {
  /** The value that an absent message field has after decoding. */
  readonly absent?: 'null' | 'undefined';
  /** The maximum number of fields of a message that is decoded, nested ones included. */
  readonly maxFields?: number;
}

/** The message types of a gRPC protocol, which `codec` encodes and decodes. The protobuf types are built when `codec` is first called. */
export class MessageTable {
  readonly #messages: Messages;
  readonly #enums: Enums;
  readonly #options: Required<MessageTableOptions>;
  readonly #codecs = new Map<string, Codec<object>>();
  #root: protobuf.Root | undefined;

  constructor(messages: Messages, enums: Enums = {}, options: MessageTableOptions = {}) {
    this.#messages = messages;
    this.#enums = enums;
    this.#options = { absent: 'null', maxFields, ...options };
  }

  codec<T extends object>(message: string): Codec<T> {
    const known = this.#codecs.get(message);
    if (known) return known as Codec<T>;
    this.#root ??= rootOf(this.#messages, this.#enums);
    const type = this.#root.lookupType(message);
    const created: Codec<T> = {
      encode: (value) => Buffer.from(type.encode(type.fromObject(value)).finish()),
      decode: (bytes) => {
        // the received bytes are foreign: objects take many times their size
        if (bytes.length > this.#options.maxFields)
          countFields(protobuf.Reader.create(bytes), type, { end: bytes.length, left: this.#options.maxFields });
        const value = type.toObject(type.decode(bytes), conversionOptions);
        return (this.#options.absent === 'null' ? value : withoutNulls(value)) as T;
      },
    };
    this.#codecs.set(message, created as Codec<object>);
    return created;
  }
}
