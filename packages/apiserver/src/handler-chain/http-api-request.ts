import { parseTraceparent } from '@oarlock/kernel/tracing';
import type { Identity } from '@oarlock/spi/authn';
import type { ApiRequest } from '@oarlock/spi/loopback';
import { decodeRequestBody, maxBodyBytes, requestPatchType } from '../http/request-body.ts';
import type { AuditTrail } from '../audit/audit-trail.ts';
import type { LatencyTracked, LatencyTracker } from '../endpoints/request/latency-tracker.ts';
import type { Exchange } from '../http/exchange.ts';
import type { Query } from '../http/path.ts';
import type { Route } from '../http/routes.ts';
import { mediaTypeOf, protobufType } from '../endpoints/negotiation/negotiation.ts';

const noBytes = Buffer.alloc(0);

export interface ApiRequestOptions {
  readonly exchange: Exchange;
  readonly route: Route;
  readonly query: Query;
  readonly identity: Identity;
  readonly authentication: NonNullable<ApiRequest['authentication']>;
  /** Called with each warning that decoding the body causes. */
  warn(message: string): void;
  readonly audit: Pick<AuditTrail, 'annotate' | 'setRequestObject'> | undefined;
  readonly latencies: LatencyTracker;
}

/**
 * Creates the request that the pipeline handles from an HTTP request. The body has been received but is decoded on first access, because the
 * pipeline rejects unauthorized requests before that. Returns a promise only if the request has a body or options.
 * @throws StatusError `UnsupportedMediaType`, `RequestEntityTooLarge` or `BadRequest` if the body cannot be accepted
 */
export function newApiRequest(options: ApiRequestOptions): ApiRequest | Promise<ApiRequest> {
  const { verb, optionsKind } = options.route;
  const hasBody = optionsKind === undefined && verb !== 'get' && verb !== 'list' && verb !== 'watch';
  if (hasBody || optionsKind !== undefined) return readApiRequest(options, hasBody);
  return annotated(new HttpApiRequest(options, 0, undefined), options);
}

async function readApiRequest(options: ApiRequestOptions, writes: boolean): Promise<ApiRequest> {
  const { exchange, route, query, warn, audit } = options;
  const { headers } = exchange;
  const contentType = headers['content-type'];
  const patchType = writes && route.verb === 'patch' ? requestPatchType(contentType, route.kind) : undefined;
  const bytes = writes ? await exchange.readBody(maxBodyBytes) : noBytes;
  const binary = bytes.length > 0 && mediaTypeOf(contentType) === protobufType;
  const protobuf = binary ? (await import('../endpoints/negotiation/protobuf-decoder.ts')).decodeProtobuf : undefined;
  const decode = () => {
    const decoded = decodeRequestBody(bytes, { route, query, contentType, protobuf, warn });
    audit?.setRequestObject(decoded);
    return decoded;
  };
  const request = new HttpApiRequest(options, bytes.length, decode);
  if (patchType !== undefined) request.patchType = patchType;
  return annotated(request, options);
}

function annotated(request: HttpApiRequest, { audit }: ApiRequestOptions): ApiRequest {
  if (audit === undefined) return request;
  request.annotate = (key, value, level) => audit.annotate(key, value, level);
  return request;
}

/** The ApiRequest of an HTTP request. All requests have the same object shape; properties that few handlers read are getters. */
class HttpApiRequest implements LatencyTracked {
  readonly verb: ApiRequest['verb'];
  readonly resource: ApiRequest['resource'];
  readonly subresource: string;
  readonly namespace: string;
  readonly name: string;
  readonly query: ApiRequest['query'];
  readonly identity: Identity;
  readonly authentication: NonNullable<ApiRequest['authentication']>;
  readonly spanContext: ApiRequest['spanContext'];
  readonly warn: (message: string) => void;
  readonly bytes: number;
  declare patchType?: NonNullable<ApiRequest['patchType']>;
  declare annotate?: NonNullable<ApiRequest['annotate']>;
  readonly latencies: LatencyTracker;
  declare readonly userAgent?: string;
  declare readonly sourceAddress?: string;
  readonly #exchange: Exchange;
  #decode: (() => unknown) | undefined;
  #body: unknown;

  constructor(options: ApiRequestOptions, bytes: number, decode: (() => unknown) | undefined) {
    const { exchange, route, query, identity, authentication, warn, latencies } = options;
    const { verb, resource, subresource, namespace, name } = route;
    const { traceparent, 'user-agent': userAgent } = exchange.headers;
    this.verb = verb;
    this.resource = resource;
    this.subresource = subresource?.name ?? '';
    this.namespace = namespace;
    this.name = name;
    this.query = queryOf(route, query);
    this.identity = identity;
    this.authentication = authentication;
    this.spanContext = traceparent === undefined ? undefined : parseTraceparent(traceparent as string);
    this.warn = warn;
    this.latencies = latencies;
    this.bytes = bytes;
    if (userAgent !== undefined) this.userAgent = userAgent;
    const { sourceAddress } = exchange.connection;
    if (sourceAddress !== undefined) this.sourceAddress = sourceAddress;
    this.#exchange = exchange;
    this.#decode = decode;
  }

  get body(): unknown {
    const decode = this.#decode;
    if (decode !== undefined) {
      this.#body = decode();
      this.#decode = undefined;
    }
    return this.#body;
  }
  get signal(): AbortSignal {
    return this.#exchange.signal;
  }
}

/** Returns the query of a request. A deprecated watch path that names one object is converted to a field selector. */
function queryOf({ watchedName }: Route, { first }: Query): ApiRequest['query'] {
  if (watchedName === undefined) return first;
  const { fieldSelector = '' } = first;
  return { ...first, fieldSelector: `${fieldSelector}${fieldSelector === '' ? '' : ','}metadata.name=${watchedName}` };
}
