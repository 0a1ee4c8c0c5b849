import type { Duplex } from 'node:stream';
import type { Kind } from '@oarlock/api/kinds';
import { badRequest, StatusError } from '@oarlock/api/status';
import { eventLoop } from '@oarlock/kernel/event-loop';
import type { Identity } from '@oarlock/spi/authn';
import type { ApiRequest } from '@oarlock/spi/loopback';
import { plainNotFound, shuttingDown, statusOf, timedOut } from './http-errors.ts';
import type { Exchange } from './http-exchange.ts';
import { auditIdOf, Gate, type GateParts, type Work } from './http-gate.ts';
import type { Aggregator, Remote } from './aggregation/aggregator.ts';
import type { ProxyEndpoints } from './aggregation/proxy-endpoints.ts';
import { parseTarget, type Target } from './http-path.ts';
import type { PathEndpoints } from './http-paths.ts';
import { apiRequest } from './http-request.ts';
import { requestInfo, type RequestInfo, type ResourceInfo } from './http-request-info.ts';
import { acceptedFor, addWarnings, prepareStatus, sendResponse, sendStatus, sendText } from './http-response.ts';
import { isLongRunning, Routes, type Route } from './http-routes.ts';
import type { Accepted } from './negotiation.ts';
import { Deadlines } from './http-deadlines.ts';
import { deadlineMs } from './http-timeout.ts';
import { reportedVerb, type RequestMetrics } from './metrics.ts';
import type { PipelineResponse } from './response.ts';
import type { KubeletProxy } from './upgrade-kubelet.ts';
import { wantsWebSocket, webSocketExchange } from './upgrade-websocket.ts';

/** What HTTP needs of the pipeline. */
export interface HttpPipeline {
  handle(request: ApiRequest): Promise<PipelineResponse>;
  /** The same array as long as nothing changes. */
  served(): readonly Kind[];
  /** How many objects a list would have to look at. */
  count(group: string, version: string, resource: string): number;
}

export interface HttpHandlerOptions extends GateParts {
  readonly pipeline: HttpPipeline;
  readonly paths: PathEndpoints;
  readonly kubelets: KubeletProxy;
  readonly proxies: ProxyEndpoints;
  /** API groups of other servers; absent where there are none. */
  readonly aggregator?: Pick<Aggregator, 'find' | 'findDocument' | 'serve'>;
  readonly metrics: RequestMetrics;
  readonly requestTimeoutMs: number;
}

/** A request that asks to become a byte stream. */
export interface UpgradeSource {
  readonly socket: Duplex;
  readonly head: Buffer;
  /** From here on the connection is no HTTP any more: the exchange has been answered with this code. */
  begin(code: number): void;
}

/** The stages of a request, in the order they run. */
export class HttpHandler {
  readonly #options: HttpHandlerOptions;
  readonly #gate: Gate;
  readonly #active = new Set<Exchange>();
  readonly #longRunning = new Set<Exchange>();
  #routes = new Routes([]);
  #routesOf: readonly Kind[] | undefined;
  readonly #deadlines: Deadlines;
  #draining = false;
  #idle: (() => void) | undefined;

  constructor(options: HttpHandlerOptions) {
    this.#options = options;
    this.#gate = new Gate(options);
    this.#deadlines = new Deadlines(options.clock, options.requestTimeoutMs);
  }

  /** Never rejects: what goes wrong is an answer, too. */
  async handle(exchange: Exchange, upgrade?: UpgradeSource): Promise<void> {
    const { clock, metrics } = this.#options;
    const began = clock.monotonic();
    const auditId = auditIdOf(exchange);
    const work: Work = { auditId, receivedAt: clock.now(), warnings: [] };
    this.#active.add(exchange);
    exchange.setHeader('Audit-Id', auditId);
    exchange.setHeader('Cache-Control', 'no-cache, private');
    try {
      if (this.#draining) throw shuttingDown();
      await this.#bounded(exchange, work, upgrade);
    } catch (error) {
      await prepareStatus(exchange);
      this.#sendError(exchange, error, work);
    } finally {
      work.leave?.();
      this.#active.delete(exchange);
      this.#longRunning.delete(exchange);
      const { route, target } = work;
      work.audit?.complete(exchange.code);
      metrics.finished(
        reportedVerb(exchange.method, route),
        route,
        target?.query.first['dryRun'] === 'All',
        exchange.code,
        (clock.monotonic() - began) / 1000,
        exchange.sent,
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
  async #bounded(exchange: Exchange, work: Work, upgrade: UpgradeSource | undefined): Promise<void> {
    const target = parseTarget(exchange.target);
    work.target = target;
    const info = requestInfo(exchange.method, target);
    const found = info.kind === 'resource' ? this.#currentRoutes().find(exchange.method, info) : undefined;
    if (found !== undefined && !(found instanceof StatusError)) work.route = found;
    const remote = this.#options.aggregator?.find(target.segments);
    if (remote !== undefined) {
      await this.#remote(exchange, work, target, info, remote, upgrade);
      return;
    }
    if (work.route?.longRunning === true) {
      this.#longRunning.add(exchange);
      const closed = this.#options.metrics.longRunning(reportedVerb(exchange.method, work.route), work.route);
      try {
        await this.#authenticated(exchange, work, target, info, found, upgrade);
      } finally {
        closed();
      }
      return;
    }
    const { clock, requestTimeoutMs } = this.#options;
    const limit = deadlineMs(requestTimeoutMs, target.query.first['timeout']);
    const expire = () => {
      const status = timedOut();
      sendStatus(exchange, status);
      exchange.cancel(status);
    };
    const timer = limit === requestTimeoutMs ? this.#deadlines.set(expire) : clock.after(limit, expire);
    const answered = eventLoop.await();
    try {
      await this.#authenticated(exchange, work, target, info, found, upgrade);
    } finally {
      timer.cancel();
      answered();
    }
  }

  async #authenticated(
    exchange: Exchange,
    work: Work,
    target: Target,
    info: RequestInfo,
    found: Route | StatusError | undefined,
    upgrade: UpgradeSource | undefined,
  ): Promise<void> {
    const { clock, paths, aggregator } = this.#options;
    const from = clock.now();
    const began = clock.monotonic();
    const identity = await this.#gate.identity(exchange, work, target, info);
    // streams would hold a place for ever; watches hold one until they have begun
    const timed = work.route?.longRunning !== true || work.route.verb === 'watch';
    if (timed) await this.#gate.enter(exchange, work, target, info, identity);
    if (info.kind === 'path') {
      await this.#gate.authorize(work, info, identity);
      const document = aggregator?.findDocument(target.path);
      if (document !== undefined && aggregator !== undefined) await aggregator.serve(document, exchange, identity, upgrade);
      else await paths.send(exchange, target, identity);
      return;
    }
    if (found === undefined || found instanceof StatusError) {
      await this.#unknown(exchange, work, info, identity, found);
      return;
    }
    await this.#resource(exchange, work, found, target, identity, { from, to: from + clock.monotonic() - began }, upgrade);
  }

  /** A request for another API server: who asks and whether they may is settled here. Watches have no deadline there either. */
  async #remote(
    exchange: Exchange,
    work: Work,
    target: Target,
    info: RequestInfo,
    remote: Remote,
    upgrade: UpgradeSource | undefined,
  ): Promise<void> {
    const { aggregator, clock, requestTimeoutMs } = this.#options;
    const long = upgrade !== undefined || (info.kind === 'resource' && (info.verb === 'watch' || isLongRunning(info.subresource)));
    if (long) this.#longRunning.add(exchange);
    const timer = long
      ? undefined
      : clock.after(deadlineMs(requestTimeoutMs, target.query.first['timeout']), () => {
          const status = timedOut();
          sendStatus(exchange, status);
          exchange.cancel(status);
        });
    try {
      const identity = await this.#gate.identity(exchange, work, target, info);
      if (!long || (info.kind === 'resource' && info.verb === 'watch')) await this.#gate.enter(exchange, work, target, info, identity);
      await this.#gate.authorize(work, info, identity);
      if (long) work.audit?.begin();
      // when a watch has begun there is for the other server to know
      if (long) work.leave?.();
      await aggregator?.serve(remote, exchange, identity, upgrade);
    } finally {
      timer?.cancel();
    }
  }

  /** Who may not ask does not learn that there is nothing. */
  async #unknown(exchange: Exchange, work: Work, info: ResourceInfo, identity: Identity, status: StatusError | undefined): Promise<void> {
    await this.#gate.authorize(work, info, identity);
    if (status !== undefined) throw status;
    sendText(exchange, 404, plainNotFound);
  }

  async #resource(
    exchange: Exchange,
    work: Work,
    route: Route,
    target: Target,
    identity: Identity,
    authentication: { readonly from: number; readonly to: number },
    upgrade: UpgradeSource | undefined,
  ): Promise<void> {
    const { pipeline, kubelets, proxies, clock, metrics } = this.#options;
    const { query } = target;
    // what is accepted is a matter for the server behind a proxy
    const accepted = route.subresource?.name === 'proxy' ? plainJson : acceptedFor(exchange, query, route);
    const { audit } = work;
    const request = await apiRequest(
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
      audit.respond(response);
      if (work.route?.longRunning === true) audit.begin();
    }
    if (response.kind === 'watch') work.leave?.();
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
        watched: () => metrics.watched(route),
        listed:
          query.first['sendInitialEvents'] === 'true'
            ? () => metrics.watchListed(route, (clock.now() - authentication.from) / 1000)
            : undefined,
        statusOf: (error) => this.#statusOf(exchange, error),
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
    const served = this.#options.pipeline.served();
    if (served !== this.#routesOf) {
      this.#routesOf = served;
      this.#routes = new Routes(served);
    }
    return this.#routes;
  }

  #sendError(exchange: Exchange, error: unknown, { warnings, audit }: Work): void {
    if (exchange.state === 'sent') return;
    if (exchange.state === 'fresh') addWarnings(exchange, warnings);
    const status = this.#statusOf(exchange, error);
    if (error instanceof StatusError) audit?.refuse(status.status);
    else audit?.panic(error);
    try {
      sendStatus(exchange, status);
    } catch (fault) {
      this.#options.log.error({ err: fault, method: exchange.method }, 'an error could not be sent');
      exchange.abort();
    }
  }

  #statusOf(exchange: Exchange, error: unknown): StatusError {
    return statusOf(error, this.#options.log, { method: exchange.method, path: exchange.target.split('?', 1)[0] });
  }
}

const plainJson: Accepted = { format: 'json', as: undefined, version: 'v1', pretty: false };
