import protobuf from 'protobufjs/light.js';
import { containerdMessages } from './containerd-messages.ts';
import { criEnums, criMessages } from './cri-messages.ts';

/** Encodes and decodes one message. What is absent on the wire is there after decoding, with its zero value; messages are absent. */
export interface Codec<T extends object> {
  encode(value: T): Buffer;
  decode(bytes: Uint8Array): T;
}

type Table = Readonly<Record<string, Readonly<Record<string, string>>>>;

function rootOf(messages: Table, enums: Readonly<Record<string, readonly string[]>> = {}): protobuf.Root {
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

const roots = { cri: () => rootOf(criMessages, criEnums), containerd: () => rootOf(containerdMessages) };
const built = new Map<keyof typeof roots, protobuf.Root>();
const codecs = new Map<string, Codec<object>>();

/** Looks a message up by its name; each table is built when its first message is wanted. */
export function codec<T extends object>(table: keyof typeof roots, message: string): Codec<T> {
  const key = `${table} ${message}`;
  const known = codecs.get(key);
  if (known) return known as Codec<T>;
  const root = built.get(table) ?? roots[table]();
  built.set(table, root);
  const type = root.lookupType(message);
  const made: Codec<T> = {
    encode: (value) => Buffer.from(type.encode(type.fromObject(value)).finish()),
    decode: (bytes) =>
      type.toObject(type.decode(bytes), { longs: Number, enums: String, bytes: Buffer, defaults: true, arrays: true, objects: true }) as T,
  };
  codecs.set(key, made as Codec<object>);
  return made;
}
