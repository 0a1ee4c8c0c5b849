import { parseTraceparent } from '@oarlock/kernel/tracing';
import type { Identity } from '@oarlock/spi/authn';
import type { ApiRequest } from '@oarlock/spi/loopback';
import { decodeBody, maxBodyBytes, patchTypeOf } from './http-body.ts';
import type { AuditTrail } from './audit/audit-trail.ts';
import type { Exchange } from './http-exchange.ts';
import type { Query } from './http-path.ts';
import type { Route } from './http-routes.ts';
import { mediaTypeOf, protobufType } from './negotiation.ts';

const noBytes = Buffer.alloc(0);

/**
 * What the pipeline is asked. The body has been received by then, but is decoded when it is first read: who may not write is refused
 * before that. `warn` is told what decoding finds.
 * @throws StatusError `UnsupportedMediaType`, `RequestEntityTooLarge`, `BadRequest`
 */
export async function apiRequest(
  exchange: Exchange,
  route: Route,
  query: Query,
  identity: Identity,
  authentication: { readonly from: number; readonly to: number },
  warn: (message: string) => void,
  audit?: Pick<AuditTrail, 'annotate' | 'request'>,
): Promise<ApiRequest> {
  const { headers } = exchange;
  const { verb, resource, subresource, namespace, name, optionsKind } = route;
  const contentType = headers['content-type'];
  const writes = optionsKind === undefined && verb !== 'get' && verb !== 'list' && verb !== 'watch';
  const patchType = writes && verb === 'patch' ? patchTypeOf(contentType) : undefined;
  const bytes = writes ? await exchange.read(maxBodyBytes) : noBytes;
  const binary = bytes.length > 0 && mediaTypeOf(contentType) === protobufType;
  const protobuf = binary ? (await import('./negotiation-protobuf.ts')).decodeProtobuf : undefined;
  const cause = parseTraceparent(headers['traceparent'] as string | undefined);
  let body: { readonly decoded: unknown } | undefined;
  return {
    verb,
    resource,
    subresource: subresource?.name ?? '',
    namespace,
    name,
    identity,
    authentication,
    query: queryOf(route, query),
    ...(patchType !== undefined && { patchType }),
    ...(headers['user-agent'] !== undefined && { userAgent: headers['user-agent'] }),
    ...(cause !== undefined && { cause }),
    ...(audit !== undefined && { annotate: (key: string, value: string, level?: 'Request') => audit.annotate(key, value, level) }),
    warn,
    get body() {
      if (!writes && optionsKind === undefined) return undefined;
      if (body === undefined) {
        body = { decoded: decodeBody(bytes, { route, query, contentType, protobuf, warn }) };
        audit?.request(body.decoded);
      }
      return body.decoded;
    },
    get signal() {
      return exchange.signal;
    },
  };
}

/** The deprecated paths that watch one object do by their path what others do by a selector. */
function queryOf({ watchedName }: Route, { first }: Query): ApiRequest['query'] {
  if (watchedName === undefined) return first;
  const { fieldSelector = '' } = first;
  return { ...first, fieldSelector: `${fieldSelector}${fieldSelector === '' ? '' : ','}metadata.name=${watchedName}` };
}
