import { failure, type StatusError } from '@oarlock/api/status';

/** The transformation of an object before it is encoded (the parameter `as` in an Accept header). */
export type TransformKind = 'Table' | 'PartialObjectMetadata' | 'PartialObjectMetadataList';

/** The format and the transformation that a client accepts. Requests with equal Accept headers share one object. */
export interface NegotiatedFormat {
  readonly format: 'json' | 'yaml' | 'protobuf';
  readonly transform: TransformKind | undefined;
  /** The version of meta.k8s.io of the transformed object. */
  readonly version: 'v1' | 'v1beta1';
  readonly pretty: boolean;
}

/**
 * The forms that an endpoint offers in addition to JSON and YAML. `objects`: protobuf and tables. `reviews`: protobuf, for resources that only
 * support create. `metadata`: protobuf of the metadata, and tables, for custom resources. `nothing`: no other form.
 */
export type OfferedForms = 'objects' | 'reviews' | 'metadata' | 'nothing';

/** The media type of Kubernetes protobuf, in requests and responses. */
export const protobufType = 'application/vnd.kubernetes.protobuf';

interface Clause {
  readonly type: string;
  readonly subtype: string;
  readonly parameters: ReadonlyMap<string, string>;
  readonly quality: number;
}

const plainJson: NegotiatedFormat = { format: 'json', transform: undefined, version: 'v1', pretty: false };
const mediaTypes: Readonly<Record<OfferedForms, readonly string[]>> = {
  objects: ['application/json', 'application/yaml', protobufType],
  reviews: ['application/json', 'application/yaml', protobufType],
  metadata: ['application/json', 'application/yaml', protobufType],
  nothing: ['application/json', 'application/yaml'],
};
const transformKinds: ReadonlySet<string> = new Set<TransformKind>(['Table', 'PartialObjectMetadata', 'PartialObjectMetadataList']);
const maxParsedHeaders = 512;
const maxHeaderLength = 4096;
const parsedHeaders: Readonly<Record<OfferedForms, Map<string, NegotiatedFormat | null>>> = {
  objects: new Map(),
  reviews: new Map(),
  metadata: new Map(),
  nothing: new Map(),
};

/**
 * Returns the response format for an Accept header: the offered form that the client prefers most. Tables are never encoded as protobuf.
 * @throws StatusError `NotAcceptable` if the client accepts no offered form
 */
export function negotiateAccept(accept: string | undefined, offer: OfferedForms = 'nothing'): NegotiatedFormat {
  if (accept === undefined || accept === '' || accept === '*/*' || accept === 'application/json') return plainJson;
  const known = parsedHeaders[offer];
  let chosen = known.get(accept);
  if (chosen === undefined) {
    chosen = chooseClause(parseAccept(accept), offer);
    if (known.size >= maxParsedHeaders) known.clear();
    known.set(accept, chosen);
  }
  if (chosen === null) throw notAcceptable(mediaTypes[offer]);
  return chosen;
}

/** Returns the error for a watch in a format that cannot separate events. */
export const streamNotAcceptable = (offer: OfferedForms): StatusError =>
  notAcceptable(mediaTypes[offer].filter((type) => type !== 'application/yaml').map((type) => `${type};stream=watch`));

export const notAcceptable = (types: readonly string[]): StatusError =>
  failure('NotAcceptable', `only the following media types are accepted: ${types.join(', ')}`);

function chooseClause(clauses: readonly Clause[], offer: OfferedForms): NegotiatedFormat | null {
  for (const clause of clauses) {
    const format = formatOf(clause, offer);
    const transform = format && transformOf(clause.parameters);
    if (
      format !== undefined &&
      transform !== undefined &&
      streams(format, clause.parameters) &&
      isOffered(format, transform.transform, offer)
    ) {
      return format === 'json' && transform.transform === undefined && !transform.pretty ? plainJson : { format, ...transform };
    }
  }
  return null;
}

function formatOf({ type, subtype }: Clause, offer: OfferedForms): NegotiatedFormat['format'] | undefined {
  if (type === '*' && subtype === '*') return 'json';
  if (type !== 'application') return undefined;
  if (subtype === 'json' || subtype === '*') return 'json';
  if (subtype === 'vnd.kubernetes.protobuf' && offer !== 'nothing') return 'protobuf';
  return subtype === 'yaml' ? 'yaml' : undefined;
}

/** Returns true if the parameters of an Accept clause are valid for streams: only `stream=watch` exists, and YAML cannot separate events. */
function streams(format: NegotiatedFormat['format'], parameters: ReadonlyMap<string, string>): boolean {
  const stream = parameters.get('stream') ?? '';
  return stream === '' || (stream === 'watch' && format !== 'yaml');
}

function isOffered(format: NegotiatedFormat['format'], as: TransformKind | undefined, offer: OfferedForms): boolean {
  if (as === 'Table') return format !== 'protobuf' && offer !== 'reviews';
  return format !== 'protobuf' || as !== undefined || offer !== 'metadata';
}

function transformOf(parameters: ReadonlyMap<string, string>): Omit<NegotiatedFormat, 'format'> | undefined {
  const pretty = parameters.get('pretty') === '1';
  const [as, group, version] = [parameters.get('as'), parameters.get('g'), parameters.get('v')];
  if (as === undefined && group === undefined && version === undefined) return { transform: undefined, version: 'v1', pretty };
  if (as === undefined || !transformKinds.has(as) || group !== 'meta.k8s.io' || (version !== 'v1' && version !== 'v1beta1'))
    return undefined;
  return { transform: as as TransformKind, version, pretty };
}

/**
 * Parses an Accept header into clauses by descending quality; clauses with equal quality keep their order (RFC 9110, section 12.5.1). Malformed
 * clauses are ignored.
 */
export function parseAccept(header: string): readonly Clause[] {
  const clauses: Clause[] = [];
  for (const part of header.slice(0, maxHeaderLength).split(',')) {
    const [range = '', ...rest] = part.split(';');
    const [type, subtype, ...more] = range.trim().toLowerCase().split('/');
    if (type === undefined || type === '' || subtype === undefined || subtype === '' || more.length > 0) continue;
    const parameters = new Map<string, string>();
    let quality = 1;
    for (const parameter of rest) {
      const equals = parameter.indexOf('=');
      if (equals < 0) continue;
      const name = parameter.slice(0, equals).trim().toLowerCase();
      const value = parameter
        .slice(equals + 1)
        .trim()
        .replace(/^"(.*)"$/, '$1');
      if (name === 'q') quality = Number(value);
      else parameters.set(name, value);
    }
    if (quality > 0) clauses.push({ type, subtype, parameters, quality });
  }
  return clauses.sort((a, b) => b.quality - a.quality);
}

/** Returns the media type of a Content-Type header, without parameters and in lower case; '' if there is none. */
export function mediaTypeOf(contentType: string | undefined): string {
  if (contentType === undefined) return '';
  const semicolon = contentType.indexOf(';');
  return (semicolon < 0 ? contentType : contentType.slice(0, semicolon)).trim().toLowerCase();
}

/** Returns true if an Accept-Encoding header accepts gzip. */
export function acceptsGzip(header: string | undefined): boolean {
  if (header === undefined || !header.includes('gzip')) return false;
  return header.split(',').some((part) => {
    const [name = '', ...parameters] = part.split(';').map((piece) => piece.trim().toLowerCase());
    return name === 'gzip' && !parameters.some((parameter) => /^q=0(\.0*)?$/.test(parameter));
  });
}
