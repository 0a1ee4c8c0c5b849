import {
  createSecureServer,
  type Http2SecureServer,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type ServerHttp2Session,
} from 'node:http2';
import { createServer as createHttpsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { kinds } from '@oarlock/api/kinds';
import { resource as descriptor } from '@oarlock/api/resource';
import { isStatus, StatusError } from '@oarlock/api/status';
import { formatTraceparent, parseTraceparent } from '@oarlock/kernel/tracing';
import type { PatchType } from '@oarlock/spi/client';
import type { ApiHandler, ApiRequest } from '@oarlock/spi/loopback';
import type { Certificates } from './certificates.ts';

export interface Seen {
  readonly method: string;
  readonly url: string;
  readonly headers: Http2ServerRequest['headers'];
  readonly body: string;
  readonly httpVersion: string;
  readonly certificate: string | undefined;
}
type Interceptor = (request: Http2ServerRequest, response: Http2ServerResponse, seen: Seen) => boolean | void;

export interface HttpsFront {
  readonly url: string;
  readonly seen: Seen[];
  readonly sessions: Set<ServerHttp2Session>;
  /** Number of accepted connections. */
  connections: number;
  /** Handles the requests for which it returns true. */
  intercept: Interceptor | undefined;
  readonly server: Http2SecureServer;
  close(): Promise<void>;
}

const patchTypes: Record<string, PatchType> = {
  'application/json-patch+json': 'json',
  'application/merge-patch+json': 'merge',
  'application/strategic-merge-patch+json': 'strategic',
  'application/apply-patch+yaml': 'apply',
};

/** Starts an HTTPS server (h2 and HTTP/1.1) before an `ApiHandler`; tests can inspect and intercept requests. */
export async function httpsFront(
  handler: ApiHandler,
  { server: { cert, key }, ca }: Certificates,
  { http2 = true }: { http2?: boolean } = {},
): Promise<HttpsFront> {
  const tls = { cert, key, ca, requestCert: true, rejectUnauthorized: false };
  // the two servers have different types, but the members used here are the same
  const server = http2 ? createSecureServer({ ...tls, allowHTTP1: true }) : (createHttpsServer(tls) as unknown as Http2SecureServer);
  const front: HttpsFront = {
    url: '',
    seen: [],
    sessions: new Set(),
    connections: 0,
    intercept: undefined,
    server,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const session of front.sessions) session.destroy();
        for (const socket of sockets) socket.destroy();
      }),
  };
  const sockets = new Set<TLSSocket>();
  server.on('secureConnection', (socket: TLSSocket) => {
    front.connections += 1;
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  server.on('session', (session) => {
    front.sessions.add(session);
    session.on('error', () => undefined);
    session.on('close', () => front.sessions.delete(session));
  });
  server.on('request', (request, response) => {
    response.on('error', () => undefined);
    request.on('error', () => undefined);
    void serve(request, response).catch((error: unknown) => {
      const status = error instanceof StatusError ? error : undefined;
      if (!response.headersSent) response.writeHead(status?.code ?? 500, { 'content-type': 'application/json' });
      response.end(status ? JSON.stringify(status.status) : String(error));
    });
  });
  const serve = async (request: Http2ServerRequest, response: Http2ServerResponse) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const certificate = (request.socket as TLSSocket).getPeerCertificate?.().subject?.CN;
    const seen: Seen = {
      method: request.method,
      url: request.url,
      headers: { ...request.headers },
      body: Buffer.concat(chunks).toString(),
      httpVersion: request.httpVersion,
      certificate: typeof certificate === 'string' ? certificate : undefined,
    };
    front.seen.push(seen);
    if (front.intercept?.(request, response, seen) === true) return;
    const call = understand(seen);
    if (call === undefined) {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify(await handler.handlePath(seen.method, seen.url, undefined, { name: 'x', groups: [] })));
      return;
    }
    const abort = new AbortController();
    response.on('close', () => abort.abort());
    const answer = await handler.handle({ ...call, signal: abort.signal });
    if (answer.kind !== 'watch') {
      response.writeHead(answer.kind === 'object' ? answer.code : 200, { 'content-type': 'application/json' });
      response.end(
        JSON.stringify(
          answer.kind === 'object'
            ? answer.object
            : { ...answer.list, items: answer.list.items.map(({ kind: _k, apiVersion: _a, ...item }) => item) },
        ),
      );
      return;
    }
    response.writeHead(200, { 'content-type': 'application/json' });
    if ('flushHeaders' in response && typeof response.flushHeaders === 'function') response.flushHeaders();
    try {
      for await (const batch of answer.events) {
        for (const { type, object, spanContext } of batch)
          response.write(`${JSON.stringify({ type, object, ...(spanContext && { cause: formatTraceparent(spanContext) }) })}\n`);
      }
    } catch (error) {
      if (isStatus(error)) response.write(`${JSON.stringify({ type: 'ERROR', object: error.status })}\n`);
    }
    response.end();
  };
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  Object.assign(front, { url: `https://127.0.0.1:${(server.address() as AddressInfo).port}` });
  return front;
}

function understand({ method, url, headers, body }: Seen): ApiRequest | undefined {
  const { pathname, searchParams } = new URL(url, 'https://x');
  const match =
    /^\/(?:api|apis\/(?<group>[^/]+))\/(?<version>v[^/]+)(?:\/namespaces\/(?<namespace>[^/]+)(?=\/))?\/(?<resource>[^/]+)(?:\/(?<name>[^/]+))?(?:\/(?<subresource>[^/]+))?$/.exec(
      pathname,
    );
  const { group = '', version = '', namespace = '', resource = '', name = '', subresource = '' } = match?.groups ?? {};
  const kind = kinds.find((k) => k.group === group && k.version === version && k.resource === resource);
  if (kind === undefined) return undefined;
  const query = Object.fromEntries(searchParams);
  const verb =
    method === 'GET'
      ? query['watch'] === 'true'
        ? 'watch'
        : name === ''
          ? 'list'
          : 'get'
      : method === 'POST'
        ? 'create'
        : method === 'PUT'
          ? 'update'
          : method === 'PATCH'
            ? 'patch'
            : name === ''
              ? 'deletecollection'
              : 'delete';
  const patchType = patchTypes[String(headers['content-type'])];
  const spanContext = parseTraceparent(typeof headers['traceparent'] === 'string' ? headers['traceparent'] : undefined);
  return {
    verb,
    resource: descriptor(group, version, resource, kind.kind, kind.namespaced),
    namespace,
    name,
    subresource,
    query,
    identity: { name: 'x', groups: [] },
    ...(body !== '' && { body: JSON.parse(body) as unknown }),
    ...(patchType && { patchType }),
    ...(spanContext && { spanContext }),
  };
}
