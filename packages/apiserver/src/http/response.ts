import { kindOf } from '@oarlock/api/kinds';
import type { Resource } from '@oarlock/api/resource';
import { badRequest, type Status, type StatusError } from '@oarlock/api/status';
import type { Clock } from '@oarlock/primitives/clock';
import type { Exchange } from './exchange.ts';
import { BodyWriter } from './internal/body-writer.ts';
import type { Query } from './path.ts';
import type { Route } from './routes.ts';
import { sendWatchResponse } from './internal/watch-response.ts';
import type { ResponseEncodingOptions } from '../negotiation/response-encoding.ts';
import { encodeValue, encodingFor } from '../negotiation/encoding.ts';
import { loadCodec } from '../negotiation/protobuf-codec.ts';
import { acceptsGzip, negotiateAccept, streamNotAcceptable, type NegotiatedFormat, type OfferedForms } from '../negotiation/negotiation.ts';
import type { EncodedObject, PipelineResponse } from '../request/response.ts';
import type { IncludeObject } from '../negotiation/response-encoding.ts';

const includes: readonly IncludeObject[] = ['None', 'Metadata', 'Object'];
const plainAgents = /^(?:curl|wget|mozilla\/5\.0)/i;
const maxWarningLength = 4096;

/** How a request for a resource wants its answer. @throws StatusError `NotAcceptable`, `BadRequest` */
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

/** What is created to be answered, and never kept: nobody lists it, so it has no columns. */
const isReview = ({ verbs }: Route['kind']): boolean => !verbs.includes('get') && !verbs.includes('list');

/** How a request wants its answer, out of its headers and parameters. @throws StatusError `NotAcceptable` */
export function negotiateRequest({ headers }: Pick<Exchange, 'headers'>, query: Query, offer: OfferedForms = 'nothing'): NegotiatedFormat {
  const accepted = negotiateAccept(headers.accept, offer);
  const { pretty } = query.first;
  const wanted =
    pretty === undefined ? accepted.pretty || plainAgents.test(headers['user-agent'] ?? '') : pretty !== '0' && pretty !== 'false';
  return wanted === accepted.pretty ? accepted : { ...accepted, pretty: wanted };
}

export interface ResponseContext {
  readonly exchange: Exchange;
  readonly accepted: NegotiatedFormat;
  readonly resource: Resource;
  readonly query: Query;
  readonly clock: Clock;
  readonly warnings: readonly string[];
  /** Asked for once by each watch; then told how many events were sent. */
  watched(): (events: number) => void;
  /** Told when a watch that begins with what there is has sent all of it. */
  readonly listed?: (() => void) | undefined;
  statusOf(error: unknown): StatusError;
}

/** Sends what the pipeline answered, except what goes on elsewhere. */
export async function sendResponse(
  response: Exclude<PipelineResponse, { kind: 'kubelet' | 'proxy' }>,
  sending: ResponseContext,
): Promise<void> {
  const { exchange, accepted, clock, query } = sending;
  if (accepted.format === 'protobuf') await loadCodec();
  const options: ResponseEncodingOptions = { includeObject: includeObjectOf(query), now: () => clock.now() };
  switch (response.kind) {
    case 'nothing':
      exchange.openStream(204).end();
      return;
    case 'object': {
      addWarnings(exchange, [...sending.warnings, ...response.warnings]);
      sendItem(response.code, response.item, sending, options);
      return;
    }
    case 'list': {
      addWarnings(exchange, [...sending.warnings, ...response.warnings]);
      await sendList(response, exchange, accepted, options);
      return;
    }
    case 'watch': {
      addWarnings(exchange, [...sending.warnings, ...(response.warnings ?? [])]);
      const encoding = encodingFor(accepted, 'watch', response.resource, options);
      await sendWatchResponse(exchange, response.frames, {
        encoding,
        includeSpanContexts: accepted.format !== 'protobuf' && exchange.headers['x-oarlock-cause'] === '1',
        sent: sending.watched(),
        ...(sending.listed && { listed: sending.listed }),
        statusOf: sending.statusOf,
      });
    }
  }
}

function sendItem(
  code: number,
  item: EncodedObject,
  { exchange, accepted, resource }: ResponseContext,
  options: ResponseEncodingOptions,
): void {
  const { kind, apiVersion } = item.object;
  const isStatus = kind === 'Status' && apiVersion === 'v1';
  // a subresource answers with a kind of its own, which has no columns
  const shown = kind === resource.kind ? resource : { ...resource, group: '', resource: '', kind: kind ?? '' };
  const encoding = encodingFor(isStatus ? { ...accepted, transform: undefined } : accepted, 'object', shown, options);
  exchange.setHeader('Content-Type', encoding.contentType);
  exchange.send(code, encoding.item(item));
}

async function sendList(
  { items, metadata, resource }: Extract<PipelineResponse, { kind: 'list' }>,
  exchange: Exchange,
  accepted: NegotiatedFormat,
  options: ResponseEncodingOptions,
): Promise<void> {
  const encoding = encodingFor(accepted, 'list', resource, options);
  exchange.setHeader('Content-Type', encoding.contentType);
  const body = new BodyWriter(exchange, 200, { gzip: acceptsGzip(exchange.headers['accept-encoding'] as string | undefined) });
  let length = 0;
  if (encoding.itemLength !== undefined) {
    for (const item of items) {
      length += encoding.itemLength(item);
      if (body.mustFlush) await body.flush();
    }
  }
  body.add(encoding.listHead(metadata, length));
  let first = true;
  for (const item of items) {
    encoding.listItem(item, first, body);
    first = false;
    if (!body.mustFlush) continue;
    await body.flush();
    if (body.closed) return;
  }
  body.add(encoding.listTail(metadata));
  await body.end();
}

function includeObjectOf(query: Query): IncludeObject {
  const wanted = query.first['includeObject'];
  if (wanted === undefined || wanted === '') return 'Metadata';
  const known = includes.find((include) => include === wanted);
  if (known === undefined)
    throw badRequest(
      `Unable to convert to Table as requested: includeObject: Invalid value: ${JSON.stringify(wanted)}: must be 'Metadata', 'Object', 'None', or empty`,
    );
  return known;
}

/** RFC 9111 warnings as Kubernetes sends them; together bounded, so that no client chokes on the head. */
export function addWarnings(exchange: Exchange, warnings: readonly string[]): void {
  if (warnings.length === 0) return;
  const values: string[] = [];
  let length = 0;
  for (const text of new Set(warnings)) {
    // eslint-disable-next-line no-control-regex -- they must not get into a header
    const quoted = `299 - "${text.replaceAll(/[\u0000-\u001F\u007F]+/g, ' ').replaceAll(/["\\]/g, '\\$&')}"`;
    length += quoted.length;
    if (length > maxWarningLength) break;
    values.push(Buffer.from(quoted).toString('latin1'));
  }
  exchange.setHeader('Warning', values);
}

/** Loads what it takes to tell an error in the form that a client wants. */
export async function preloadStatusEncoding({ headers }: Pick<Exchange, 'headers'>): Promise<void> {
  if (headers.accept?.includes('protobuf') === true) await loadCodec();
}

/** Sends a refusal or fault as `Status`; in place of whatever was asked for, so only its format counts. */
export function sendStatus(exchange: Exchange, { status }: StatusError): void {
  if (exchange.state !== 'fresh') {
    if (exchange.state === 'open') exchange.abort(); // the client must not take what it has for the whole
    return;
  }
  const { retryAfterSeconds } = status.details ?? {};
  if (retryAfterSeconds !== undefined && retryAfterSeconds > 0) exchange.setHeader('Retry-After', String(retryAfterSeconds));
  sendValue(exchange, status.code ?? 500, status, formatOf(exchange));
}

function formatOf(exchange: Exchange): Pick<NegotiatedFormat, 'format' | 'pretty'> {
  try {
    return { format: negotiateAccept(exchange.headers.accept, 'objects').format, pretty: false };
  } catch {
    return { format: 'json', pretty: false }; // an error has to be told, whatever is accepted
  }
}

export function sendValue(
  exchange: Exchange,
  code: number,
  value: object | Status,
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
