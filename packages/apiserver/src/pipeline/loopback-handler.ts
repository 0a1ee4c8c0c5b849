import type { KubeObject } from '@oarlock/api/object';
import { apiVersionOf } from '@oarlock/api/resource';
import { failure, StatusError } from '@oarlock/api/status';
import { systemClock, type Clock } from '@oarlock/primitives/clock';
import type { Identity } from '@oarlock/spi/authn';
import type { WatchEvent } from '@oarlock/spi/client';
import type { ApiHandler, ApiRequest, ApiResponse } from '@oarlock/spi/loopback';
import { copyUnlessFrozen } from '../endpoints/request/body.ts';
import type { PipelineResponse, WatchFrame, RequestHandler } from '../endpoints/request/response.ts';
import { EventLoopYield } from './event-loop-yield.ts';

/**
 * Handles a request for a non-resource path such as `/version`, and returns the JSON of the response.
 * @throws StatusError if the request is rejected
 */
export type LoopbackPathHandler = (method: string, path: string, body: unknown, identity: Identity) => Promise<unknown>;

/** Returns a handler that passes requests of the loopback client to the pipeline. Objects are passed without encoding. */
export function loopbackHandler(pipeline: RequestHandler, paths: LoopbackPathHandler, clock: Clock = systemClock): ApiHandler {
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
        case 'nothing':
        case 'kubelet':
        case 'proxy':
          throw failure('BadRequest', 'streams of the kubelet cannot be opened in process');
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
