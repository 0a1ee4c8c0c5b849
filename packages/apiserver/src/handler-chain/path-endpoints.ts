import { emulatedVersions } from '@oarlock/api/component-helpers/feature-gates';
import { badRequest } from '@oarlock/api/status';
import type { Credentials, Identity } from '@oarlock/spi/authn';
import type { Authorizer } from '@oarlock/spi/authz';
import type { PathHandler } from '@oarlock/spi/paths';
import type { Registry } from 'prom-client';
import { errorText } from '@oarlock/primitives/error-text';
import { credentialsOf } from '../authentication/authentication.ts';
import type { Aggregator } from '../aggregation/aggregator.ts';
import type { LoopbackPathHandler } from '../pipeline/loopback-handler.ts';
import type { DiscoveryEndpoints } from '../endpoints/discovery/discovery-endpoints.ts';
import { sliMetrics } from './health-check-metrics.ts';
import type { HealthEndpoints } from './health-endpoints.ts';
import { authorizationError } from '../authorization/require-authorization.ts';
import { requestBodyType, maxBodyBytes } from '../http/request-body.ts';
import { plainNotFound, remoteRejection } from '../http/errors.ts';
import type { Exchange } from '../http/exchange.ts';
import { parseTarget, type Query, type RequestTarget } from '../http/path.ts';
import { attributesOf, requestInfo } from '../http/request-info.ts';
import { negotiateRequest, sendText, sendValue } from '../http/response.ts';
import { methodNotAllowed, pathNotFound } from '../http/routes.ts';
import type { ZPages } from './zpages.ts';
import { mergeMetrics } from '../metrics/merge-metrics.ts';
import { metricsText } from '@oarlock/kernel/metrics-text';
import type { OpenApiEndpoints } from '../endpoints/openapi/openapi-endpoints.ts';

/** A request for a non-resource path, independent of HTTP. */
export interface PathRequest {
  readonly method: string;
  readonly target: RequestTarget;
  readonly body: unknown;
  readonly identity: Identity;
}

export interface PathEndpointsOptions {
  readonly discovery: DiscoveryEndpoints;
  readonly openApi: OpenApiEndpoints;
  readonly health: HealthEndpoints;
  readonly handlers: readonly PathHandler[];
  readonly version: string;
  /** The emulated version of Kubernetes, such as `1.35`; that of `version` by default. */
  readonly emulationVersion?: string;
  registries(): readonly Registry[];
  /** Returns the metrics of other processes that serve the API with this one, in the text format. */
  otherMetrics?(): Promise<readonly string[]>;
  /** The debug pages by path. A page is generated for each request. */
  readonly pages?: ReadonlyMap<string, () => string>;
  readonly zPages?: ZPages;
}

/** The paths of metrics with the names of the metrics that they serve; undefined: all. */
const metricPaths: ReadonlyMap<string, ReadonlySet<string> | undefined> = new Map([
  ['/metrics', undefined],
  ['/metrics/slis', sliMetrics],
]);

/** Returns the names of the requested metrics among those that a path serves; undefined: all. */
function selectedMetrics(served: ReadonlySet<string> | undefined, requested: readonly string[]): ReadonlySet<string> | undefined {
  if (requested.length === 0) return served;
  return new Set(requested.filter((name) => served?.has(name) !== false));
}

/** Serves all non-resource paths, such as discovery, OpenAPI, health and metrics. The caller has authorized the request. */
export class PathEndpoints {
  readonly #options: PathEndpointsOptions;
  readonly #exactHandlers = new Map<string, PathHandler>();
  readonly #prefixHandlers: { readonly prefix: string; readonly handler: PathHandler }[] = [];
  readonly #version: Readonly<Record<string, string>>;

  /** Creates the endpoints. @throws Error if two handlers have the same path */
  constructor(options: PathEndpointsOptions) {
    this.#options = options;
    this.#version = versionInfo(options.version, options.emulationVersion);
    for (const handler of options.handlers) {
      const below = handler.path.endsWith('/*');
      if (below ? this.#prefixHandlers.some(({ prefix }) => handler.path === `${prefix}*`) : this.#exactHandlers.has(handler.path))
        throw new Error(`two handlers claim ${handler.path}`);
      if (below) this.#prefixHandlers.push({ prefix: handler.path.slice(0, -1), handler });
      else this.#exactHandlers.set(handler.path, handler);
    }
    this.#prefixHandlers.sort((a, b) => b.prefix.length - a.prefix.length);
  }

  /** Handles an HTTP request for a non-resource path. @throws StatusError if the request is rejected */
  async send(exchange: Exchange, target: RequestTarget, identity: Identity): Promise<void> {
    const { discovery, openApi, health, zPages } = this.#options;
    const { path, query } = target;
    const { method } = exchange;
    const handler = this.#handlerOf(path);
    if (handler !== undefined) {
      await this.#handle(handler, exchange, { target, identity });
      return;
    }
    const plain = path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path;
    const page = this.#options.pages?.get(plain);
    const known =
      plain === '/' ||
      plain === '/version' ||
      metricPaths.has(plain) ||
      page !== undefined ||
      zPages?.has(plain) === true ||
      health.has(plain) ||
      openApi.has(path) ||
      discovery.has(plain);
    if (!known) {
      sendText(exchange, 404, plainNotFound);
      return;
    }
    if (method !== 'GET' && method !== 'HEAD') throw methodNotAllowed();
    if (page !== undefined) sendText(exchange, 200, page());
    else if (zPages?.has(plain) === true) {
      const { contentType, body } = zPages.page(plain, exchange.headers.accept, this.#paths());
      exchange.setHeader('Content-Type', contentType);
      exchange.send(200, body);
    } else if (health.has(plain)) {
      const { code, text } = await health.answer(plain, query);
      sendText(exchange, code, text);
    } else if (openApi.has(path)) await openApi.send(exchange, path, query);
    else if (discovery.has(plain)) await discovery.send(exchange, plain, () => negotiateRequest(exchange, query, 'objects'));
    else if (metricPaths.has(plain)) {
      const { contentType, text } = await this.#metrics(plain, query);
      exchange.setHeader('Content-Type', contentType);
      exchange.send(200, text);
    } else
      sendValue(
        exchange,
        { code: 200, value: plain === '/version' ? this.#version : { paths: this.#paths() } },
        { ...negotiateRequest(exchange, query), pretty: true },
      );
  }

  /** Returns the result of a request for a non-resource path without HTTP, for loopback clients. @throws StatusError if the request is rejected */
  async value({ method, target, body, identity }: PathRequest): Promise<unknown> {
    const { path, query } = target;
    const handler = this.#handlerOf(path);
    if (handler !== undefined) {
      if (!handler.methods.some((known) => known === method)) throw methodNotAllowed();
      const response = await handler.handle({ method, path, query: query.first, body, identity });
      if (response.code >= 400) throw remoteRejection(response.code, response.body);
      return response.body;
    }
    if (method !== 'GET') throw pathNotFound();
    if (path === '/version') return this.#version;
    if (path === '/') return { paths: this.#paths() };
    if (this.#options.health.has(path)) return (await this.#options.health.answer(path, query)).text;
    if (metricPaths.has(path)) return (await this.#metrics(path, query)).text;
    const document = this.#options.discovery.value(path);
    if (document === undefined) throw pathNotFound();
    return document;
  }

  /**
   * Returns the metrics of a path: the sums of all processes that serve the API. With `name[]`, as of Prometheus' own client libraries, only the metrics with
   * these names are collected. kube-apiserver ignores the parameter.
   */
  async #metrics(path: string, query: Query): ReturnType<typeof metricsText> {
    const names = selectedMetrics(metricPaths.get(path), query.all('name[]'));
    const [own, others] = await Promise.all([metricsText(this.#options.registries(), names), this.#options.otherMetrics?.() ?? []]);
    return others.length === 0 ? own : { ...own, text: mergeMetrics([own.text, ...others], names) };
  }

  #handlerOf(path: string): PathHandler | undefined {
    return this.#exactHandlers.get(path) ?? this.#prefixHandlers.find(({ prefix }) => path.startsWith(prefix))?.handler;
  }

  async #handle(handler: PathHandler, exchange: Exchange, { target, identity }: Pick<PathRequest, 'target' | 'identity'>): Promise<void> {
    const { method } = exchange;
    const { path, query } = target;
    if (!handler.methods.some((known) => known === method)) throw methodNotAllowed();
    const body = method === 'GET' || method === 'DELETE' ? undefined : await jsonBody(exchange);
    const credentials: Credentials = credentialsOf(exchange, path);
    const response = await handler.handle({ method, path, query: query.first, body, identity, credentials });
    if (response.cacheControl !== undefined) exchange.setHeader('Cache-Control', response.cacheControl);
    for (const [name, value] of Object.entries(response.headers ?? {})) exchange.setHeader(name, value);
    if (response.contentType === undefined) {
      sendValue(exchange, { code: response.code, value: response.body as object }, negotiateRequest(exchange, query));
      return;
    }
    exchange.setHeader('Content-Type', response.contentType);
    exchange.send(response.code, Buffer.isBuffer(response.body) ? response.body : JSON.stringify(response.body));
  }

  /** Returns the paths that `/` lists, as upstream: each path of a handler, and `/PREFIX/` for a handler of all paths below a prefix. */
  #paths(): readonly string[] {
    const { discovery, openApi, health } = this.#options;
    const pages = this.#options.pages?.keys() ?? [];
    return [
      ...discovery.paths,
      ...openApi.paths,
      ...health.paths,
      ...pages,
      ...(this.#options.zPages?.paths ?? []),
      ...metricPaths.keys(),
      '/version',
      ...this.#exactHandlers.keys(),
      ...this.#prefixHandlers.map(({ prefix }) => prefix),
    ].sort();
  }
}

/**
 * Returns the handler of non-resource paths for the loopback client. Requests are authorized as over HTTP, and can also read from extension API
 * servers.
 */
export function loopbackPathHandler(
  paths: PathEndpoints,
  authz: readonly Authorizer[],
  aggregator?: Pick<Aggregator, 'find' | 'read'>,
): LoopbackPathHandler {
  return async (method, path, body, identity) => {
    const target = parseTarget(path);
    const remote = method === 'GET' ? aggregator?.find(target.segments) : undefined;
    const plain = { kind: 'path', verb: method.toLowerCase(), path: target.path } as const;
    const rejection = await authorizationError(authz, attributesOf(remote === undefined ? plain : requestInfo(method, target), identity));
    if (rejection !== undefined) throw rejection;
    return remote === undefined || aggregator === undefined
      ? paths.value({ method, target, body, identity })
      : aggregator.read(remote, path, identity);
  };
}

async function jsonBody(exchange: Exchange): Promise<unknown> {
  const bytes = await exchange.readBody(maxBodyBytes);
  if (bytes.length === 0) return undefined;
  if (requestBodyType(exchange.headers['content-type']) !== 'application/json') throw badRequest('the body has to be JSON');
  try {
    return JSON.parse(bytes.toString('utf8'));
  } catch (error) {
    throw badRequest(`the body is no JSON: ${errorText(error)}`);
  }
}

/** The minor version of the oldest version that can be emulated, which is also the lowest minimum compatibility version. */
const oldestMinor = Number(emulatedVersions[0].split('.')[1]);

/** Returns the `version.Info` object of apimachinery, which `/version` serves. */
function versionInfo(gitVersion: string, emulated = gitVersion.slice(1)): Readonly<Record<string, string>> {
  const [, major = '', minor = ''] = /^v(\d+)\.(\d+)/.exec(gitVersion) ?? [];
  const [, emulationMajor = '', emulationMinor = ''] = /^(\d+)\.(\d+)/.exec(emulated) ?? [];
  const platform = `${process.platform}/${process.arch === 'x64' ? 'amd64' : process.arch}`;
  return {
    major,
    minor,
    emulationMajor,
    emulationMinor,
    minCompatibilityMajor: emulationMajor,
    minCompatibilityMinor: emulationMinor === '' ? '' : String(Math.max(Number(emulationMinor) - 1, oldestMinor)),
    gitVersion,
    gitCommit: '',
    gitTreeState: 'clean',
    buildDate: '1970-01-01T00:00:00Z',
    goVersion: process.version,
    compiler: 'node',
    platform,
  };
}
