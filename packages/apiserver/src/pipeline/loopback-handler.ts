import type { KubeObject } from '@oarlock/api/object';
import { apiVersionOf } from '@oarlock/api/resource';
import { StatusError } from '@oarlock/api/status';
import { systemClock, type Clock } from '@oarlock/primitives/clock';
import type { Identity } from '@oarlock/spi/authn';
import type { WatchEvent } from '@oarlock/spi/client';
import { streamInProcess, type ApiHandler, type ApiRequest, type ApiResponse } from '@oarlock/spi/loopback';
import { copyUnlessFrozen } from '../endpoints/request/body.ts';
import type { ProxyAddresses } from '../proxy/proxy-addresses.ts';
import type { PipelineResponse, WatchFrame, RequestHandler } from '../endpoints/request/response.ts';
import { EventLoopYield } from './event-loop-yield.ts';

/**
 * Handles a request for a non-resource path such as `/version`, and returns the JSON of the response.
 * @throws StatusError if the request is rejected
 */
export type LoopbackPathHandler = (method: string, path: string, body: unknown, identity: Identity) => Promise<unknown>;

export interface LoopbackOptions {
  readonly clock: Clock;
  /** Decides to which addresses the API server connects; absent if it proxies no requests. */
  readonly addresses: ProxyAddresses;
}

/** Returns a handler that passes requests of the loopback client to the pipeline. Objects are passed without encoding. */
export function loopbackHandler(
  pipeline: RequestHandler,
  paths: LoopbackPathHandler,
  { clock = systemClock, addresses }: Partial<LoopbackOptions> = {},
): ApiHandler {
  const turns = new EventLoopYield(clock);
  return {
    async handle(request: ApiRequest): Promise<ApiResponse> {
      const pause = turns.yieldIfDue();
      if (pause !== undefined) await pause;
      const response = await handleRequest(pipeline, request);
      switch (response.kind) {
        case 'object':
          return { kind: 'object', code: response.code, object: response.item.object, warnings: response.warnings };
        case 'list': {
          const { resource, items, metadata, warnings } = response;
          return {
            kind: 'list',
            list: { kind: `${resource.kind}List`, apiVersion: apiVersionOf(resource), metadata, items: items.map((item) => item.object) },
            warnings,
          };
        }
        case 'watch':
          return { kind: 'watch', events: watchEventsOf(response.frames) };
        case 'proxy':
          // the destination would be rejected for a client of the network, too
          addresses?.lookup({ ...response, allowLoopback: response.allowLoopback === true || response.kubelet !== undefined });
          throw streamInProcess();
        case 'nothing':
        case 'kubelet':
          throw streamInProcess();
      }
    },
    handlePath: (method, path, body, identity) => paths(method, path, body, identity),
  };
}

async function handleRequest(pipeline: RequestHandler, request: ApiRequest): Promise<PipelineResponse> {
  const { body, signal } = request;
  try {
    // the caller may modify its body later
    return await pipeline.handle(
      typeof body === 'object' && !Object.isFrozen(body) ? { ...request, body: copyUnlessFrozen(body) } : request,
    );
  } catch (error) {
    // an aborted caller receives its own reason
    if (signal?.aborted === true && error instanceof StatusError && error.cause === signal.reason) throw signal.reason;
    throw error;
  }
}

function watchEventsOf(frames: AsyncIterable<readonly WatchFrame[]>): AsyncIterable<readonly WatchEvent[]> {
  return {
    [Symbol.asyncIterator]() {
      const source = frames[Symbol.asyncIterator]();
      return {
        async next() {
          const { done, value } = await source.next();
          return done === true ? { done, value: undefined } : { done: false, value: value.map(watchEventOf) };
        },
        async return() {
          await source.return?.();
          return { done: true, value: undefined };
        },
      };
    },
  };
}

const watchEventOf = ({ type, item, spanContext }: WatchFrame): WatchEvent<KubeObject> => ({
  type,
  object: item.object,
  ...(spanContext && { spanContext }),
});
