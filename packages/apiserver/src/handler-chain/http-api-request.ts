import { parseTraceparent } from '@oarlock/kernel/tracing';
import type { Identity } from '@oarlock/spi/authn';
import type { ApiRequest } from '@oarlock/spi/loopback';
import { decodeRequestBody, maxBodyBytes, requestPatchType } from '../http/request-body.ts';
import type { AuditTrail } from '../audit/audit-trail.ts';
import type { Exchange } from '../http/exchange.ts';
import type { Query } from '../http/path.ts';
import type { Route } from '../http/routes.ts';
import { mediaTypeOf, protobufType } from '../negotiation/negotiation.ts';

const noBytes = Buffer.alloc(0);

/**
 * What the pipeline is asked. The body has been received by then, but is decoded when it is first read: who may not write is refused
 * before that. `warn` is told what decoding finds.
 * @throws StatusError `UnsupportedMediaType`, `RequestEntityTooLarge`, `BadRequest`
 */
export async function newApiRequest(
  exchange: Exchange,
  route: Route,
  query: Query,
  identity: Identity,
  authentication: { readonly from: number; readonly to: number },
  warn: (message: string) => void,
  audit?: Pick<AuditTrail, 'annotate' | 'setRequestObject'>,
): Promise<ApiRequest> {
  const { headers } = exchange;
  const { verb, optionsKind } = route;
  const contentType = headers['content-type'];
  const writes = optionsKind === undefined && verb !== 'get' && verb !== 'list' && verb !== 'watch';
  const patchType = writes && verb === 'patch' ? requestPatchType(contentType, route.kind) : undefined;
  const bytes = writes ? await exchange.readBody(maxBodyBytes) : noBytes;
  const binary = bytes.length > 0 && mediaTypeOf(contentType) === protobufType;
  const protobuf = binary ? (await import('../negotiation/protobuf-decoder.ts')).decodeProtobuf : undefined;
  const decode =
    writes || optionsKind !== undefined
      ? () => {
          const decoded = decodeRequestBody(bytes, { route, query, contentType, protobuf, warn });
          audit?.setRequestObject(decoded);
          return decoded;
        }
      : undefined;
  const request = new HttpApiRequest(exchange, route, queryOf(route, query), identity, authentication, warn, bytes.length, decode);
  if (patchType !== undefined) request.patchType = patchType;
  if (audit !== undefined) request.annotate = (key, value, level) => audit.annotate(key, value, level);
  return request;
}

/** One shape for all requests, with what only some ask for behind getters. */
class HttpApiRequest implements ApiRequest {
  readonly verb: ApiRequest['verb'];
  readonly resource: ApiRequest['resource'];
  readonly subresource: string;
  readonly namespace: string;
  readonly name: string;
  readonly query: ApiRequest['query'];
  readonly identity: Identity;
  readonly authentication: { readonly from: number; readonly to: number };
  readonly spanContext: ApiRequest['spanContext'];
  readonly warn: (message: string) => void;
  readonly bytes: number;
  declare patchType?: NonNullable<ApiRequest['patchType']>;
  declare annotate?: NonNullable<ApiRequest['annotate']>;
  declare readonly userAgent?: string;
  declare readonly sourceAddress?: string;
  readonly #exchange: Exchange;
  #decode: (() => unknown) | undefined;
  #body: unknown;

  constructor(
    exchange: Exchange,
    { verb, resource, subresource, namespace, name }: Route,
    query: ApiRequest['query'],
    identity: Identity,
    authentication: { readonly from: number; readonly to: number },
    warn: (message: string) => void,
    bytes: number,
    decode: (() => unknown) | undefined,
  ) {
    const { traceparent, 'user-agent': userAgent } = exchange.headers;
    this.verb = verb;
    this.resource = resource;
    this.subresource = subresource?.name ?? '';
    this.namespace = namespace;
    this.name = name;
    this.query = query;
    this.identity = identity;
    this.authentication = authentication;
    this.spanContext = traceparent === undefined ? undefined : parseTraceparent(traceparent as string);
    this.warn = warn;
    this.bytes = bytes;
    if (userAgent !== undefined) this.userAgent = userAgent;
    const { remoteAddress } = exchange.connection;
    if (remoteAddress !== undefined) this.sourceAddress = remoteAddress.replace(/^::ffff:(?=\d+\.)/, '');
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

/** The deprecated paths that watch one object do by their path what others do by a selector. */
function queryOf({ watchedName }: Route, { first }: Query): ApiRequest['query'] {
  if (watchedName === undefined) return first;
  const { fieldSelector = '' } = first;
  return { ...first, fieldSelector: `${fieldSelector}${fieldSelector === '' ? '' : ','}metadata.name=${watchedName}` };
}
