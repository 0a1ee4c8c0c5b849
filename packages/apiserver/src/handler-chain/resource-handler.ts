import { badRequest, type StatusError } from '@oarlock/api/status';
import type { Clock } from '@oarlock/primitives/clock';
import { continueWith } from '@oarlock/primitives/concurrency/continue-with';
import type { Identity } from '@oarlock/spi/authn';
import type { ApiRequest } from '@oarlock/spi/loopback';
import type { Exchange } from '../http/exchange.ts';
import type { RequestMetrics } from '../http/request-metrics.ts';
import { negotiateForRoute, sendResponse } from '../http/response.ts';
import type { Route } from '../http/routes.ts';
import { wantsWebSocket, webSocketExchange } from '../http/websocket-exchange.ts';
import type { NegotiatedFormat } from '../endpoints/negotiation/negotiation.ts';
import type { KubeletProxy } from '../proxy/kubelet-proxy.ts';
import type { ProxyEndpoints } from '../proxy/proxy-endpoints.ts';
import type { PipelineResponse } from '../endpoints/request/response.ts';
import { newApiRequest } from './http-api-request.ts';
import type { HttpPipeline } from './http-pipeline.ts';
import type { ParsedRequest } from './in-flight-request.ts';

export interface ResourceHandlerOptions {
  readonly pipeline: HttpPipeline;
  readonly kubeletProxy: KubeletProxy;
  readonly proxyEndpoints: ProxyEndpoints;
  readonly metrics: RequestMetrics;
  readonly clock: Clock;
  /** Whether large lists are compressed for clients that accept gzip; true by default. */
  readonly compresses?: boolean;
}

/** A request for a resource after authentication and flow control. */
export interface ResourceRequest {
  readonly request: ParsedRequest;
  readonly route: Route;
  readonly identity: Identity;
  /** The times in milliseconds since the Unix epoch at which authentication began and ended. */
  readonly authentication: NonNullable<ApiRequest['authentication']>;
  /** Converts an error of a watch whose response has begun to a StatusError. */
  statusOf(error: unknown): StatusError;
}

const plainJson: NegotiatedFormat = { format: 'json', transform: undefined, version: 'v1', pretty: false };

/** Passes requests for resources to the pipeline, and sends the responses of the pipeline to the client. */
export class ResourceHandler {
  readonly #options: ResourceHandlerOptions;

  constructor(options: ResourceHandlerOptions) {
    this.#options = options;
  }

  /** Handles a request for a resource. Returns a promise only if a step has to wait. @throws StatusError if the request is rejected */
  handle(resourceRequest: ResourceRequest): void | Promise<void> {
    const { request, route, identity, authentication } = resourceRequest;
    const { exchange, state, target } = request;
    // for a proxied request, the backend negotiates the format
    const accepted = route.subresource?.name === 'proxy' ? plainJson : negotiateForRoute(exchange, target.query, route);
    const { audit, warnings } = state;
    const apiRequest = newApiRequest({
      exchange,
      route,
      query: target.query,
      identity,
      authentication,
      warn: (message) => {
        warnings.push(message);
      },
      audit,
      latencies: state,
    });
    const response = continueWith(apiRequest, (read) => this.#options.pipeline.handle(read));
    return continueWith(response, (handled) => this.#respond(handled, resourceRequest, accepted));
  }

  #respond(response: PipelineResponse, resourceRequest: ResourceRequest, accepted: NegotiatedFormat): void | Promise<void> {
    const { request, route } = resourceRequest;
    const { exchange, state, target } = request;
    const { audit } = state;
    if (audit !== undefined) {
      audit.setResponse(response);
      if (route.longRunning) audit.recordResponseStarted();
    }
    // the stored object replaces the body from here on
    exchange.releaseBody();
    if (response.kind === 'watch') state.release?.();
    if (response.kind === 'proxy')
      return this.#options.proxyEndpoints.serve(response, { exchange, requestTarget: target, upgrade: request.upgrade });
    return response.kind === 'kubelet' ? this.#serveFromKubelet(response, request) : this.#send(response, resourceRequest, accepted);
  }

  #send(
    response: Exclude<PipelineResponse, { kind: 'kubelet' | 'proxy' }>,
    { request, route, authentication, statusOf }: ResourceRequest,
    accepted: NegotiatedFormat,
  ): Promise<void> | undefined {
    const { clock, metrics, compresses = true } = this.#options;
    const { query } = request.target;
    return sendResponse(response, {
      exchange: response.kind === 'watch' ? streamExchange(request, { text: accepted.format !== 'protobuf' }) : request.exchange,
      accepted,
      resource: route.resource,
      query,
      clock,
      compresses,
      warnings: request.state.warnings,
      newEventObserver: () => metrics.watchEventObserver(route),
      onInitialEventsSent:
        query.first['sendInitialEvents'] === 'true'
          ? () => metrics.observeWatchList(route, (clock.now() - authentication.from) / 1000)
          : undefined,
      statusOf,
    });
  }

  async #serveFromKubelet(response: Extract<PipelineResponse, { kind: 'kubelet' }>, request: ParsedRequest): Promise<void> {
    const { kubeletProxy } = this.#options;
    const { exchange, upgrade } = request;
    if (!response.upgrade) await kubeletProxy.stream(response, streamExchange(request, { text: false }));
    else if (upgrade === undefined) throw badRequest('Upgrade request required');
    else {
      await kubeletProxy.upgrade(response, {
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
}

/** Returns the exchange for a streamed response, which uses a WebSocket if the client requests one. */
function streamExchange({ exchange, upgrade }: ParsedRequest, form: { readonly text: boolean }): Exchange {
  return upgrade !== undefined && wantsWebSocket(exchange) ? webSocketExchange(exchange, upgrade, form) : exchange;
}
