import type { Kind } from '@oarlock/api/kinds';
import { badRequest, StatusError } from '@oarlock/api/status';
import { eventLoop } from '@oarlock/primitives/event-loop';
import type { Identity } from '@oarlock/spi/authn';
import type { ApiRequest } from '@oarlock/spi/loopback';
import { plainNotFound, shuttingDown, statusOf, timedOut } from '../http/errors.ts';
import type { Exchange, UpgradeRequest } from '../http/exchange.ts';
import { auditIdOf, RequestFilters, type RequestFilterOptions, type InFlightRequest } from './request-filters.ts';
import type { Aggregator } from '../aggregation/aggregator.ts';
import type { ProxyEndpoints } from '../proxy/proxy-endpoints.ts';
import { parseTarget, type RequestTarget } from '../http/path.ts';
import type { PathEndpoints } from './path-endpoints.ts';
import { isConfidential } from '../request/confidential.ts';
import { newApiRequest } from './http-api-request.ts';
import { requestInfo, type RequestInfo, type ResourceInfo } from '../http/request-info.ts';
import { negotiateForRoute, addWarnings, preloadStatusEncoding, sendResponse, sendStatus, sendText } from '../http/response.ts';
import { isLongRunning, Routes, type Route } from '../http/routes.ts';
import type { NegotiatedFormat } from '../negotiation/negotiation.ts';
import { DeadlineQueue } from './deadline-queue.ts';
import { requestDeadlineMs } from './request-timeout.ts';
import { reportedVerb, type RequestMetrics } from '../http/request-metrics.ts';
import type { PipelineResponse } from '../request/response.ts';
import type { KubeletProxy } from '../proxy/kubelet-proxy.ts';
import { wantsWebSocket, webSocketExchange } from '../http/websocket-exchange.ts';
import type { Remote } from '../aggregation/remote.ts';

/** What HTTP needs of the pipeline. */
export interface HttpPipeline {
  handle(request: ApiRequest): Promise<PipelineResponse>;
  /** The same array as long as nothing changes. */
  servedKinds(): readonly Kind[];
  /** How many objects a list would have to look at. */
  count(group: string, version: string, resource: string): number;
}

export interface HttpHandlerOptions extends RequestFilterOptions {
  readonly pipeline: HttpPipeline;
  readonly paths: PathEndpoints;
  readonly kubeletProxy: KubeletProxy;
  readonly proxyEndpoints: ProxyEndpoints;
  /** API groups of other servers; absent where there are none. */
  readonly aggregator?: Pick<Aggregator, 'find' | 'findDocument' | 'serve'>;
  readonly metrics: RequestMetrics;
  readonly requestTimeoutMs: number;
}

/** The stages of a request, in the order they run. */
export class HttpHandler {
  readonly #options: HttpHandlerOptions;
  readonly #filters: RequestFilters;
  readonly #active = new Set<Exchange>();
  readonly #longRunning = new Set<Exchange>();
  #routes = new Routes([]);
  #routesOf: readonly Kind[] | undefined;
  readonly #deadlines: DeadlineQueue;
  #draining = false;
  #idle: (() => void) | undefined;

  constructor(options: HttpHandlerOptions) {
    this.#options = options;
    this.#filters = new RequestFilters(options);
    this.#deadlines = new DeadlineQueue(options.clock, options.requestTimeoutMs);
  }

  /** Never rejects: what goes wrong is an answer, too. */
  async handle(exchange: Exchange, upgrade?: UpgradeRequest): Promise<void> {
    const { clock, metrics } = this.#options;
    const began = clock.monotonic();
    const auditId = auditIdOf(exchange);
    const work: InFlightRequest = { auditId, receivedAt: clock.now(), warnings: [] };
    this.#active.add(exchange);
    exchange.setHeader('Audit-Id', auditId);
    exchange.setHeader('Cache-Control', 'no-cache, private');
    try {
      if (this.#draining) throw shuttingDown();
      await this.#handleWithDeadline(exchange, work, upgrade);
    } catch (error) {
      await preloadStatusEncoding(exchange);
      this.#sendError(exchange, error, work);
    } finally {
      work.release?.();
      exchange.releaseBody();
      this.#active.delete(exchange);
      this.#longRunning.delete(exchange);
      const { route, target } = work;
      work.audit?.recordResponseComplete(exchange.statusCode);
      metrics.observeRequest(
        reportedVerb(exchange.method, route),
        route,
        target?.query.first['dryRun'] === 'All',
        exchange.statusCode,
        (clock.monotonic() - began) / 1000,
        exchange.bytesSent,
      );
      if (this.#draining && this.#active.size === 0) this.#idle?.();
    }
  }

  get active(): number {
    return this.#active.size;
  }

  /** Ends watches and streams, refuses what comes, and resolves when what is under way has been answered. */
  async drain(): Promise<void> {
    this.#draining = true;
    for (const exchange of this.#longRunning) exchange.cancel(shuttingDown());
    if (this.#active.size > 0)
      await new Promise<void>((resolve) => {
        this.#idle = resolve;
      });
  }

  /** Parses the request and gives it the place and the time that its kind of request has. */
  async #handleWithDeadline(exchange: Exchange, work: InFlightRequest, upgrade: UpgradeRequest | undefined): Promise<void> {
    const target = parseTarget(exchange.target);
    work.target = target;
    const info = requestInfo(exchange.method, target);
    const found = info.kind === 'resource' ? this.#currentRoutes().find(exchange.method, info) : undefined;
    if (found !== undefined && !(found instanceof StatusError)) work.route = found;
    const remote = this.#options.aggregator?.find(target.segments);
    if (remote !== undefined) {
      await this.#handleAggregated(exchange, work, target, info, remote, upgrade);
      return;
    }
    if (work.route?.longRunning === true) {
      this.#longRunning.add(exchange);
      const closed = this.#options.metrics.countLongRunning(reportedVerb(exchange.method, work.route), work.route);
      try {
        await this.#handleAuthenticated(exchange, work, target, info, found, upgrade);
      } finally {
        closed();
      }
      return;
    }
    const { clock, requestTimeoutMs } = this.#options;
    const limit = requestDeadlineMs(requestTimeoutMs, target.query.first['timeout']);
    const expire = () => {
      const status = timedOut();
      sendStatus(exchange, status);
      exchange.cancel(status);
    };
    const timer = limit === requestTimeoutMs ? this.#deadlines.set(expire) : clock.after(limit, expire);
    const answered = eventLoop.addWaiter();
    try {
      await this.#handleAuthenticated(exchange, work, target, info, found, upgrade);
    } finally {
      timer.cancel();
      answered();
    }
  }

  async #handleAuthenticated(
    exchange: Exchange,
    work: InFlightRequest,
    target: RequestTarget,
    info: RequestInfo,
    found: Route | StatusError | undefined,
    upgrade: UpgradeRequest | undefined,
  ): Promise<void> {
    const { clock, paths, aggregator } = this.#options;
    const from = clock.now();
    const began = clock.monotonic();
    const identity = await this.#filters.authenticate(exchange, work, target, info);
    // streams would hold a place for ever; watches hold one until they have begun
    const timed = work.route?.longRunning !== true || work.route.verb === 'watch';
    if (timed) await this.#filters.admitToFlowControl(exchange, work, target, info, identity);
    if (info.kind === 'path') {
      await this.#filters.authorize(work, info, identity);
      const document = aggregator?.findDocument(target.path);
      if (document !== undefined && aggregator !== undefined) await aggregator.serve(document, exchange, identity, upgrade);
      else await paths.send(exchange, target, identity);
      return;
    }
    if (found === undefined || found instanceof StatusError) {
      await this.#handleNotFound(exchange, work, info, identity, found);
      return;
    }
    await this.#handleResource(exchange, work, found, target, identity, { from, to: from + clock.monotonic() - began }, upgrade);
  }

  /** A request for another API server: who asks and whether they may is settled here. Watches have no deadline there either. */
  async #handleAggregated(
    exchange: Exchange,
    work: InFlightRequest,
    target: RequestTarget,
    info: RequestInfo,
    remote: Remote,
    upgrade: UpgradeRequest | undefined,
  ): Promise<void> {
    const { aggregator, clock, requestTimeoutMs } = this.#options;
    const long = upgrade !== undefined || (info.kind === 'resource' && (info.verb === 'watch' || isLongRunning(info.subresource)));
    if (long) this.#longRunning.add(exchange);
    const timer = long
      ? undefined
      : clock.after(requestDeadlineMs(requestTimeoutMs, target.query.first['timeout']), () => {
          const status = timedOut();
          sendStatus(exchange, status);
          exchange.cancel(status);
        });
    try {
      const identity = await this.#filters.authenticate(exchange, work, target, info);
      if (!long || (info.kind === 'resource' && info.verb === 'watch'))
        await this.#filters.admitToFlowControl(exchange, work, target, info, identity);
      await this.#filters.authorize(work, info, identity);
      if (long) work.audit?.recordResponseStarted();
      // when a watch has begun there is for the other server to know
      if (long) work.release?.();
      await aggregator?.serve(remote, exchange, identity, upgrade);
    } finally {
      timer?.cancel();
    }
  }

  /** Who may not ask does not learn that there is nothing. */
  async #handleNotFound(
    exchange: Exchange,
    work: InFlightRequest,
    info: ResourceInfo,
    identity: Identity,
    status: StatusError | undefined,
  ): Promise<void> {
    await this.#filters.authorize(work, info, identity);
    if (status !== undefined) throw status;
    sendText(exchange, 404, plainNotFound);
  }

  async #handleResource(
    exchange: Exchange,
    work: InFlightRequest,
    route: Route,
    target: RequestTarget,
    identity: Identity,
    authentication: { readonly from: number; readonly to: number },
    upgrade: UpgradeRequest | undefined,
  ): Promise<void> {
    const { pipeline, kubeletProxy: kubelets, proxyEndpoints: proxies, clock, metrics } = this.#options;
    const { query } = target;
    // what is accepted is a matter for the server behind a proxy
    const accepted = route.subresource?.name === 'proxy' ? plainJson : negotiateForRoute(exchange, query, route);
    const { audit } = work;
    const request = await newApiRequest(
      exchange,
      route,
      query,
      identity,
      authentication,
      (message) => {
        work.warnings.push(message);
      },
      audit,
    );
    const response = await pipeline.handle(request);
    if (audit !== undefined) {
      audit.setResponse(response);
      if (work.route?.longRunning === true) audit.recordResponseStarted();
    }
    // the stored object replaces the body from here on
    exchange.releaseBody();
    if (response.kind === 'watch') work.release?.();
    const endless = response.kind === 'watch' || (response.kind === 'kubelet' && !response.upgrade);
    const reader =
      endless && upgrade !== undefined && wantsWebSocket(exchange)
        ? webSocketExchange(exchange, upgrade, { text: response.kind === 'watch' && accepted.format !== 'protobuf' })
        : exchange;
    if (response.kind === 'proxy') await proxies.serve(response, exchange, target, upgrade);
    else if (response.kind !== 'kubelet') {
      await sendResponse(response, {
        exchange: reader,
        accepted,
        resource: route.resource,
        query,
        clock,
        warnings: work.warnings,
        watched: () => metrics.watchEventObserver(route),
        listed:
          query.first['sendInitialEvents'] === 'true'
            ? () => metrics.observeWatchList(route, (clock.now() - authentication.from) / 1000)
            : undefined,
        statusOf: (error) => this.#statusOf(exchange, error, route),
      });
    } else if (!response.upgrade) await kubelets.stream(response, reader);
    else if (upgrade === undefined) throw badRequest('Upgrade request required');
    else {
      await kubelets.upgrade(response, {
        ...upgrade,
        method: exchange.method,
        headers: exchange.headers,
        signal: exchange.signal,
        begin: (code) => {
          upgrade.begin(code);
        },
      });
    }
  }

  #currentRoutes(): Routes {
    const served = this.#options.pipeline.servedKinds();
    if (served !== this.#routesOf) {
      this.#routesOf = served;
      this.#routes = new Routes(served);
    }
    return this.#routes;
  }

  #sendError(exchange: Exchange, error: unknown, { warnings, audit, route }: InFlightRequest): void {
    if (exchange.state === 'sent') return;
    if (exchange.state === 'fresh') addWarnings(exchange, warnings);
    const status = this.#statusOf(exchange, error, route);
    if (error instanceof StatusError) audit?.recordRejection(status.status);
    else audit?.recordPanic(error);
    try {
      sendStatus(exchange, status);
    } catch (fault) {
      this.#options.log.error({ err: fault, method: exchange.method }, 'an error could not be sent');
      exchange.abort();
    }
  }

  #statusOf(exchange: Exchange, error: unknown, route: Route | undefined): StatusError {
    const path = exchange.target.split('?', 1)[0];
    return statusOf(error, this.#options.log, { method: exchange.method, path, isConfidential: isConfidentialRoute(route) });
  }
}

function isConfidentialRoute(route: Route | undefined): boolean {
  if (route === undefined) return false;
  const { kind, subresource, namespace } = route;
  return isConfidential({ group: kind.group, resource: kind.resource, subresource: subresource?.name ?? '', namespace });
}

const plainJson: NegotiatedFormat = { format: 'json', transform: undefined, version: 'v1', pretty: false };
