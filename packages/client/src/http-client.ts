import { deepFreeze, type KubeObject, type ObjectList } from '@oarlock/api/object';
import { apiVersionOf, type Resource } from '@oarlock/api/resource';
import { failure, StatusError } from '@oarlock/api/status';
import { systemClock, type Clock } from '@oarlock/kernel/clock';
import { formatTraceparent, type Cause } from '@oarlock/kernel/tracing';
import type { CallOptions, Client, DeleteOptions, ListOptions, PatchType, WatchEvent, WatchOptions } from '@oarlock/spi/client';
import { checkAlternativeNames } from '@oarlock/spi/kept-connection';
import { BearerToken, type TokenSource } from './bearer-token.ts';
import type { CredentialSource } from './exec-credential.ts';
import { nullsSayNothing } from './go-nulls.ts';
import { HttpExchange, type HttpExchangeOptions } from './http-exchange.ts';
import { HttpTransport, type Shown } from './http-transport.ts';
import { TransportError } from './http-connection.ts';
import { ObjectCalls } from './object-calls.ts';
import { deleteCollectionCall, listCall, watchCall, type Call } from './request.ts';
import { watchFrames } from './watch-frames.ts';

export interface HttpClientOptions {
  /** `https://10.0.0.1:6443`, perhaps with a path that stands before `/api`. */
  readonly server: string;
  /** PEM of the CAs that the server's certificate is verified against. Absent: those of the system. */
  readonly ca?: string;
  /** PEM of the client certificate, with `key`. */
  readonly cert?: string;
  readonly key?: string;
  readonly token?: string;
  /** Read again every minute, and when the server refuses the token. */
  readonly tokenFile?: string;
  /** In place of a token and a certificate: asked before each request. */
  readonly credentials?: CredentialSource;
  /** The name that the server's certificate is to be for, when it is not the host of `server`. */
  readonly tlsServerName?: string;
  /** Takes whatever certificate the server shows. Never the default. */
  readonly insecureSkipTlsVerify?: boolean;
  readonly userAgent?: string;
  /** Requests but watches are given up after so long, with `ServiceUnavailable`. Default 65,000 ms, a little more than servers allow themselves. */
  readonly requestTimeoutMs?: number;
  /** The longest response but of watches. Default 256 MiB. */
  readonly maxResponseBytes?: number;
  /** The longest watch event. Default 16 MiB. */
  readonly maxEventBytes?: number;
  readonly clock?: Clock;
  /** In [0, 1). */
  readonly random?: () => number;
}

export interface HttpClient extends Client {
  causedBy(cause: Cause | undefined): HttpClient;
  /** The same credentials over the same connection, under another name such as `kubelet/v1.36.0`. */
  as(userAgent: string): HttpClient;
  /** Shows another client certificate, and trusts other CAs, from now on (PEM). Watches go on over the former connection for a minute at most. */
  renew(shown: Shown): void;
  /** Ends everything under way, of all clients that `causedBy` made too. A client that is not closed does not keep the process alive while it is idle. */
  close(): void;
}

/**
 * The API over HTTPS. Connects when it is first used. A refusal with `Retry-After` is waited out, at most ten times. Needs neither `open` nor,
 * at the end of a process, `close`. Throws at once when the options make no sense.
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
  const server = new URL(options.server);
  if (server.protocol !== 'https:' && server.protocol !== 'http:') throw new Error(`${options.server} is neither https nor http`);
  if (server.protocol === 'http:' && (token !== undefined || tokenFile !== undefined || credentials !== undefined))
    throw new Error('a token is not sent over plain http');
  const tls = {
    minVersion: 'TLSv1.2' as const,
    checkServerIdentity: checkAlternativeNames,
    ...(options.ca !== undefined && { ca: options.ca }),
    ...(options.cert !== undefined && { cert: options.cert }),
    ...(options.key !== undefined && { key: options.key }),
    ...(options.tlsServerName !== undefined && { servername: options.tlsServerName }),
    ...(options.insecureSkipTlsVerify === true && { rejectUnauthorized: false }),
  };
  const transport = new HttpTransport({ server, tls, clock, random });
  const exchange: HttpExchangeOptions = {
    transport,
    prefix: server.pathname.replace(/\/+$/, ''),
    token: credentials === undefined ? new BearerToken({ token, tokenFile, clock }) : shown(credentials, transport),
    clock,
    userAgent,
    requestTimeoutMs,
    maxResponseBytes,
  };
  return new HttpsClient(transport, new HttpExchange(exchange), options.maxEventBytes ?? 16 * 1024 * 1024, undefined);
}

/** The token of each credential; a certificate that comes with it is shown from then on. */
function shown(credentials: CredentialSource, transport: HttpTransport): TokenSource {
  let last: string | undefined;
  return {
    async get() {
      const { token, cert, key } = await credentials.get();
      if (cert !== undefined && key !== undefined && cert !== last) {
        transport.renew({ cert, key });
        last = cert;
      }
      return token;
    },
    refused: () => credentials.refused(),
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

class HttpsClient extends ObjectCalls implements HttpClient {
  readonly #transport: HttpTransport;
  readonly #exchange: HttpExchange;
  readonly #maxEventBytes: number;
  readonly #cause: Cause | undefined;

  constructor(transport: HttpTransport, exchange: HttpExchange, maxEventBytes: number, cause: Cause | undefined) {
    super();
    this.#transport = transport;
    this.#exchange = exchange;
    this.#maxEventBytes = maxEventBytes;
    this.#cause = cause;
  }

  async list<T extends KubeObject>(resource: Resource<T>, options?: ListOptions): Promise<ObjectList<T>> {
    const list = await this.#json<{ items?: readonly T[] | null } & Omit<ObjectList<T>, 'items'>>(listCall(resource, options));
    const [apiVersion, { kind }] = [apiVersionOf(resource), resource];
    // Items of a typed list come without their kind.
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
      yield* watchFrames(body, { maxFrameBytes: this.#maxEventBytes, nullsSayNothing: nullsSayNothing(resource) }) as AsyncGenerator<
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

  causedBy(cause: Cause | undefined): HttpClient {
    return new HttpsClient(this.#transport, this.#exchange, this.#maxEventBytes, cause);
  }

  as(userAgent: string): HttpClient {
    return new HttpsClient(this.#transport, this.#exchange.as(userAgent), this.#maxEventBytes, this.#cause);
  }

  renew(shown: Shown): void {
    this.#transport.renew(shown);
  }

  close(): void {
    this.#transport.close();
  }

  protected object<T extends KubeObject>(call: Call): Promise<T> {
    return this.#json<T>(call);
  }

  async #json<T>(call: Call): Promise<T> {
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

  #request(call: Call) {
    const { verb, body, patchType, signal } = call;
    const contentType = patchType === undefined ? 'application/json' : patchTypes[patchType];
    return {
      method: methods[verb],
      path: pathOf(call),
      body,
      signal,
      nullsSayNothing: nullsSayNothing(call.resource),
      headers: { ...this.#headers(), ...(body !== undefined && { 'content-type': contentType }) },
    };
  }

  #headers(): Record<string, string> {
    return { accept: 'application/json', ...(this.#cause && { traceparent: formatTraceparent(this.#cause) }) };
  }
}

function pathOf({ resource, namespace, name, subresource, query }: Call): string {
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

/** Refusals as they are; everything that went wrong on the way is `ServiceUnavailable`. */
function unavailable(error: unknown): unknown {
  if (error instanceof StatusError) return error;
  const message = error instanceof Error ? error.message : String(error);
  const { status } = failure(
    'ServiceUnavailable',
    error instanceof TransportError ? `the API server could not be reached: ${message}` : message,
  );
  return new StatusError(status, { cause: error });
}
