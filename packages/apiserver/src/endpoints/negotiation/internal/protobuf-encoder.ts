import type { KubeObject } from '@oarlock/api/object';
import { parseTime } from '@oarlock/api/values/time';
import { messageNamed, messageOf, type FieldDescriptor, type MessageDescriptor } from './protobuf-messages.ts';
import {
  writeBase64,
  writeByte,
  closeMessage,
  writeDouble,
  openMessage,
  writeOptional,
  writeBytes,
  sizeOf,
  writeString,
  writeVarint,
  writeMessage,
} from './protobuf-writer.ts';
import type { ProtobufCodec } from '../../request/response.ts';

/** The magic number that begins objects in Kubernetes protobuf. This module encodes objects directly from their JSON form. */
const magic = Buffer.from('k8s\0');
/** The fields contentEncoding and contentType of a `runtime.Unknown`, both empty. */
const plainContent = Buffer.from([0x1a, 0x00, 0x22, 0x00]);
const metaPackage = 'k8s.io.apimachinery.pkg.apis.meta.v1';

type Fields = Readonly<Record<string, unknown>>;

export const protobufCodec: ProtobufCodec = {
  knows: (apiVersion, kind) => messageOf(apiVersion, kind) !== undefined,
  message: (object) => writeMessage(() => members(kindMessage(object), object as object as Fields)),
  metadata: ({ metadata }) =>
    writeMessage(() => members(messageNamed(`${metaPackage}.PartialObjectMetadata`), { metadata: metadata ?? {} })),
  listMetadata: (metadata) => writeMessage(() => members(messageNamed(`${metaPackage}.PartialObjectMetadataList`), { metadata })),
  envelopeHead,
  envelopeTail: plainContent,
  watchEvent: frame,
};

/** Returns the message descriptor of a kind. @throws Error if the kind has no message, which means that protobuf was negotiated for it by mistake */
function kindMessage({ apiVersion = '', kind = '' }: KubeObject): MessageDescriptor {
  const message = messageOf(apiVersion, kind);
  if (message === undefined) throw new Error(`no message for ${apiVersion} ${kind}`);
  return message;
}

const openings = new Map<string, Map<string, Buffer>>();

/** Returns the magic number, apiVersion and kind of an envelope (`runtime.Unknown`), which are equal for all objects of a kind. */
function openingOf(apiVersion: string, kind: string): Buffer {
  let kinds = openings.get(apiVersion);
  if (kinds === undefined) openings.set(apiVersion, (kinds = new Map()));
  let opening = kinds.get(kind);
  if (opening === undefined) {
    opening = writeMessage(() => {
      writeBytes(magic);
      const typeMeta = openMessage(0x0a, 1);
      writeByte(0x0a);
      writeString(apiVersion);
      writeByte(0x12);
      writeString(kind);
      closeMessage(typeMeta, 1);
      writeByte(0x12);
    });
    kinds.set(kind, opening);
  }
  return opening;
}

/** Returns the bytes of an envelope that precede a message of this length. */
function envelopeHead(apiVersion: string, kind: string, length: number): Buffer {
  const opening = openingOf(apiVersion, kind);
  const head = Buffer.allocUnsafe(opening.length + sizeOf(length));
  opening.copy(head);
  let end = opening.length;
  let rest = length;
  for (; rest > 127; rest = Math.floor(rest / 128)) head[end++] = (rest & 0x7f) | 0x80;
  head[end] = rest;
  return head;
}

/** Returns one watch event: the length in four bytes, then a `WatchEvent` message. */
function frame(type: string, apiVersion: string, kind: string, message: Buffer): Buffer {
  const head = envelopeHead(apiVersion, kind, message.length);
  const object = head.length + message.length + plainContent.length;
  const opening = writeMessage(() => {
    writeByte(0x0a);
    writeString(type);
    writeByte(0x12);
    writeVarint(1 + sizeOf(object) + object);
    writeByte(0x0a);
    writeVarint(object);
  });
  const result = Buffer.allocUnsafe(4 + opening.length + object);
  let end = result.writeUInt32BE(opening.length + object, 0);
  for (const part of [opening, head, message, plainContent]) {
    part.copy(result, end);
    end += part.length;
  }
  return result;
}

function members(message: MessageDescriptor, object: Fields): void {
  const { byName, inlined } = message;
  for (const key in object) {
    const value = object[key];
    if (value === null || value === undefined) continue;
    const field = byName.get(key);
    if (field !== undefined) write(field, value);
  }
  for (const field of inlined) {
    writeOptional(tagOf(field), () => {
      members(field.message(), object);
    });
  }
}

const wires: Readonly<Record<string, number>> = { bool: 0, int32: 0, int64: 0, double: 1 };
const tagOf = ({ number, type }: FieldDescriptor): number => (number << 3) | (wires[type] ?? 2);

function write(field: FieldDescriptor, value: unknown): void {
  if (field.map) {
    const entries = value as Fields;
    for (const key in entries) {
      const start = openMessage((field.number << 3) | 2, 1);
      writeByte(0x0a);
      writeString(key);
      single(field, 2, entries[key] ?? zeroOf(field));
      closeMessage(start, 1);
    }
  } else if (field.repeated) {
    for (const item of value as readonly unknown[]) single(field, field.number, item ?? zeroOf(field));
  } else single(field, field.number, value);
}

/** Returns the zero value that Go decodes from null in a list or map. */
function zeroOf({ type }: FieldDescriptor): unknown {
  switch (type) {
    case 'string':
    case 'bytes':
      return '';
    case 'int32':
    case 'int64':
    case 'double':
    case 'IntOrString':
      return 0;
    case 'bool':
      return false;
    case 'Quantity':
      return '0';
    case 'ExtraValue':
    case 'Verbs':
      return [];
    case 'Time':
    case 'MicroTime':
    case 'JSON':
    case 'RawExtension':
      return null;
    default:
      return {};
  }
}

function single(field: FieldDescriptor, number: number, value: unknown): void {
  const { type } = field;
  switch (type) {
    case 'string':
      writeVarint((number << 3) | 2);
      writeString(value as string);
      return;
    case 'bytes':
      writeVarint((number << 3) | 2);
      writeBase64(value as string);
      return;
    case 'bool':
      writeVarint(number << 3);
      writeByte(value === true ? 1 : 0);
      return;
    case 'int32':
    case 'int64':
      writeVarint(number << 3);
      writeVarint(value as number);
      return;
    case 'double':
      writeVarint((number << 3) | 1);
      writeDouble(value as number);
      return;
    default: {
      const start = openMessage((number << 3) | 2, 1);
      if (type === 'message') members(field.message(), value as Fields);
      else special(field, value);
      closeMessage(start, 1);
    }
  }
}

/** Writes a field of a special type, which is a message in protobuf but not an object in JSON. */
function special(field: FieldDescriptor, value: unknown): void {
  switch (field.type) {
    case 'Quantity':
      writeByte(0x0a);
      writeString(String(value));
      return;
    case 'Time':
      if (typeof value === 'string') time(value, false);
      return;
    case 'MicroTime':
      if (typeof value === 'string') time(value, true);
      return;
    case 'IntOrString':
      writeByte(0x08);
      writeByte(typeof value === 'number' ? 0 : 1);
      writeByte(typeof value === 'number' ? 0x10 : 0x1a);
      if (typeof value === 'number') writeVarint(value);
      else writeString(String(value));
      return;
    case 'FieldsV1':
    case 'RawExtension':
    case 'JSON':
      if (value === null && field.type === 'RawExtension') return;
      writeByte(0x0a);
      writeString(JSON.stringify(value));
      return;
    case 'ExtraValue':
    case 'Verbs':
      for (const item of value as readonly string[]) {
        writeByte(0x0a);
        writeString(item);
      }
      return;
    case 'JSONSchemaPropsOrBool':
      members(field.message(), typeof value === 'boolean' ? { allows: value } : { allows: true, schema: value });
      return;
    case 'JSONSchemaPropsOrArray':
      members(field.message(), Array.isArray(value) ? { jSONSchemas: value } : { schema: value });
      return;
    case 'JSONSchemaPropsOrStringArray':
      members(field.message(), Array.isArray(value) ? { property: value } : { schema: value });
      return;
    default:
      throw new Error(`${field.type} is not a special message`);
  }
}

const zero = 48;
const digits = (value: string, from: number): number => (value.charCodeAt(from) - zero) * 10 + value.charCodeAt(from + 1) - zero;

function time(value: string, micro: boolean): void {
  writeByte(0x08);
  // the format that this server writes: 2026-01-31T12:00:00Z with optional fraction; Date.UTC maps the years 0 to 99 to 1900 to 1999
  const plain = value.length >= 20 && digits(value, 0) > 0 && value.charCodeAt(value.length - 1) === 0x5a && value.charCodeAt(10) === 0x54;
  const ms = plain
    ? Date.UTC(
        digits(value, 0) * 100 + digits(value, 2),
        digits(value, 5) - 1,
        digits(value, 8),
        digits(value, 11),
        digits(value, 14),
        digits(value, 17),
      )
    : (parseTime(value) ?? 0);
  writeVarint(Math.floor(ms / 1000));
  writeByte(0x10);
  writeVarint(micro ? Number((/\.(\d{1,9})/.exec(value)?.[1] ?? '').padEnd(6, '0').slice(0, 6)) * 1000 : 0);
}
