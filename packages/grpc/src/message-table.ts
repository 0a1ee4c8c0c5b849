import protobuf from 'protobufjs/light.js';

/** Encodes and decodes one message. What is absent on the wire is there after decoding, with its zero value; for messages the table says. */
export interface Codec<T extends object> {
  encode(value: T): Buffer;
  decode(bytes: Uint8Array): T;
}

/** Messages of a protocol: field -> `number type`, also `number repeated type` and `number map<key,type>`. Names in camelCase. */
export type Messages = Readonly<Record<string, Readonly<Record<string, string>>>>;
/** The value of a name is its place. */
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

function fieldOf(where: string, text: string): protobuf.IField | protobuf.IMapField {
  const match = /^(\d+) (repeated )?(?:map<(\w+),(\w+)>|(\w+))$/.exec(text);
  if (!match) throw new SyntaxError(`${where}: ${JSON.stringify(text)} is not "number type"`);
  const id = Number(match[1]);
  if (match[3] !== undefined) return { id, keyType: match[3], type: match[4] ?? '' };
  return { id, type: match[5] ?? '', ...(match[2] !== undefined && { rule: 'repeated' }) };
}

const decoding = { longs: Number, enums: String, bytes: Buffer, defaults: true, arrays: true, objects: true };

/** protobufjs fills absent messages in as null. */
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

/** The messages of a protocol by their names. What protobuf needs is built when the first message is wanted. */
export class MessageTable {
  readonly #messages: Messages;
  readonly #enums: Enums;
  readonly #absent: 'null' | 'undefined';
  readonly #codecs = new Map<string, Codec<object>>();
  #root: protobuf.Root | undefined;

  /** `absent`: what stands for messages that are not there. */
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
    const made: Codec<T> = {
      encode: (value) => Buffer.from(type.encode(type.fromObject(value)).finish()),
      decode: (bytes) => {
        const value = type.toObject(type.decode(bytes), decoding);
        return (this.#absent === 'null' ? value : withoutNulls(value)) as T;
      },
    };
    this.#codecs.set(message, made as Codec<object>);
    return made;
  }
}
