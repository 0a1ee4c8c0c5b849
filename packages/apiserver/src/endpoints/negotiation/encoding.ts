import { parseExact, stringifyExact } from '@oarlock/api/json/exact-json';
import { schemaOf } from '@oarlock/api/schema/schema';
import { encodeObject } from '@oarlock/api/serializer/serializer';
import type { Status } from '@oarlock/api/status';
import type { KubeObject, ListMeta } from '@oarlock/api/object';
import { apiVersionOf, type Resource } from '@oarlock/api/resource';
import { formatTraceparent } from '@oarlock/kernel/tracing';
import type { NegotiatedFormat } from './negotiation.ts';
import { errorEventLine } from './internal/error-event.ts';
import { notAcceptable, protobufType } from './negotiation.ts';
import { ProtobufEncoding, ProtobufMetadataEncoding } from './internal/protobuf-encoding.ts';
import { loadedCodec } from './protobuf-codec.ts';
import { toYaml } from './internal/to-yaml.ts';
import { YamlEncoding } from './internal/yaml-encoding.ts';
import { CollectedBytes } from './internal/collected-bytes.ts';
import type { ByteSink, EncodedObject, WatchFrame } from '../request/response.ts';
import type { ResponseEncoding, ResponseEncodingOptions } from './response-encoding.ts';
import { TableEncoding } from './table-encoding.ts';
import { partialMetadataJson, metaApiVersion } from './internal/partial-object-metadata.ts';

const lineBreak = Buffer.from('\n');
const comma = Buffer.from(',');

/**
 * Returns the encoding of a response.
 * @throws StatusError `NotAcceptable` if the negotiated transformation, such as Table, does not apply to this kind of response
 */
export function encodingFor(
  accepted: NegotiatedFormat,
  responseKind: 'object' | 'list' | 'watch',
  resource: Resource,
  options: ResponseEncodingOptions,
): ResponseEncoding {
  if (accepted.transform === 'PartialObjectMetadata' && responseKind === 'list')
    throw notAcceptable(['application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1', 'application/json']);
  if (accepted.transform === 'PartialObjectMetadataList' && responseKind !== 'list')
    throw notAcceptable(['application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1', 'application/json']);
  const codec = accepted.format === 'protobuf' ? loadedCodec() : undefined;
  if (codec !== undefined) {
    if (accepted.transform !== undefined) return new ProtobufMetadataEncoding(codec, accepted.version);
    if (codec.knows(apiVersionOf(resource), resource.kind)) return new ProtobufEncoding(codec, resource);
  }
  if (accepted.transform === 'Table')
    return inNegotiatedFormat(accepted, responseKind, new TableEncoding(resource, accepted.version, options));
  return inNegotiatedFormat(
    accepted,
    responseKind,
    accepted.transform === undefined ? plainEncodingOf(resource) : new MetadataEncoding(accepted.version),
  );
}

/** Returns an encoding that converts the compact JSON of another encoding to YAML or indented JSON, which are rare. Watches are never indented. */
function inNegotiatedFormat(accepted: NegotiatedFormat, answer: 'object' | 'list' | 'watch', encoding: ResponseEncoding): ResponseEncoding {
  if (answer === 'watch') return encoding;
  if (accepted.format === 'yaml') return new YamlEncoding(encoding);
  return accepted.pretty ? new PrettyEncoding(encoding) : encoding;
}

const plainEncodings = new WeakMap<Resource, PlainEncoding>();
function plainEncodingOf(resource: Resource): PlainEncoding {
  let encoding = plainEncodings.get(resource);
  if (encoding === undefined) {
    encoding = new PlainEncoding(resource);
    plainEncodings.set(resource, encoding);
  }
  return encoding;
}

/** Encodes objects without transformation. The bytes of an object are encoded once per version of the object. */
class PlainEncoding implements ResponseEncoding {
  readonly contentType = 'application/json';
  readonly streamType = 'application/json';
  /** The type metadata that the items of a list omit; undefined for resources without registered type, whose items include it. */
  readonly #typeMeta: Buffer | undefined;
  readonly #head: (metadata: ListMeta) => string;

  constructor(resource: Resource) {
    const apiVersion = apiVersionOf(resource);
    const isTyped = schemaOf(resource) !== undefined;
    if (isTyped) this.#typeMeta = Buffer.from(`{"kind":${JSON.stringify(resource.kind)},"apiVersion":${JSON.stringify(apiVersion)},`);
    // lists of resources without registered type always contain `continue`
    this.#head = (metadata) =>
      `{"kind":${JSON.stringify(`${resource.kind}List`)},"apiVersion":${JSON.stringify(apiVersion)},"metadata":${JSON.stringify(isTyped ? metadata : { continue: '', ...metadata })},"items":[`;
  }

  item(item: EncodedObject): Buffer {
    return item.json('', '\n');
  }
  listHead(metadata: ListMeta): Buffer {
    return Buffer.from(this.#head(metadata));
  }

  listItem(item: EncodedObject, first: boolean, sink: ByteSink): void {
    if (!first) sink.add(comma);
    item.writeJson(sink, this.#typeMeta);
  }
  listTail(_metadata: ListMeta): Buffer {
    return Buffer.from(']}\n');
  }
  frame(frame: WatchFrame): Buffer {
    return frame.json();
  }
  error(status: Status): Buffer {
    return errorEventLine(status);
  }
}

/** Encodes objects as `PartialObjectMetadata` and lists as `PartialObjectMetadataList`. */
class MetadataEncoding implements ResponseEncoding {
  readonly contentType = 'application/json';
  readonly streamType = 'application/json';
  readonly #version: NegotiatedFormat['version'];
  constructor(version: NegotiatedFormat['version']) {
    this.#version = version;
  }

  item(item: EncodedObject): Buffer {
    return Buffer.concat([partialMetadataJson(item, this.#version), lineBreak]);
  }
  listHead(metadata: ListMeta): Buffer {
    return Buffer.from(
      `{"kind":"PartialObjectMetadataList","apiVersion":"${metaApiVersion(this.#version)}","metadata":${JSON.stringify(metadata)},"items":[`,
    );
  }
  listItem(item: EncodedObject, first: boolean, sink: ByteSink): void {
    if (!first) sink.add(comma);
    sink.add(partialMetadataJson(item, this.#version));
  }
  listTail(_metadata: ListMeta): Buffer {
    return Buffer.from(']}\n');
  }
  frame({ type, item }: WatchFrame): Buffer {
    return Buffer.concat([Buffer.from(`{"type":"${type}","object":`), partialMetadataJson(item, this.#version), Buffer.from('}\n')]);
  }
  error(status: Status): Buffer {
    return errorEventLine(status);
  }
}

class PrettyEncoding implements ResponseEncoding {
  readonly contentType = 'application/json';
  readonly streamType = 'application/json';
  readonly #inner: ResponseEncoding;
  #hasItems = false;
  constructor(inner: ResponseEncoding) {
    this.#inner = inner;
  }

  item(item: EncodedObject): Buffer {
    return prettyJson(parseExact(this.#inner.item(item).toString('utf8')));
  }
  /** Returns the indented JSON of a list up to the opening bracket of the items. */
  listHead(metadata: ListMeta): Buffer {
    const whole = JSON.parse(
      this.#inner.listHead(metadata, 0).toString('utf8') + this.#inner.listTail(metadata).toString('utf8'),
    ) as unknown;
    const text = JSON.stringify(whole, undefined, 2);
    return Buffer.from(text.slice(0, text.lastIndexOf('[]') + 1));
  }
  listItem(item: EncodedObject, first: boolean, sink: ByteSink): void {
    const bytes = new CollectedBytes();
    this.#inner.listItem(item, true, bytes);
    const text = stringifyExact(parseExact(bytes.text), 2);
    this.#hasItems = true;
    sink.add(Buffer.from(`${first ? '' : ','}\n    ${text.replaceAll('\n', '\n    ')}`));
  }
  listTail(_metadata: ListMeta): Buffer {
    return Buffer.from(this.#hasItems ? '\n  ]\n}' : ']\n}');
  }
  frame(frame: WatchFrame): Buffer {
    return this.#inner.frame(frame);
  }
  error(status: Status): Buffer {
    return errorEventLine(status);
  }
}

/** Returns indented JSON, which as upstream does not end with a line break. */
export function prettyJson(value: unknown): Buffer {
  return Buffer.from(stringifyExact(value, 2));
}

/** Encodes a response that is not an object of the registry, such as a Status, discovery, or the response of a path handler. */
export function encodeValue(
  value: unknown,
  { format, pretty }: Pick<NegotiatedFormat, 'format' | 'pretty'>,
): { readonly contentType: string; readonly body: string | Buffer } {
  if (format === 'yaml') return { contentType: 'application/yaml', body: toYaml(value) };
  const binary = format === 'protobuf' ? protobufOf(value) : undefined;
  if (binary !== undefined) return { contentType: protobufType, body: binary };
  if (pretty) return { contentType: 'application/json', body: prettyJson(value) };
  return {
    contentType: 'application/json',
    body: `${typeof value === 'object' && value !== null && !Array.isArray(value) ? encodeObject(value) : JSON.stringify(value)}\n`,
  };
}

/** Returns the protobuf message of a value; undefined if the kind of the value has no protobuf message. */
function protobufOf(value: unknown): Buffer | undefined {
  const codec = loadedCodec();
  const object = value as KubeObject;
  const { apiVersion = '', kind = '' } = object;
  if (codec === undefined || !codec.knows(apiVersion, kind)) return undefined;
  const message = codec.message(object);
  return Buffer.concat([codec.envelopeHead(apiVersion, kind, message.length), message, codec.envelopeTail]);
}

/** Returns the line of a JSON watch event with the span context of the event, for clients that request it. */
export function withSpanContext(line: Buffer, { spanContext }: WatchFrame): readonly Buffer[] {
  // a line ends with a brace and a line break
  return spanContext === undefined ? [line] : [line.subarray(0, -2), Buffer.from(`,"cause":"${formatTraceparent(spanContext)}"}\n`)];
}
