import type { KubeObject } from '@oarlock/api/object';
import { badRequest } from '@oarlock/api/status';
import { errorText } from '@oarlock/primitives/error-text';
import { checkValueCount, maxBodyValues } from '../request/body-values.ts';
import { malformed, Reader, type FieldBudget } from './internal/protobuf-reader.ts';
import { messageNamed, messageOf, type FieldDescriptor, type MessageDescriptor, type ScalarType } from './internal/protobuf-messages.ts';

/**
 * The magic number that begins a request body in Kubernetes protobuf. A `runtime.Unknown` with the kind and the object's message follows. This
 * module decodes such bodies, which typed Go clients send, to the JSON form of the object, which is processed like a JSON body.
 */
const magic = Buffer.from('k8s\0');
const maxDepth = 100;
type Fields = Record<string, unknown>;

interface KindName {
  readonly apiVersion: string;
  readonly kind: string;
}

/** Decodes a request body. `expected` is the kind of a body without type metadata. @throws StatusError `BadRequest` if the body is malformed */
export function decodeProtobuf(body: Buffer, expected?: KindName): KubeObject {
  return decodeAt(body, { depth: 0, fields: { left: maxBodyValues } }, expected);
}

function decodeAt(
  body: Buffer,
  { depth, fields }: { readonly depth: number; readonly fields: FieldBudget },
  expected?: KindName,
): KubeObject {
  if (body.length < magic.length || magic.compare(body, 0, magic.length) !== 0) throw malformed('missing magic number');
  const { raw, ...named } = readUnknown(new Reader(body, { at: magic.length, end: body.length, fields }));
  const { apiVersion, kind } = named.kind === '' && named.apiVersion === '' && expected !== undefined ? expected : named;
  const message = messageOf(apiVersion, kind);
  if (message === undefined) throw malformed(`kind ${JSON.stringify(kind)} is not registered for version ${JSON.stringify(apiVersion)}`);
  return { kind, apiVersion, ...read(raw, message, depth) };
}

interface Unknown extends KindName {
  readonly raw: Reader;
}

function readUnknown(reader: Reader): Unknown {
  let typeMeta: { readonly apiVersion?: string; readonly kind?: string } = {};
  let raw = reader.empty();
  while (reader.at < reader.end) {
    const tag = reader.small();
    if (tag === 0x0a) typeMeta = read(reader.part(), messageNamed('k8s.io.apimachinery.pkg.runtime.TypeMeta'), 1);
    else if (tag === 0x12) raw = reader.part();
    else reader.skip(tag & 7);
  }
  return { apiVersion: typeMeta.apiVersion ?? '', kind: typeMeta.kind ?? '', raw };
}

function read(reader: Reader, message: MessageDescriptor, depth: number): Fields {
  const result: Fields = {};
  readInto(result, reader, message, depth);
  return result;
}

function readInto(result: Fields, reader: Reader, { byNumber }: MessageDescriptor, depth: number): void {
  if (depth > maxDepth) throw malformed('nesting too deep');
  while (reader.at < reader.end) {
    const tag = reader.small();
    reader.countField();
    const field = byNumber[tag >> 3];
    if (field === undefined) reader.skip(tag & 7);
    else if (field.map) readEntry(expectMessage(reader, tag, field), field, result, depth);
    else if (isScalar(field.type)) readScalar(reader, tag & 7, field, field.type, result);
    else readMessage(expectMessage(reader, tag, field), field, result, depth);
  }
}

const isScalar = (type: FieldDescriptor['type']): type is ScalarType =>
  type === 'string' || type === 'bool' || type === 'int32' || type === 'int64' || type === 'bytes' || type === 'double';

function expectMessage(reader: Reader, tag: number, { name }: FieldDescriptor): Reader {
  if ((tag & 7) !== 2) throw malformed(`${name} has wrong wire type ${tag & 7}`);
  return reader.part();
}

function readScalar(reader: Reader, wire: number, { name, repeated, keepsZero }: FieldDescriptor, type: ScalarType, result: Fields): void {
  if (!repeated) {
    const value = scalar(reader, wire, type);
    if (keepsZero || (value !== '' && value !== 0 && value !== false)) result[name] = value;
    return;
  }
  const list = (result[name] ??= []) as unknown[];
  if (wire !== 2 || type === 'string' || type === 'bytes') {
    list.push(scalar(reader, wire, type));
    return;
  }
  const packed = reader.part();
  while (packed.at < packed.end) {
    packed.countField();
    list.push(scalar(packed, type === 'double' ? 1 : 0, type));
  }
}

function scalar(reader: Reader, wire: number, type: ScalarType): string | number | boolean {
  const expected = type === 'string' || type === 'bytes' ? 2 : type === 'double' ? 1 : 0;
  if (wire !== expected) throw malformed(`field of type ${type} has wrong wire type ${wire}`);
  switch (type) {
    case 'string':
      return reader.text('utf8');
    case 'bytes':
      return reader.text('base64');
    case 'bool':
      return reader.varint() !== 0;
    case 'double':
      return reader.double();
    case 'int32':
      return reader.varint() | 0;
    case 'int64':
      return reader.varint();
  }
}

function readEntry(entry: Reader, field: FieldDescriptor, result: Fields, depth: number): void {
  const { name, type } = field;
  let key = '';
  let value: unknown;
  let found = false;
  while (entry.at < entry.end) {
    const tag = entry.small();
    if (tag >> 3 === 1) key = entry.text('utf8');
    else if (tag >> 3 !== 2) entry.skip(tag & 7);
    else {
      found = true;
      value = isScalar(type) ? scalar(entry, tag & 7, type) : valueOf(expectMessage(entry, tag, field), field, depth + 1);
    }
  }
  if (!found) value = type === 'string' || type === 'bytes' ? '' : valueOf(entry.empty(), field, depth + 1);
  if (key === '__proto__') throw badRequest('the key "__proto__" is not supported');
  // an unset time in a map is null
  ((result[name] ??= {}) as Fields)[key] = value ?? null;
}

function readMessage(part: Reader, field: FieldDescriptor, result: Fields, depth: number): void {
  const { name, repeated, inline } = field;
  if (inline) {
    readInto(result, part, field.message(), depth + 1);
    return;
  }
  const value = valueOf(part, field, depth + 1);
  if (repeated) ((result[name] ??= []) as unknown[]).push(value);
  else if (value !== undefined) result[name] = value;
}

/** Returns the JSON form of a field's message: an object for most messages, a single value for some. */
function valueOf(part: Reader, field: FieldDescriptor, depth: number): unknown {
  const { type } = field;
  switch (type) {
    case 'message':
      return read(part, field.message(), depth);
    case 'Quantity':
      return read(part, field.message(), depth)['string'] ?? '0';
    case 'Time':
      return part.at === part.end ? undefined : `${timeOf(part, field, depth).slice(0, 19)}Z`;
    case 'MicroTime':
      return part.at === part.end ? undefined : timeOf(part, field, depth);
    case 'IntOrString': {
      const { type: kind = 0, intVal = 0, strVal = '' } = read(part, field.message(), depth);
      return kind === 0 ? intVal : strVal;
    }
    case 'FieldsV1':
    case 'RawExtension':
    case 'JSON':
      return json(part, depth);
    case 'ExtraValue':
    case 'Verbs':
      return read(part, field.message(), depth)['items'] ?? [];
    case 'JSONSchemaPropsOrBool':
      return either(read(part, field.message(), depth), 'allows', false);
    case 'JSONSchemaPropsOrArray':
      return either(read(part, field.message(), depth), 'jSONSchemas', []);
    case 'JSONSchemaPropsOrStringArray':
      return either(read(part, field.message(), depth), 'property', []);
    default:
      throw new Error(`${type} is not a message`);
  }
}

const either = ({ schema, ...rest }: Fields, other: string, empty: unknown): unknown => schema ?? rest[other] ?? empty;

/** Returns the JSON form of a time with microseconds. */
function timeOf(part: Reader, field: FieldDescriptor, depth: number): string {
  const { seconds = 0, nanos = 0 } = read(part, field.message(), depth) as { readonly seconds?: number; readonly nanos?: number };
  const time = new Date(seconds * 1000);
  if (Number.isNaN(time.getTime())) throw malformed('time out of range');
  return `${time.toISOString().slice(0, 19)}.${String(Math.trunc(nanos / 1000)).padStart(6, '0')}Z`;
}

/** Returns the JSON form of a RawExtension, whose field 1 contains JSON, or protobuf with an envelope of its own. */
function json(part: Reader, depth: number): unknown {
  let raw: Reader | undefined;
  while (part.at < part.end) {
    const tag = part.small();
    if (tag === 0x0a) raw = part.part();
    else part.skip(tag & 7);
  }
  if (raw === undefined || raw.at === raw.end) return undefined;
  const bytes = raw.bytes.subarray(raw.at, raw.end);
  if (bytes.length >= magic.length && bytes.compare(magic, 0, magic.length, 0, magic.length) === 0)
    return decodeAt(bytes, { depth: depth + 1, fields: part.fields });
  checkValueCount(bytes);
  try {
    return JSON.parse(bytes.toString('utf8'));
  } catch (error) {
    throw malformed(`invalid JSON in raw value: ${errorText(error)}`);
  }
}
