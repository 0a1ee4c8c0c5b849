import { kindOf } from '@oarlock/api/kinds';
import type { Resource } from '@oarlock/api/resource';
import { badRequest, type Status, type StatusError } from '@oarlock/api/status';
import type { Clock } from '@oarlock/primitives/clock';
import type { Exchange } from './exchange.ts';
import { BodyWriter } from './internal/body-writer.ts';
import type { Query } from './path.ts';
import type { Route } from './routes.ts';
import { sendWatchResponse } from './internal/watch-response.ts';
import type { ResponseEncodingOptions } from '../endpoints/negotiation/response-encoding.ts';
import { encodeValue, encodingFor } from '../endpoints/negotiation/encoding.ts';
import { loadCodec } from '../endpoints/negotiation/protobuf-codec.ts';
import {
  acceptsGzip,
  negotiateAccept,
  streamNotAcceptable,
  type NegotiatedFormat,
  type OfferedForms,
} from '../endpoints/negotiation/negotiation.ts';
import type { PipelineResponse } from '../endpoints/request/response.ts';
import type { IncludeObject } from '../endpoints/negotiation/response-encoding.ts';

const includes: readonly IncludeObject[] = ['None', 'Metadata', 'Object'];
/** Matches the user agents of clients that show responses to people. As upstream, JSON is indented for these clients by default. */
const plainAgents = /^(?:curl|wget|mozilla\/5\.0)/i;
/** The maximum length of all warnings of one response, in characters (truncateAtTotalRunes upstream). */
const maxWarningLength = 4096;

/**
 * Returns the negotiated format of the response to a request for a resource.
 * @throws StatusError `NotAcceptable` if the client accepts no offered format; `BadRequest`
 */
export function negotiateForRoute(
  exchange: Pick<Exchange, 'headers'>,
  query: Query,
  { verb, kind }: Pick<Route, 'verb' | 'kind'>,
): NegotiatedFormat {
  const offer: OfferedForms = kindOf(kind) === undefined ? 'metadata' : isReview(kind) ? 'reviews' : 'objects';
  const accepted = negotiateRequest(exchange, query, offer);
  if (verb === 'watch' && accepted.format === 'yaml') throw streamNotAcceptable(offer);
  return accepted;
}

/** Returns true for review resources, which are not stored or listed and therefore have no table columns. */
const isReview = ({ verbs }: Route['kind']): boolean => !verbs.includes('get') && !verbs.includes('list');

/**
 * Returns the negotiated format of a response, from the headers and parameters of the request.
 * @throws StatusError `NotAcceptable` if the client accepts no offered format
 */
export function negotiateRequest({ headers }: Pick<Exchange, 'headers'>, query: Query, offer: OfferedForms = 'nothing'): NegotiatedFormat {
  const accepted = negotiateAccept(headers.accept, offer);
  const pretty = isPretty(accepted, headers, query.first['pretty']);
  return pretty === accepted.pretty ? accepted : { ...accepted, pretty };
}

/** Returns true if the response is indented: the query decides, else the Accept header and the kind of client. */
const isPretty = (accepted: NegotiatedFormat, headers: Exchange['headers'], parameter: string | undefined): boolean =>
  parameter === undefined ? accepted.pretty || plainAgents.test(headers['user-agent'] ?? '') : parameter !== '0' && parameter !== 'false';

export interface ResponseContext {
  readonly exchange: Exchange;
  readonly accepted: NegotiatedFormat;
  readonly resource: Resource;
  readonly query: Query;
  readonly clock: Clock;
  /** Whether large lists are compressed for clients that accept gzip (feature gate APIResponseCompression). */
  readonly compresses: boolean;
  readonly warnings: readonly string[];
  /** Called once per watch. Returns a function that is called with the number of events sent. */
  newEventObserver(): (events: number) => void;
  /** Called when a watch has sent its initial events. */
  readonly onInitialEventsSent?: (() => void) | undefined;
  statusOf(error: unknown): StatusError;
}

/** Sends a response of the pipeline to the client. Does not handle proxied responses. Returns undefined if the response has been sent. */
export function sendResponse(
  response: Exclude<PipelineResponse, { kind: 'kubelet' | 'proxy' }>,
  context: ResponseContext,
): Promise<void> | undefined {
  if (context.accepted.format === 'protobuf' || response.kind === 'list' || response.kind === 'watch') return sendLater(response, context);
  sendLoaded(response, context);
  return undefined;
}

async function sendLater(response: Exclude<PipelineResponse, { kind: 'kubelet' | 'proxy' }>, context: ResponseContext): Promise<void> {
  if (context.accepted.format === 'protobuf') await loadCodec();
  await sendLoaded(response, context);
}

/** Sends a response whose codec is loaded. */
function sendLoaded(
  response: Exclude<PipelineResponse, { kind: 'kubelet' | 'proxy' }>,
  context: ResponseContext,
): Promise<void> | undefined {
  const { exchange, accepted, clock, query } = context;
  const options: ResponseEncodingOptions = { includeObject: includeObjectOf(query), now: () => clock.now() };
  switch (response.kind) {
    case 'nothing':
      exchange.openStream(204).end();
      return undefined;
    case 'object': {
      if (context.warnings.length > 0 || response.warnings.length > 0) addWarnings(exchange, [...context.warnings, ...response.warnings]);
      sendItem(response, context, options);
      return undefined;
    }
    case 'list': {
      addWarnings(exchange, [...context.warnings, ...response.warnings]);
      return sendList(response, context, options);
    }
    case 'watch': {
      addWarnings(exchange, [...context.warnings, ...(response.warnings ?? [])]);
      const encoding = encodingFor(accepted, 'watch', response.resource, options);
      return sendWatchResponse(exchange, response.frames, {
        encoding,
        includeSpanContexts: accepted.format !== 'protobuf' && exchange.headers['x-oarlock-cause'] === '1',
        onEvents: context.newEventObserver(),
        ...(context.onInitialEventsSent && { onInitialEventsSent: context.onInitialEventsSent }),
        statusOf: context.statusOf,
      });
    }
  }
}

function sendItem(
  { code, item }: Extract<PipelineResponse, { kind: 'object' }>,
  { exchange, accepted, resource }: ResponseContext,
  options: ResponseEncodingOptions,
): void {
  const { kind, apiVersion } = item.object;
  const isStatus = kind === 'Status' && apiVersion === 'v1';
  // the kind of a subresource differs from that of its resource and has no table columns
  const shownResource = kind === resource.kind ? resource : { ...resource, group: '', resource: '', kind: kind ?? '' };
  const encoding = encodingFor(isStatus ? { ...accepted, transform: undefined } : accepted, 'object', shownResource, options);
  exchange.setHeader('Content-Type', encoding.contentType);
  exchange.send(code, encoding.item(item));
}

async function sendList(
  { items, metadata, resource }: Extract<PipelineResponse, { kind: 'list' }>,
  { exchange, accepted, compresses }: ResponseContext,
  options: ResponseEncodingOptions,
): Promise<void> {
  const encoding = encodingFor(accepted, 'list', resource, options);
  exchange.setHeader('Content-Type', encoding.contentType);
  const body = new BodyWriter(exchange, 200, {
    gzip: compresses && acceptsGzip(exchange.headers['accept-encoding'] as string | undefined),
  });
  let length = 0;
  if (encoding.itemLength !== undefined) {
    for (const item of items) {
      length += encoding.itemLength(item);
      if (body.mustFlush()) await body.flush();
    }
  }
  body.add(encoding.listHead(metadata, length));
  let first = true;
  for (const item of items) {
    encoding.listItem(item, first, body);
    first = false;
    if (!body.mustFlush()) continue;
    await body.flush();
    if (body.closed) return;
  }
  body.add(encoding.listTail(metadata));
  await body.end();
}

function includeObjectOf(query: Query): IncludeObject {
  const value = query.first['includeObject'];
  if (value === undefined || value === '') return 'Metadata';
  const known = includes.find((include) => include === value);
  if (known === undefined)
    throw badRequest(
      `Unable to convert to Table as requested: includeObject: Invalid value: ${JSON.stringify(value)}: must be 'Metadata', 'Object', 'None', or empty`,
    );
  return known;
}

/** Adds `Warning` headers (RFC 7234, section 5.5) as Kubernetes does. Their total length is limited, because clients limit the response head. */
export function addWarnings(exchange: Exchange, warnings: readonly string[]): void {
  if (warnings.length === 0) return;
  const values: string[] = [];
  let length = 0;
  for (const text of new Set(warnings)) {
    // eslint-disable-next-line no-control-regex -- control characters are not permitted in a header
    const quoted = `299 - "${text.replaceAll(/[\u0000-\u001F\u007F]+/g, ' ').replaceAll(/["\\]/g, '\\$&')}"`;
    length += quoted.length;
    if (length > maxWarningLength) break;
    values.push(Buffer.from(quoted).toString('latin1'));
  }
  exchange.setHeader('Warning', values);
}

/** Loads the encoder for an error response in the format that the client accepts. */
export async function preloadStatusEncoding({ headers }: Pick<Exchange, 'headers'>): Promise<void> {
  if (headers.accept?.includes('protobuf') === true) await loadCodec();
}

/** Sends an error as a `Status` in the negotiated format. Transformations such as Table do not apply. */
export function sendStatus(exchange: Exchange, { status }: StatusError): void {
  if (exchange.state !== 'fresh') {
    if (exchange.state === 'open') exchange.abort(); // the client must not treat the partial response as complete
    return;
  }
  const { retryAfterSeconds } = status.details ?? {};
  if (retryAfterSeconds !== undefined && retryAfterSeconds > 0) exchange.setHeader('Retry-After', String(retryAfterSeconds));
  sendValue(exchange, { code: status.code ?? 500, value: status }, formatOf(exchange));
}

/** Returns the format of an error, which is sent even if the target is malformed or the client accepts no available format. */
function formatOf({ headers, target }: Exchange): Pick<NegotiatedFormat, 'format' | 'pretty'> {
  try {
    const accepted = negotiateAccept(headers.accept, 'objects');
    const mark = target.indexOf('?');
    const parameter = mark < 0 ? undefined : (new URLSearchParams(target.slice(mark)).get('pretty') ?? undefined);
    return { format: accepted.format, pretty: isPretty(accepted, headers, parameter) };
  } catch {
    return { format: 'json', pretty: true };
  }
}

/** Encodes a value in the negotiated format and sends it. */
export function sendValue(
  exchange: Exchange,
  { code, value }: { readonly code: number; readonly value: object | Status },
  accepted: Pick<NegotiatedFormat, 'format' | 'pretty'>,
): void {
  const { contentType, body } = encodeValue(value, accepted);
  exchange.setHeader('Content-Type', contentType);
  exchange.send(code, body);
}

export function sendText(exchange: Exchange, code: number, text: string): void {
  exchange.setHeader('Content-Type', 'text/plain; charset=utf-8');
  exchange.setHeader('X-Content-Type-Options', 'nosniff');
  exchange.send(code, text);
}
