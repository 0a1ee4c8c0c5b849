import { parseExact, stringifyExact } from '@oarlock/api/exact-json';
import { schemaOf } from '@oarlock/api/schema';
import { encodeObject } from '@oarlock/api/serializer';
import type { Status } from '@oarlock/api/status';
import type { KubeObject, ListMeta } from '@oarlock/api/object';
import { apiVersionOf, type Resource } from '@oarlock/api/resource';
import { formatTraceparent } from '@oarlock/kernel/tracing';
import type { Accepted } from './negotiation.ts';
import { errorLine } from './negotiation-error-line.ts';
import { notAcceptable, protobufType } from './negotiation.ts';
import { ProtobufEncoding, ProtobufMetadataEncoding } from './negotiation-protobuf-encoding.ts';
import { loadedCodec } from './negotiation-protobuf-codec.ts';
import { toYaml, YamlEncoding } from './negotiation-yaml.ts';
import type { Encoded, WatchFrame } from './response.ts';
import { TableEncoder, type IncludeObject } from './table/encoder.ts';
import { metadataJson, metaVersion } from './table/metadata.ts';

const lineBreak = Buffer.from('\n');
const comma = Buffer.from(',');
const commaBrace = Buffer.from(',{');
const brace = Buffer.from('{');

/** Takes the bytes of a list one after the other. */
export interface Sink {
  add(bytes: Buffer): void;
}

/** How one request wants what it asked for. */
export interface Encoding {
  readonly contentType: string;
  /** Of watches. */
  readonly streamType: string;
  item(item: Encoded): Buffer;
  /** What an item takes in a list, where the head of a list says how long it is. */
  readonly itemLength?: (item: Encoded) => number;
  /** `length` is that of all items. */
  listHead(metadata: ListMeta, length: number): Buffer;
  listItem(item: Encoded, first: boolean, sink: Sink): void;
  listTail(metadata: ListMeta): Buffer;
  /** One line of a watch, or what stands for it. */
  frame(frame: WatchFrame): Buffer;
  /** The end of a watch that fails. */
  error(status: Status): Buffer;
}

export interface EncodingOptions {
  readonly includeObject: IncludeObject;
  readonly now: () => number;
}

/** @throws StatusError `NotAcceptable` when the asked for shape is not one of this kind of answer */
export function encodingOf(
  accepted: Accepted,
  answer: 'object' | 'list' | 'watch',
  resource: Resource,
  options: EncodingOptions,
): Encoding {
  if (accepted.as === 'PartialObjectMetadata' && answer === 'list')
    throw notAcceptable(['application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1', 'application/json']);
  if (accepted.as === 'PartialObjectMetadataList' && answer !== 'list')
    throw notAcceptable(['application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1', 'application/json']);
  const codec = accepted.format === 'protobuf' ? loadedCodec() : undefined;
  if (codec !== undefined) {
    if (accepted.as !== undefined) return new ProtobufMetadataEncoding(codec, accepted.version);
    if (codec.knows(apiVersionOf(resource), resource.kind)) return new ProtobufEncoding(codec, resource);
  }
  if (accepted.as === 'Table') return inFormat(accepted, answer, new TableEncoder(resource, accepted.version, options));
  return inFormat(accepted, answer, accepted.as === undefined ? plainEncodingOf(resource) : new MetadataEncoding(accepted.version));
}

/** YAML and indented JSON are made out of the compact one: nobody asks for them often. Watches are never indented. */
function inFormat(accepted: Accepted, answer: 'object' | 'list' | 'watch', encoding: Encoding): Encoding {
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

/** Objects as they are: the bytes that were encoded once. */
class PlainEncoding implements Encoding {
  readonly contentType = 'application/json';
  readonly streamType = 'application/json';
  readonly #isTyped: boolean;
  readonly #opening: Buffer;
  readonly #head: (metadata: ListMeta) => string;
  #last: { readonly begins: Buffer; readonly untyped: Buffer | undefined } | undefined;

  constructor(resource: Resource) {
    const apiVersion = apiVersionOf(resource);
    this.#isTyped = schemaOf(resource) !== undefined;
    this.#opening = Buffer.from(`{"kind":${JSON.stringify(resource.kind)},"apiVersion":${JSON.stringify(apiVersion)},`);
    // lists of kinds without a type always say where they go on
    this.#head = (metadata) =>
      `{"kind":${JSON.stringify(`${resource.kind}List`)},"apiVersion":${JSON.stringify(apiVersion)},"metadata":${JSON.stringify(this.#isTyped ? metadata : { continue: '', ...metadata })},"items":[`;
  }

  item(item: Encoded): Buffer {
    return item.json('', '\n');
  }
  listHead(metadata: ListMeta): Buffer {
    return Buffer.from(this.#head(metadata));
  }

  /** Items of a typed list do not repeat its kind; those of kinds without a type do. */
  listItem(item: Encoded, first: boolean, sink: Sink): void {
    const [begins, ...rest] = item.pieces();
    if (begins === undefined) return;
    const untyped = this.#isTyped ? this.#withoutType(begins) : undefined;
    if (untyped === undefined) {
      if (!first) sink.add(comma);
      sink.add(begins);
    } else {
      sink.add(first ? brace : commaBrace);
      sink.add(untyped);
    }
    for (const piece of rest) sink.add(piece);
  }

  /** What follows the kind, when it begins with that. Of stored objects it is always the same buffer. */
  #withoutType(begins: Buffer): Buffer | undefined {
    if (begins === this.#last?.begins) return this.#last.untyped;
    const opening = this.#opening;
    const typed = begins.length > opening.length && opening.compare(begins, 0, opening.length) === 0;
    const untyped = typed ? begins.subarray(opening.length) : undefined;
    this.#last = { begins, untyped };
    return untyped;
  }

  listTail(_metadata: ListMeta): Buffer {
    return Buffer.from(']}\n');
  }
  frame(frame: WatchFrame): Buffer {
    return frame.json();
  }
  error(status: Status): Buffer {
    return errorLine(status);
  }
}

/** `PartialObjectMetadata` and lists of it. */
class MetadataEncoding implements Encoding {
  readonly contentType = 'application/json';
  readonly streamType = 'application/json';
  readonly #version: Accepted['version'];
  constructor(version: Accepted['version']) {
    this.#version = version;
  }

  item(item: Encoded): Buffer {
    return Buffer.concat([metadataJson(item, this.#version), lineBreak]);
  }
  listHead(metadata: ListMeta): Buffer {
    return Buffer.from(
      `{"kind":"PartialObjectMetadataList","apiVersion":"${metaVersion(this.#version)}","metadata":${JSON.stringify(metadata)},"items":[`,
    );
  }
  listItem(item: Encoded, first: boolean, sink: Sink): void {
    if (!first) sink.add(comma);
    sink.add(metadataJson(item, this.#version));
  }
  listTail(_metadata: ListMeta): Buffer {
    return Buffer.from(']}\n');
  }
  frame({ type, item }: WatchFrame): Buffer {
    return Buffer.concat([Buffer.from(`{"type":"${type}","object":`), metadataJson(item, this.#version), Buffer.from('}\n')]);
  }
  error(status: Status): Buffer {
    return errorLine(status);
  }
}

class PrettyEncoding implements Encoding {
  readonly contentType = 'application/json';
  readonly streamType = 'application/json';
  readonly #inner: Encoding;
  constructor(inner: Encoding) {
    this.#inner = inner;
  }

  item(item: Encoded): Buffer {
    return prettyJson(parseExact(this.#inner.item(item).toString('utf8')));
  }
  /** The head of the compact list, indented: everything up to the opening bracket of the items. */
  listHead(metadata: ListMeta): Buffer {
    const whole = JSON.parse(
      this.#inner.listHead(metadata, 0).toString('utf8') + this.#inner.listTail(metadata).toString('utf8'),
    ) as unknown;
    const text = JSON.stringify(whole, undefined, 2);
    return Buffer.from(text.slice(0, text.lastIndexOf('[]') + 1));
  }
  listItem(item: Encoded, first: boolean, sink: Sink): void {
    const bytes: Buffer[] = [];
    this.#inner.listItem(item, true, {
      add: (part) => {
        bytes.push(part);
      },
    });
    const text = stringifyExact(parseExact(Buffer.concat(bytes).toString('utf8')), 2);
    sink.add(Buffer.from(`${first ? '' : ','}\n    ${text.replaceAll('\n', '\n    ')}`));
  }
  listTail(_metadata: ListMeta): Buffer {
    return Buffer.from('\n  ]\n}\n');
  }
  frame(frame: WatchFrame): Buffer {
    return this.#inner.frame(frame);
  }
  error(status: Status): Buffer {
    return errorLine(status);
  }
}

export function prettyJson(value: unknown): Buffer {
  return Buffer.from(`${stringifyExact(value, 2)}\n`);
}

/** An answer that is not an object of the registry: Status, discovery, the answers of extra paths. */
export function encodeValue(
  value: unknown,
  { format, pretty }: Pick<Accepted, 'format' | 'pretty'>,
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

/** Undefined where the kind of a value has no message. */
function protobufOf(value: unknown): Buffer | undefined {
  const codec = loadedCodec();
  const object = value as KubeObject;
  const { apiVersion = '', kind = '' } = object;
  if (codec === undefined || !codec.knows(apiVersion, kind)) return undefined;
  const message = codec.message(object);
  return Buffer.concat([codec.envelopeHead(apiVersion, kind, message.length), message, codec.envelopeTail]);
}

/** The same line with the cause of the event in it, for clients that ask for it. */
export function withCause(line: Buffer, { cause }: WatchFrame): readonly Buffer[] {
  // a line ends with a brace and a line break
  return cause === undefined ? [line] : [line.subarray(0, -2), Buffer.from(`,"cause":"${formatTraceparent(cause)}"}\n`)];
}
