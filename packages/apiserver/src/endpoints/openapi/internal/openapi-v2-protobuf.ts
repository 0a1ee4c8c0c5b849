import type { OpenApiPart } from '../openapi-document.ts';

/**
 * The type of a value in the messages of gnostic's openapi.v2 package, in which clients older than OpenAPI v3 request OpenAPI v2. Only the members
 * that the documents of this server contain are supported.
 */
type Type = 'string' | 'bool' | 'int64' | 'double' | 'any' | Message;
interface Field {
  readonly number: number;
  readonly type: Type;
  readonly repeated?: boolean;
}
interface Message {
  /** The protobuf fields by JSON member name. */
  readonly fields: Readonly<Record<string, Field>>;
  /** The field number of `x-` extensions; absent if the message has none. */
  readonly extensions?: number;
  /** The field number of the repeated named values that encode a JSON map; absent for other messages. */
  readonly named?: { readonly number: number; readonly type: Type };
}

const field = (number: number, type: Type, repeated = false): Field => ({ number, type, repeated });
const text = (number: number) => field(number, 'string');

const schema: { -readonly [K in keyof Message]: Message[K] } & { fields: Record<string, Field> } = { fields: {}, extensions: 31 };
const typeItem: Message = { fields: { value: field(1, 'string', true) } };
const itemsItem: Message = { fields: { schema: field(1, schema, true) } };
const additionalItem: Message = { fields: { schema: field(1, schema), boolean: field(2, 'bool') } };
const named = (type: Type): Message => ({ fields: {}, named: { number: 1, type } });
Object.assign(schema.fields, {
  $ref: text(1),
  format: text(2),
  title: text(3),
  description: text(4),
  default: field(5, 'any'),
  multipleOf: field(6, 'double'),
  maximum: field(7, 'double'),
  exclusiveMaximum: field(8, 'bool'),
  minimum: field(9, 'double'),
  exclusiveMinimum: field(10, 'bool'),
  maxLength: field(11, 'int64'),
  minLength: field(12, 'int64'),
  pattern: text(13),
  maxItems: field(14, 'int64'),
  minItems: field(15, 'int64'),
  uniqueItems: field(16, 'bool'),
  maxProperties: field(17, 'int64'),
  minProperties: field(18, 'int64'),
  required: field(19, 'string', true),
  enum: field(20, 'any', true),
  additionalProperties: field(21, additionalItem),
  type: field(22, typeItem),
  items: field(23, itemsItem),
  allOf: field(24, schema, true),
  properties: field(25, named(schema)),
  externalDocs: field(29, { fields: { description: text(1), url: text(2) } }),
  example: field(30, 'any'),
});

const schemaItem: Message = { fields: { schema: field(1, schema) } };
const response: Message = { fields: { description: text(1), schema: field(2, schemaItem) }, extensions: 5 };
const responses: Message = { fields: {}, extensions: 2, named: { number: 1, type: { fields: { response: field(1, response) } } } };
const bodyParameter: Message = {
  fields: { description: text(1), name: text(2), in: text(3), required: field(4, 'bool'), schema: field(5, schema) },
  extensions: 6,
};
const plainParameter = (type: number, unique: number): Message => ({
  fields: {
    required: field(1, 'bool'),
    in: text(2),
    description: text(3),
    name: text(4),
    type: text(type),
    uniqueItems: field(unique, 'bool'),
  },
});
const nonBodyParameter: Message = { fields: { query: field(3, plainParameter(6, 20)), path: field(4, plainParameter(5, 19)) } };
/** A parameter, either in the body or elsewhere. */
const parameter: Message = { fields: { body: field(1, bodyParameter), nonBody: field(2, nonBodyParameter) } };
const parameterReference: Message = { fields: { $ref: text(1), description: text(2) } };
/** A parameter of a path or an operation: the parameter itself, or a reference to a shared parameter. */
const parameterItem: Message = { fields: { parameter: field(1, parameter), reference: field(2, parameterReference) } };
const operation: Message = {
  fields: {
    tags: field(1, 'string', true),
    description: text(3),
    operationId: text(5),
    produces: field(6, 'string', true),
    consumes: field(7, 'string', true),
    parameters: field(8, parameterItem, true),
    responses: field(9, responses),
    schemes: field(10, 'string', true),
  },
  extensions: 13,
};
const pathItem: Message = {
  fields: {
    get: field(2, operation),
    put: field(3, operation),
    post: field(4, operation),
    delete: field(5, operation),
    options: field(6, operation),
    head: field(7, operation),
    patch: field(8, operation),
    parameters: field(9, parameterItem, true),
  },
  extensions: 10,
};
const apiKey: Message = { fields: { type: text(1), name: text(2), in: text(3), description: text(4) } };
const document: Message = {
  fields: {
    swagger: text(1),
    info: field(2, { fields: { title: text(1), version: text(2) } }),
    paths: field(8, { fields: {}, named: { number: 2, type: pathItem } }),
    definitions: field(9, named(schema)),
    parameters: field(10, named(parameter)),
    security: field(12, named(typeItem), true),
    securityDefinitions: field(13, named({ fields: { apiKey: field(2, apiKey) } })),
  },
};

/** Yields the protobuf encoding of a document part by part. Protobuf decoders merge repeated occurrences of a message. */
export function* protobufOf(parts: Iterable<OpenApiPart>): Generator<Buffer> {
  for (const part of parts) {
    switch (part.kind) {
      case 'head':
        yield encode(document, part.value);
        break;
      case 'path':
        yield encode(document, { paths: { [part.name]: part.value } });
        break;
      case 'definition':
        yield encode(document, { definitions: { [part.name]: part.value } });
        break;
      case 'tail': {
        const { parameters, securityDefinitions, security } = part.value as {
          readonly parameters: unknown;
          readonly securityDefinitions: Readonly<Record<string, unknown>>;
          readonly security: unknown;
        };
        yield encode(document, {
          parameters,
          securityDefinitions: Object.fromEntries(Object.entries(securityDefinitions).map(([name, value]) => [name, { apiKey: value }])),
          security,
        });
      }
    }
  }
}

type Value = Readonly<Record<string, unknown>>;

function encode(message: Message, value: Value): Buffer {
  const chunks: Buffer[] = [];
  for (const [key, member] of Object.entries(value)) {
    if (member === undefined) continue;
    const known = message.fields[key];
    if (known !== undefined) put(chunks, known, member);
    else if (message.extensions !== undefined && key.startsWith('x-'))
      chunks.push(delimited(message.extensions, namedValue(key, 'any', member)));
    else if (message.named !== undefined) chunks.push(delimited(message.named.number, namedValue(key, message.named.type, member)));
    else throw new Error(`OpenAPI has no protobuf field for ${key}`);
  }
  return Buffer.concat(chunks);
}

function put(chunks: Buffer[], { number, type, repeated = false }: Field, value: unknown): void {
  if (repeated && Array.isArray(value)) for (const item of value as unknown[]) chunks.push(single(number, type, shape(type, item)));
  else chunks.push(single(number, type, shape(type, value)));
}

/**
 * Returns the value in the structure of its protobuf message, for types whose variants JSON expresses by type or position and protobuf by a wrapper
 * message.
 */
function shape(type: Type, value: unknown): unknown {
  if (type === parameterItem) return (value as Value)['$ref'] === undefined ? { parameter: value } : { reference: value };
  if (type === parameter) {
    const { in: place } = value as { readonly in: 'body' | 'query' | 'path' };
    return place === 'body' ? { body: value } : { nonBody: { [place]: value } };
  }
  if (type === additionalItem && typeof value === 'boolean') return { boolean: value };
  if (type === typeItem) return { value: Array.isArray(value) ? value : [value] };
  if (type === schemaItem || type === itemsItem || type === additionalItem) return { schema: value };
  return value;
}

function single(number: number, type: Type, value: unknown): Buffer {
  switch (type) {
    case 'string':
      return delimited(number, Buffer.from(String(value)));
    case 'bool':
      return Buffer.from([...varint(number << 3), value === true ? 1 : 0]);
    case 'int64':
      return Buffer.from([...varint(number << 3), ...varint(Number(value))]);
    case 'double': {
      const bytes = Buffer.alloc(8);
      bytes.writeDoubleLE(Number(value));
      return Buffer.concat([Buffer.from(varint((number << 3) | 1)), bytes]);
    }
    case 'any':
      return delimited(number, any(value));
    default:
      return delimited(number, encode(type, value as Value));
  }
}

function namedValue(name: string, type: Type, value: unknown): Buffer {
  const wrapped = typeof type === 'object' && type.fields['response'] !== undefined ? { response: value } : shape(type, value);
  return Buffer.concat([delimited(1, Buffer.from(name)), single(2, type, wrapped)]);
}

/** Encodes an untyped value as YAML. The text is JSON, which is a subset of YAML. */
const any = (value: unknown): Buffer => delimited(2, Buffer.from(`${JSON.stringify(value)}\n`));

function delimited(number: number, bytes: Buffer): Buffer {
  return Buffer.concat([Buffer.from([...varint((number << 3) | 2), ...varint(bytes.length)]), bytes]);
}

function varint(value: number): number[] {
  const bytes: number[] = [];
  let rest = value;
  for (; rest > 127; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128);
  bytes.push(rest);
  return bytes;
}
