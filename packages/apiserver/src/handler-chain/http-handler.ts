import type { Kind } from '@oarlock/api/kinds';
import { StatusError } from '@oarlock/api/status';
import type { Timer } from '@oarlock/primitives/clock';
import { continueWith, withCleanup } from '@oarlock/primitives/concurrency/continue-with';
import { eventLoop } from '@oarlock/primitives/concurrency/event-loop';
import type { Identity } from '@oarlock/spi/authn';
import type { Aggregator } from '../aggregation/aggregator.ts';
import type { Remote } from '../aggregation/remote.ts';
import { plainNotFound, shuttingDown, statusOf, timedOut } from '../http/errors.ts';
import type { Exchange, UpgradeRequest } from '../http/exchange.ts';
import { parseTarget } from '../http/path.ts';
import { requestInfo, type NonResourceInfo } from '../http/request-info.ts';
import { reportedVerb, type RequestMetrics } from '../http/request-metrics.ts';
import { addWarnings, preloadStatusEncoding, sendStatus, sendText } from '../http/response.ts';
import { isLongRunning, Routes, type Route } from '../http/routes.ts';
import { isConfidential } from '../endpoints/request/confidential.ts';
import { DeadlineQueue } from './deadline-queue.ts';
import type { HttpPipeline } from './http-pipeline.ts';
import { InFlightRequest, type ParsedRequest } from './in-flight-request.ts';
import type { PathEndpoints } from './path-endpoints.ts';
import { auditIdOf, RequestFilters, type RequestFilterOptions } from './request-filters.ts';
import { requestDeadlineMs } from './request-timeout.ts';
import { ResourceHandler, type ResourceHandlerOptions, type ResourceRequest } from './resource-handler.ts';

export interface HttpHandlerOptions extends RequestFilterOptions, ResourceHandlerOptions {
  readonly pipeline: HttpPipeline;
  readonly paths: PathEndpoints;
  /** The aggregator, which serves the API groups of extension API servers. */
  readonly aggregator?: Pick<Aggregator, 'find' | 'findDocument' | 'serve'>;
  readonly metrics: RequestMetrics;
  readonly requestTimeoutMs: number;
}

/** The length of a message in characters, and the number of causes, above which an error yields to the event loop before it is sent. */
const [largeErrorLength, largeErrorCauses] = [65_536, 1_000];

/** Handles HTTP requests: runs the filters and the handlers in order. */
export class HttpHandler {
  readonly #options: HttpHandlerOptions;
  readonly #filters: RequestFilters;
  readonly #resources: ResourceHandler;
  #active = 0;
  readonly #longRunning = new Set<Exchange>();
  #routes = new Routes([]);
  #routedKinds: readonly Kind[] | undefined;
  readonly #deadlines: DeadlineQueue;
  #draining = false;
  #onDrained: (() => void) | undefined;

  constructor(options: HttpHandlerOptions) {
    this.#options = options;
    this.#filters = new RequestFilters(options);
    this.#resources = new ResourceHandler(options);
    this.#deadlines = new DeadlineQueue(options.clock, options.requestTimeoutMs);
  }

  /** Handles a request. Never throws or rejects, because errors are sent to the client. Returns a promise only if a step has to wait. */
  handle(exchange: Exchange, upgrade?: UpgradeRequest): void | Promise<void> {
    const { clock } = this.#options;
    const startedAt = clock.monotonic();
    const auditId = auditIdOf(exchange);
    const state = new InFlightRequest({ auditId, startedAt, receivedAt: clock.now() });
    this.#active += 1;
    exchange.setHeader('Audit-Id', auditId);
    exchange.setHeader('Cache-Control', 'no-cache, private');
    try {
      if (this.#draining) throw shuttingDown();
      const handling = this.#handleWithDeadline(this.#parse(exchange, state, upgrade));
      if (handling !== undefined)
        return handling.catch((error: unknown) => this.#reject(exchange, error, state)).finally(() => this.#end(exchange, state));
    } catch (error) {
      return this.#reject(exchange, error, state).finally(() => this.#end(exchange, state));
    }
    this.#end(exchange, state);
    return undefined;
  }

  async #reject(exchange: Exchange, error: unknown, state: InFlightRequest): Promise<void> {
    await preloadStatusEncoding(exchange);
    // the error, its response and its audit event contain the same long text
    const isLarge = isLargeError(error);
    if (isLarge) await eventLoop.yield();
    this.#sendError(exchange, error, state);
    if (isLarge) await eventLoop.yield();
  }

  /** Releases what the request holds, and records its audit event and its metrics. */
  #end(exchange: Exchange, state: InFlightRequest): void {
    const { clock, metrics } = this.#options;
    state.release?.();
    exchange.releaseBody();
    this.#active -= 1;
    if (this.#longRunning.size > 0) this.#longRunning.delete(exchange);
    const { route, target } = state;
    state.audit?.recordResponseComplete(exchange.statusCode);
    metrics.observeRequest({
      verb: reportedVerb(exchange.method, route),
      route,
      isDryRun: target?.query.first['dryRun'] === 'All',
      code: exchange.statusCode,
      seconds: (clock.monotonic() - state.startedAt) / 1000,
      waitSeconds: state.waitMs / 1000,
      bytes: exchange.bytesSent,
    });
    if (this.#draining && this.#active === 0) this.#onDrained?.();
  }

  /** The number of requests in progress. */
  get active(): number {
    return this.#active;
  }

  /** Ends watches and streams, rejects new requests, and resolves when all requests in progress have ended. */
  async drain(): Promise<void> {
    this.#draining = true;
    for (const exchange of this.#longRunning) exchange.cancel(shuttingDown());
    if (this.#active > 0)
      await new Promise<void>((resolve) => {
        this.#onDrained = resolve;
      });
  }

  /** Parses the target of a request and finds its route. @throws StatusError `BadRequest` if the target is malformed */
  #parse(exchange: Exchange, state: InFlightRequest, upgrade: UpgradeRequest | undefined): ParsedRequest {
    const target = parseTarget(exchange.target);
    state.target = target;
    const info = requestInfo(exchange.method, target);
    const found = info.kind === 'resource' ? this.#currentRoutes().find(exchange.method, info) : undefined;
    const pathError = found instanceof StatusError ? found : undefined;
    if (!(found instanceof StatusError)) state.route = found;
    return { exchange, upgrade, state, target, info, pathError };
  }

  #handleWithDeadline(request: ParsedRequest): void | Promise<void> {
    const { exchange, state, target } = request;
    const remote = this.#options.aggregator?.find(target.segments);
    if (remote !== undefined) return this.#handleAggregated(request, remote);
    if (state.route?.longRunning === true) {
      this.#longRunning.add(exchange);
      const onEnd = this.#options.metrics.countLongRunning(reportedVerb(exchange.method, state.route), state.route);
      return withCleanup(() => this.#authenticateAndHandle(request), onEnd);
    }
    const timer = this.#startDeadline(request);
    const removeWaiter = eventLoop.addWaiter();
    return withCleanup(
      () => this.#authenticateAndHandle(request),
      () => {
        timer.cancel();
        removeWaiter();
      },
    );
  }

  /**
   * Starts the deadline of a request, at which the server responds with 504 and cancels the request.
   * @throws StatusError `BadRequest` if the timeout in the query is invalid
   */
  #startDeadline({ exchange, target }: ParsedRequest): Timer {
    const { clock, requestTimeoutMs } = this.#options;
    const limit = requestDeadlineMs(requestTimeoutMs, target.query.first['timeout']);
    const expire = () => {
      const status = timedOut();
      this.#sendStatus(exchange, status);
      exchange.cancel(status);
    };
    return limit === requestTimeoutMs ? this.#deadlines.set(expire) : clock.after(limit, expire);
  }

  #authenticateAndHandle(request: ParsedRequest): void | Promise<void> {
    const { clock } = this.#options;
    const from = clock.now();
    const startedAt = clock.monotonic();
    return continueWith(this.#filters.authenticate(request), (identity) => {
      const { route } = request.state;
      // streams would hold a seat until they end; watches hold one until they have begun
      const needsSeat = route?.longRunning !== true || route.verb === 'watch';
      const admitted = needsSeat ? this.#filters.admitToFlowControl(request, identity) : undefined;
      return continueWith(admitted, () => {
        if (request.info.kind === 'path') return this.#handlePath(request, request.info, identity);
        return this.#handleResource(request, identity, { from, to: from + clock.monotonic() - startedAt });
      });
    });
  }

  async #handlePath({ exchange, upgrade, state, target }: ParsedRequest, info: NonResourceInfo, identity: Identity): Promise<void> {
    const { paths, aggregator } = this.#options;
    await this.#filters.authorize(state, info, identity);
    const document = aggregator?.findDocument(target.path);
    if (document !== undefined && aggregator !== undefined) await aggregator.serve(document, { exchange, identity, upgrade });
    else await paths.send(exchange, target, identity);
  }

  #handleResource(request: ParsedRequest, identity: Identity, authentication: ResourceRequest['authentication']): void | Promise<void> {
    const { route } = request.state;
    if (route === undefined) return this.#handleNotFound(request, identity);
    const statusOf = (error: unknown) => this.#statusOf(request.exchange, error, route);
    return this.#resources.handle({ request, route, identity, authentication, statusOf });
  }

  async #handleNotFound({ exchange, state, info, pathError }: ParsedRequest, identity: Identity): Promise<void> {
    // authorization first, so that callers without permission do not learn what exists
    await this.#filters.authorize(state, info, identity);
    if (pathError !== undefined) throw pathError;
    sendText(exchange, 404, plainNotFound);
  }

  /** Forwards a request to an extension API server after authentication and authorization. Watches have no deadline. */
  async #handleAggregated(request: ParsedRequest, remote: Remote): Promise<void> {
    const { exchange, upgrade, state, info } = request;
    const isWatch = info.kind === 'resource' && info.verb === 'watch';
    const isLong = upgrade !== undefined || isWatch || (info.kind === 'resource' && isLongRunning(info.subresource));
    if (isLong) this.#longRunning.add(exchange);
    const timer = isLong ? undefined : this.#startDeadline(request);
    try {
      const identity = await this.#filters.authenticate(request);
      if (!isLong || isWatch) await this.#filters.admitToFlowControl(request, identity);
      await this.#filters.authorize(state, info, identity);
      if (isLong) state.audit?.recordResponseStarted();
      // only the other server knows when a watch has begun
      if (isLong) state.release?.();
      await this.#options.aggregator?.serve(remote, { exchange, identity, upgrade });
    } finally {
      timer?.cancel();
    }
  }

  #currentRoutes(): Routes {
    const served = this.#options.pipeline.servedKinds();
    if (served !== this.#routedKinds) {
      this.#routedKinds = served;
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
    this.#sendStatus(exchange, status);
  }

  /** Sends a Status, and aborts the exchange if that fails. Never throws: nothing catches an error of a timer. */
  #sendStatus(exchange: Exchange, status: StatusError): void {
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

const isLargeError = (error: unknown): boolean =>
  error instanceof StatusError &&
  (error.message.length > largeErrorLength || (error.status.details?.causes?.length ?? 0) > largeErrorCauses);

function isConfidentialRoute(route: Route | undefined): boolean {
  if (route === undefined) return false;
  const { kind, subresource, namespace } = route;
  return isConfidential({ group: kind.group, resource: kind.resource, subresource: subresource?.name ?? '', namespace });
}
