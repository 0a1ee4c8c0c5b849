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

/** The message types of a gRPC protocol, which `codec` encodes and decodes. The protobuf types are built when `codec` is first called. */
export class MessageTable {
  readonly #messages: Messages;
  readonly #enums: Enums;
  readonly #absent: 'null' | 'undefined';
  readonly #codecs = new Map<string, Codec<object>>();
  #root: protobuf.Root | undefined;

  /** Creates a table of messages. `absent` is the value that an absent message field has after decoding. */
  constructor(messages: Messages, enums: Enums = {}, absent: 'null' | 'undefined' = 'null') {
    this.#absent = absent;
    this.#messages = messages;
    this.#enums = enums;
  }

  codec<T extends object>(message: string): Codec<T> {
    const known = this.#codecs.get(message);
    if (known) return known as Codec<T>;
    this.#root ??= rootOf(this.#messages, this.#enums);
    const type = this.#root.lookupType(message);
    const created: Codec<T> = {
      encode: (value) => Buffer.from(type.encode(type.fromObject(value)).finish()),
      decode: (bytes) => {
        const value = type.toObject(type.decode(bytes), conversionOptions);
        return (this.#absent === 'null' ? value : withoutNulls(value)) as T;
      },
    };
    this.#codecs.set(message, created as Codec<object>);
    return created;
  }
}
