import { protobufTable } from '@oarlock/api/generated/protobuf-table';
import { parseApiVersion } from '@oarlock/api/kinds';
import type { KubeObject } from '@oarlock/api/object';
import { badRequest } from '@oarlock/api/status';
import { pointersOf } from './negotiation-protobuf-pointers.ts';

/**
 * Bodies in Kubernetes' protobuf, which typed clients of Go send: four bytes that say so, then a `runtime.Unknown` with the kind and
 * the object's message. They are read into what the same object is as JSON, and go on from there as if they had been JSON.
 */
const magic = Buffer.from('k8s\0');
const maxDepth = 100;
const metaPackage = 'k8s.io.apimachinery.pkg.apis.meta.v1';
const runtimePackage = 'k8s.io.apimachinery.pkg.runtime';
const packages: Readonly<Record<string, string>> = {
  '': 'k8s.io.api.core',
  'apiextensions.k8s.io': 'k8s.io.apiextensions_apiserver.pkg.apis.apiextensions',
  'apiregistration.k8s.io': 'k8s.io.kube_aggregator.pkg.apis.apiregistration',
  'internal.apiserver.k8s.io': 'k8s.io.api.apiserverinternal',
};

type Scalar = 'string' | 'bool' | 'int32' | 'int64' | 'bytes' | 'double';
interface Field {
  readonly name: string;
  readonly type: string;
  readonly repeated: boolean;
  readonly inline: boolean;
  readonly pointer: boolean;
  readonly map: boolean;
}
type Message = ReadonlyMap<number, Field>;
type Fields = Record<string, unknown>;

const scalars: ReadonlySet<string> = new Set<Scalar>(['string', 'bool', 'int32', 'int64', 'bytes', 'double']);
const malformed = (why: string) => badRequest(`the object provided is unrecognized: protobuf: ${why}`);

/** @throws StatusError `BadRequest` */
export function decodeProtobuf(body: Buffer): KubeObject {
  if (body.length < magic.length || magic.compare(body, 0, magic.length) !== 0) throw malformed('the body does not begin with its mark');
  const unknown = read(new Reader(body.subarray(magic.length)), `${runtimePackage}.Unknown`, 0) as {
    readonly typeMeta?: { readonly apiVersion?: string; readonly kind?: string };
    readonly raw?: string;
  };
  const { apiVersion = '', kind = '' } = unknown.typeMeta ?? {};
  const name = messageOf(apiVersion, kind);
  if (name === undefined) throw malformed(`no kind ${JSON.stringify(kind)} is known for version ${JSON.stringify(apiVersion)}`);
  return { kind, apiVersion, ...read(new Reader(Buffer.from(unknown.raw ?? '', 'base64')), name, 0) };
}

/** The message of a kind; those of apimachinery are every group's. */
function messageOf(apiVersion: string, kind: string): string | undefined {
  const { group, version } = parseApiVersion(apiVersion);
  const own = `${Object.hasOwn(packages, group) ? packages[group] : `k8s.io.api.${group.split('.')[0]}`}.${version}.${kind}`;
  return [own, `${metaPackage}.${kind}`].find((name) => fieldsOf(name) !== undefined);
}

const messages = new Map<string, Message>();
const parsed = new Map<string, Readonly<Record<string, Readonly<Record<string, string>>>>>();

function fieldsOf(name: string): Message | undefined {
  const known = messages.get(name);
  if (known !== undefined) return known;
  const dot = name.lastIndexOf('.');
  const [pkg, message] = [name.slice(0, dot), name.slice(dot + 1)];
  let table = parsed.get(pkg);
  if (table === undefined) {
    const text = Object.hasOwn(protobufTable, pkg) ? protobufTable[pkg] : undefined;
    if (text === undefined) return undefined;
    table = JSON.parse(text) as Readonly<Record<string, Readonly<Record<string, string>>>>;
    parsed.set(pkg, table);
  }
  const row = Object.hasOwn(table, message) ? table[message] : undefined;
  if (row === undefined) return undefined;
  const pointers = pointersOf(message);
  const made = new Map(Object.entries(row).map(([field, text]) => compile(field, text, pointers)));
  messages.set(name, made);
  return made;
}

/** `7 repeated k8s.io.api.core.v1.EnvVar` */
function compile(field: string, text: string, pointers: ReadonlySet<string>): readonly [number, Field] {
  const [number = '', ...words] = text.split(' ');
  const inline = words.at(-1) === 'inline';
  const repeated = words[0] === 'repeated';
  const type = words.slice(repeated ? 1 : 0, inline ? -1 : undefined).join(' ');
  const entry = /^map<string,(.*)>$/.exec(type);
  return [
    Number(number),
    { name: jsonName(field), type: entry?.[1] ?? type, repeated, inline, pointer: pointers.has(field), map: entry !== null },
  ];
}

const jsonNames: Readonly<Record<string, string>> = {
  uID: 'uid',
  aPIGroup: 'apiGroup',
  Webhooks: 'webhooks',
  Expression: 'expression',
  Name: 'name',
};
/** Where JSON calls a field by another name than protobuf. */
function jsonName(field: string): string {
  if (Object.hasOwn(jsonNames, field)) return jsonNames[field] as string;
  return field.startsWith('xKubernetes') ? field.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`) : field;
}

class Reader {
  readonly bytes: Buffer;
  at = 0;
  constructor(bytes: Buffer) {
    this.bytes = bytes;
  }
  get done() {
    return this.at >= this.bytes.length;
  }

  varint(): bigint {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = this.bytes[this.at++];
      if (byte === undefined) break;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return BigInt.asIntN(64, value);
    }
    throw malformed('a number does not end');
  }

  /** A length or tag: small, unlike values. */
  small(): number {
    const value = this.varint();
    if (value < 0n || value > 0x7fff_ffffn) throw malformed('a length is out of range');
    return Number(value);
  }

  chunk(length = this.small()): Buffer {
    const end = this.at + length;
    if (end > this.bytes.length) throw malformed('the body ends early');
    const chunk = this.bytes.subarray(this.at, end);
    this.at = end;
    return chunk;
  }

  skip(wire: number): void {
    switch (wire) {
      case 0:
        this.varint();
        return;
      case 1:
        this.chunk(8);
        return;
      case 2:
        this.chunk();
        return;
      case 5:
        this.chunk(4);
        return;
      default:
        throw malformed(`wire type ${wire} is not known`);
    }
  }
}

function read(reader: Reader, name: string, depth: number): Fields {
  if (depth > maxDepth) throw malformed('it nests too deep');
  const message = fieldsOf(name);
  if (message === undefined) throw malformed(`no message ${name} is known`);
  const result: Fields = {};
  while (!reader.done) {
    const tag = reader.small();
    const wire = tag & 7;
    const field = message.get(tag >> 3);
    if (field === undefined) reader.skip(wire);
    else if (field.map) readEntry(reader.chunk(), field, result, depth);
    else if (scalars.has(field.type)) readScalar(reader, wire, field, result);
    else readMessage(reader.chunk(), field, result, depth);
  }
  return result;
}

function readScalar(reader: Reader, wire: number, { name, type, repeated, pointer }: Field, result: Fields): void {
  if (!repeated) {
    const value = scalar(reader, wire, type as Scalar);
    if (pointer || (value !== '' && value !== 0 && value !== false)) result[name] = value;
    return;
  }
  const list = (result[name] ??= []) as unknown[];
  if (wire !== 2 || type === 'string' || type === 'bytes') {
    list.push(scalar(reader, wire, type as Scalar));
    return;
  }
  const packed = new Reader(reader.chunk());
  while (!packed.done) list.push(scalar(packed, type === 'double' ? 1 : 0, type as Scalar));
}

function scalar(reader: Reader, wire: number, type: Scalar): string | number | boolean {
  const expected = type === 'string' || type === 'bytes' ? 2 : type === 'double' ? 1 : 0;
  if (wire !== expected) throw malformed(`a ${type} comes with wire type ${wire}`);
  switch (type) {
    case 'string':
      return reader.chunk().toString('utf8');
    case 'bytes':
      return reader.chunk().toString('base64');
    case 'bool':
      return reader.varint() !== 0n;
    case 'double':
      return reader.chunk(8).readDoubleLE(0);
    case 'int32':
      return Number(BigInt.asIntN(32, reader.varint()));
    case 'int64':
      return Number(reader.varint());
  }
}

function readEntry(chunk: Buffer, { name, type }: Field, result: Fields, depth: number): void {
  const entry = new Reader(chunk);
  let key = '';
  let value: unknown = scalars.has(type) ? '' : {};
  while (!entry.done) {
    const tag = entry.small();
    if (tag >> 3 === 1) key = entry.chunk().toString('utf8');
    else if (tag >> 3 === 2) value = scalars.has(type) ? scalar(entry, tag & 7, type as Scalar) : valueOf(entry.chunk(), type, depth + 1);
    else entry.skip(tag & 7);
  }
  if (key === '__proto__') throw badRequest('the key "__proto__" is not supported');
  ((result[name] ??= {}) as Fields)[key] = value;
}

function readMessage(chunk: Buffer, { name, type, repeated, inline }: Field, result: Fields, depth: number): void {
  if (inline) {
    Object.assign(result, read(new Reader(chunk), type, depth + 1));
    return;
  }
  const value = valueOf(chunk, type, depth + 1);
  if (repeated) ((result[name] ??= []) as unknown[]).push(value);
  else if (value !== undefined) result[name] = value;
}

/** What a message is as JSON: most are objects, some are one value. */
function valueOf(chunk: Buffer, type: string, depth: number): unknown {
  switch (type.slice(type.lastIndexOf('.') + 1)) {
    case 'Quantity':
      return fieldOf(chunk, type, depth, 'string') ?? '0';
    case 'Time':
      return chunk.length === 0 ? undefined : `${timeOf(chunk, type, depth).slice(0, 19)}Z`;
    case 'MicroTime':
      return chunk.length === 0 ? undefined : timeOf(chunk, type, depth);
    case 'IntOrString':
      return intOrString(chunk, type, depth);
    case 'FieldsV1':
      return json(fieldOf(chunk, type, depth, 'Raw'));
    case 'RawExtension':
    case 'JSON':
      return json(fieldOf(chunk, type, depth, 'raw'));
    case 'ExtraValue':
    case 'Verbs':
      return fieldOf(chunk, type, depth, 'items') ?? [];
    case 'JSONSchemaProps':
      return schemaNames(read(new Reader(chunk), type, depth));
    case 'JSONSchemaPropsOrBool':
      return either(chunk, type, depth, 'allows', false);
    case 'JSONSchemaPropsOrArray':
      return either(chunk, type, depth, 'jSONSchemas', []);
    case 'JSONSchemaPropsOrStringArray':
      return either(chunk, type, depth, 'property', []);
    default:
      return read(new Reader(chunk), type, depth);
  }
}

const fieldOf = (chunk: Buffer, type: string, depth: number, name: string): unknown => read(new Reader(chunk), type, depth)[name];
const either = (chunk: Buffer, type: string, depth: number, other: string, empty: unknown): unknown => {
  const { schema, [other]: value = empty } = read(new Reader(chunk), type, depth);
  return schema ?? value;
};

function schemaNames({ ref, schema, ...rest }: Fields): Fields {
  return { ...rest, ...(ref !== undefined && { $ref: ref }), ...(schema !== undefined && { $schema: schema }) };
}

/** With microseconds. */
function timeOf(chunk: Buffer, type: string, depth: number): string {
  const { seconds = 0, nanos = 0 } = read(new Reader(chunk), type, depth) as { readonly seconds?: number; readonly nanos?: number };
  const time = new Date(seconds * 1000);
  if (Number.isNaN(time.getTime())) throw malformed('a time is out of range');
  return `${time.toISOString().slice(0, 19)}.${String(Math.trunc(nanos / 1000)).padStart(6, '0')}Z`;
}

function intOrString(chunk: Buffer, type: string, depth: number): unknown {
  const { type: kind = 0, intVal = 0, strVal = '' } = read(new Reader(chunk), type, depth);
  return kind === 0 ? intVal : strVal;
}

/** Raw values are JSON in base64 by now, or protobuf of their own. */
function json(raw: unknown): unknown {
  if (typeof raw !== 'string' || raw === '') return undefined;
  const bytes = Buffer.from(raw, 'base64');
  if (bytes.length >= magic.length && magic.compare(bytes, 0, magic.length) === 0) return decodeProtobuf(bytes);
  try {
    return JSON.parse(bytes.toString('utf8'));
  } catch (error) {
    throw malformed(`a raw value is no JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
}
