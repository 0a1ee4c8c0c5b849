import { deepFreeze, type KubeObject, type ObjectList } from '@oarlock/api/object';
import { apiVersionOf, type Resource } from '@oarlock/api/resource';
import { failure, StatusError } from '@oarlock/api/status';
import { systemClock, type Clock } from '@oarlock/primitives/clock';
import { formatTraceparent, type SpanContext } from '@oarlock/kernel/tracing';
import type { CallOptions, Client, DeleteOptions, ListOptions, PatchType, WatchEvent, WatchOptions } from '@oarlock/spi/client';
import { checkSubjectAlternativeNames } from '@oarlock/primitives/net/keep-alive-connection';
import { BearerToken, type TokenSource } from '../auth/bearer-token.ts';
import type { CredentialSource } from '../auth/exec-credential.ts';
import { mayIgnoreNulls } from './internal/null-fields.ts';
import { HttpExchange, type HttpExchangeOptions } from './internal/exchange.ts';
import { HttpTransport, type TlsMaterial } from './internal/transport.ts';
import { TransportError } from './connection.ts';
import type { RequestObserver } from './request-metrics.ts';
import { ServerList } from './server-list.ts';
import { ObjectClient } from '../request/object-client.ts';
import { deleteCollectionCall, listCall, watchCall, type ApiCall } from '../request/api-call.ts';
import { decodeWatchEvents } from './internal/watch-decoder.ts';
import { errorText } from '@oarlock/primitives/error-text';

export interface HttpClientOptions {
  /** URL of the server, such as `https://10.0.0.1:6443`, optionally with a path prefix before `/api`. */
  readonly server: string;
  /** The servers of the cluster, which several clients may share; replaces `server`. */
  readonly servers?: ServerList;
  /** PEM of the CAs against which the server's certificate is verified; absent: the system's CAs. */
  readonly ca?: string;
  /** PEM of the client certificate, with `key`. */
  readonly cert?: string;
  readonly key?: string;
  readonly token?: string;
  /** File with a token. The client reads the file again every minute and after a 401. */
  readonly tokenFile?: string;
  /** A credential source that replaces token and certificate; called before each request. */
  readonly credentials?: CredentialSource;
  /** The name that the server's certificate must have, if it is not the host of `server`. */
  readonly tlsServerName?: string;
  /** Accepts any server certificate. Never the default. */
  readonly insecureSkipTlsVerify?: boolean;
  readonly userAgent?: string;
  /**
   * Timeout of requests other than watches in milliseconds, after which a request fails with `ServiceUnavailable`. Default 65,000, slightly more than
   * the server's own limit.
   */
  readonly requestTimeoutMs?: number;
  /** Maximum size of a response other than a watch. Default 256 MiB. */
  readonly maxResponseBytes?: number;
  /** Maximum size of a watch event. Default 16 MiB. */
  readonly maxEventBytes?: number;
  readonly clock?: Clock;
  /** Observes the requests; also those of clients from `withSpanContext` and `withUserAgent`. */
  readonly metrics?: RequestObserver;
  /** Returns a number in [0, 1). */
  readonly random?: () => number;
}

export interface HttpClient extends Client {
  withSpanContext(spanContext: SpanContext | undefined): HttpClient;
  /** Returns a client with the same credentials and connection, and another user agent such as `kubelet/v1.36.0`. */
  withUserAgent(userAgent: string): HttpClient;
  /** Changes the client certificate and the trusted CAs (PEM). Watches continue on the previous connection for at most a minute. */
  updateCertificates(material: TlsMaterial): void;
  /** Aborts all requests, also of clients from `withSpanContext`. An idle client does not keep the process alive, even if it is not closed. */
  close(): void;
}

/**
 * Returns a client of the API over HTTPS. It connects at the first request. A response with `Retry-After` is retried after that time, at most
 * ten times. @throws Error if the options are contradictory
 */
export function httpClient(options: HttpClientOptions): HttpClient {
  const {
    clock = systemClock,
    random = Math.random,
    userAgent = 'oarlock',
    token,
    tokenFile,
    credentials,
    requestTimeoutMs = 65_000,
    maxResponseBytes = 256 * 1024 * 1024,
  } = options;
  const servers = options.servers ?? new ServerList([options.server], { random });
  const server = new URL(servers.preferred);
  if (server.protocol === 'http:' && (token !== undefined || tokenFile !== undefined || credentials !== undefined))
    throw new Error('a token is not sent over plain http');
  const tls = {
    minVersion: 'TLSv1.2' as const,
    checkServerIdentity: checkSubjectAlternativeNames,
    ...(options.ca !== undefined && { ca: options.ca }),
    ...(options.cert !== undefined && { cert: options.cert }),
    ...(options.key !== undefined && { key: options.key }),
    ...(options.tlsServerName !== undefined && { servername: options.tlsServerName }),
    ...(options.insecureSkipTlsVerify === true && { rejectUnauthorized: false }),
  };
  const transport = new HttpTransport({ servers, tls, clock, random });
  const exchange: HttpExchangeOptions = {
    transport,
    prefix: server.pathname.replace(/\/+$/, ''),
    token: credentials === undefined ? new BearerToken({ token, tokenFile, clock }) : credentialsToPresent(credentials, transport),
    clock,
    userAgent,
    requestTimeoutMs,
    maxResponseBytes,
    metrics: options.metrics,
    host: preferredHost(servers),
  };
  return new HttpsClient(transport, {
    exchange: new HttpExchange(exchange),
    maxEventBytes: options.maxEventBytes ?? 16 * 1024 * 1024,
    spanContext: undefined,
  });
}

/** Returns a function that returns the host and port of the preferred server. It parses a URL only when another server is preferred. */
function preferredHost(servers: ServerList): () => string {
  let url = '';
  let host = '';
  return () => {
    if (servers.preferred !== url) {
      url = servers.preferred;
      ({ host } = new URL(url));
    }
    return host;
  };
}

/** Adapts a credential source: returns its token, and passes its certificate to the transport. */
function credentialsToPresent(credentials: CredentialSource, transport: HttpTransport): TokenSource {
  let last: string | undefined;
  return {
    async get() {
      const { token, cert, key } = await credentials.get();
      if (cert !== undefined && key !== undefined && cert !== last) {
        transport.updateCertificates({ cert, key });
        last = cert;
      }
      return token;
    },
    handleUnauthorized: () => credentials.handleUnauthorized(),
  };
}

const patchTypes: Readonly<Record<PatchType, string>> = {
  json: 'application/json-patch+json',
  merge: 'application/merge-patch+json',
  strategic: 'application/strategic-merge-patch+json',
  apply: 'application/apply-patch+yaml',
};
const methods = {
  get: 'GET',
  list: 'GET',
  watch: 'GET',
  create: 'POST',
  update: 'PUT',
  patch: 'PATCH',
  delete: 'DELETE',
  deletecollection: 'DELETE',
} as const;

/** The exchange of requests and the limits of watches. */
export interface HttpsClientOptions {
  readonly exchange: HttpExchange;
  readonly maxEventBytes: number;
  readonly spanContext: SpanContext | undefined;
}

class HttpsClient extends ObjectClient implements HttpClient {
  readonly #transport: HttpTransport;
  readonly #exchange: HttpExchange;
  readonly #maxEventBytes: number;
  readonly #spanContext: SpanContext | undefined;

  constructor(transport: HttpTransport, { exchange, maxEventBytes, spanContext }: HttpsClientOptions) {
    super();
    this.#transport = transport;
    this.#exchange = exchange;
    this.#maxEventBytes = maxEventBytes;
    this.#spanContext = spanContext;
  }

  async list<T extends KubeObject>(resource: Resource<T>, options?: ListOptions): Promise<ObjectList<T>> {
    const list = await this.#json<{ items?: readonly T[] | null } & Omit<ObjectList<T>, 'items'>>(listCall(resource, options));
    const [apiVersion, { kind }] = [apiVersionOf(resource), resource];
    // items of a typed list have no apiVersion and kind
    const items = (list.items ?? []).map((item) => (item.kind === undefined ? Object.freeze({ apiVersion, kind, ...item }) : item));
    return Object.freeze({ ...list, items: Object.freeze(items) });
  }

  async *watch<T extends KubeObject>(resource: Resource<T>, options: WatchOptions): AsyncGenerator<readonly WatchEvent<T>[]> {
    const { signal } = options;
    try {
      const body = await this.#exchange.stream({
        ...this.#request(watchCall(resource, options)),
        headers: { ...this.#headers(), 'x-oarlock-cause': '1' },
      });
      yield* decodeWatchEvents(body, { maxFrameBytes: this.#maxEventBytes, ignoreNulls: mayIgnoreNulls(resource) }) as AsyncGenerator<
        readonly WatchEvent<T>[]
      >;
    } catch (error) {
      if (signal.aborted) return;
      throw unavailable(error);
    }
  }

  async deleteCollection<T extends KubeObject>(
    resource: Resource<T>,
    options?: DeleteOptions & Pick<ListOptions, 'namespace' | 'labelSelector' | 'fieldSelector'>,
  ): Promise<void> {
    await this.#json(deleteCollectionCall(resource, options));
  }

  async raw(method: 'GET' | 'POST' | 'PUT' | 'DELETE', path: string, body?: unknown, { signal }: CallOptions = {}): Promise<unknown> {
    if (!path.startsWith('/')) throw failure('BadRequest', `the path ${JSON.stringify(path)} does not begin with a slash`);
    return this.#answer({
      method,
      path,
      headers: { ...this.#headers(), ...(body !== undefined && { 'content-type': 'application/json' }) },
      body,
      signal,
    });
  }

  withSpanContext(spanContext: SpanContext | undefined): HttpClient {
    return new HttpsClient(this.#transport, { exchange: this.#exchange, maxEventBytes: this.#maxEventBytes, spanContext });
  }

  withUserAgent(userAgent: string): HttpClient {
    return new HttpsClient(this.#transport, {
      exchange: this.#exchange.withUserAgent(userAgent),
      maxEventBytes: this.#maxEventBytes,
      spanContext: this.#spanContext,
    });
  }

  updateCertificates(material: TlsMaterial): void {
    this.#transport.updateCertificates(material);
  }

  close(): void {
    this.#transport.close();
  }

  protected requestObject<T extends KubeObject>(call: ApiCall): Promise<T> {
    return this.#json<T>(call);
  }

  async #json<T>(call: ApiCall): Promise<T> {
    return deepFreeze(await this.#answer(this.#request(call))) as T;
  }

  async #answer(request: Parameters<HttpExchange['json']>[0]): Promise<unknown> {
    try {
      return await this.#exchange.json(request);
    } catch (error) {
      if (request.signal?.aborted === true) throw request.signal.reason;
      throw unavailable(error);
    }
  }

  #request(call: ApiCall) {
    const { verb, body, patchType, signal } = call;
    const contentType = patchType === undefined ? 'application/json' : patchTypes[patchType];
    return {
      method: methods[verb],
      path: pathOf(call),
      body,
      signal,
      ignoreNulls: mayIgnoreNulls(call.resource),
      headers: { ...this.#headers(), ...(body !== undefined && { 'content-type': contentType }) },
    };
  }

  #headers(): Record<string, string> {
    return { accept: 'application/json', ...(this.#spanContext && { traceparent: formatTraceparent(this.#spanContext) }) };
  }
}

function pathOf({ resource, namespace, name, subresource, query }: ApiCall): string {
  const parts = [resource.group === '' ? `/api/${resource.version}` : `/apis/${resource.group}/${resource.version}`];
  if (resource.namespaced && namespace !== '') parts.push('namespaces', encodeURIComponent(namespace));
  parts.push(resource.resource);
  if (name !== '') parts.push(encodeURIComponent(name));
  if (subresource !== '') parts.push(subresource);
  const search = new URLSearchParams(
    Object.entries(query).flatMap(([key, value]): [string, string][] => (value === undefined ? [] : [[key, value]])),
  ).toString();
  return search === '' ? parts.join('/') : `${parts.join('/')}?${search}`;
}

/** Returns a StatusError as it is; any other error becomes `ServiceUnavailable` with `cause`. */
function unavailable(error: unknown): unknown {
  if (error instanceof StatusError) return error;
  const message = errorText(error);
  const { status } = failure(
    'ServiceUnavailable',
    error instanceof TransportError ? `the API server could not be reached: ${message}` : message,
  );
  return new StatusError(status, { cause: error });
}
