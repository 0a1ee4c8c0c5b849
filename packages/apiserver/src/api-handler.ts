import type { KubeObject } from '@oarlock/api/object';
import { apiVersionOf } from '@oarlock/api/resource';
import { failure, StatusError } from '@oarlock/api/status';
import { systemClock, type Clock } from '@oarlock/kernel/clock';
import type { Identity } from '@oarlock/spi/authn';
import type { WatchEvent } from '@oarlock/spi/client';
import type { ApiHandler, ApiRequest, ApiResponse } from '@oarlock/spi/loopback';
import { owned } from './body.ts';
import type { Pipeline } from './pipeline.ts';
import type { PipelineResponse, WatchFrame } from './response.ts';
import { Turns } from './turns.ts';

/** Answers the paths that are no resources, such as `/version`, with JSON. @throws StatusError */
export type PathAnswer = (method: string, path: string, body: unknown, identity: Identity) => Promise<unknown>;

/** The pipeline as the loopback client of the same process calls it: objects in, objects out, nothing encoded. */
export function apiHandler(pipeline: Pick<Pipeline, 'handle'>, paths: PathAnswer, clock: Clock = systemClock): ApiHandler {
  const turns = new Turns(clock);
  return {
    async handle(request: ApiRequest): Promise<ApiResponse> {
      const pause = turns.pause();
      if (pause !== undefined) await pause;
      const response = await ask(pipeline, request);
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
          return { kind: 'watch', events: eventsOf(response.frames) };
        case 'nothing':
        case 'kubelet':
        case 'proxy':
          throw failure('BadRequest', 'streams of the kubelet cannot be opened in process');
      }
    },
    handlePath: (method, path, body, identity) => paths(method, path, body, identity),
  };
}

async function ask(pipeline: Pick<Pipeline, 'handle'>, request: ApiRequest): Promise<PipelineResponse> {
  const { body, signal } = request;
  try {
    // what the caller may still change is copied
    return await pipeline.handle(typeof body === 'object' && !Object.isFrozen(body) ? { ...request, body: owned(body) } : request);
  } catch (error) {
    // who gave up is told its own reason
    if (signal?.aborted === true && error instanceof StatusError && error.cause === signal.reason) throw signal.reason;
    throw error;
  }
}

function eventsOf(frames: AsyncIterable<readonly WatchFrame[]>): AsyncIterable<readonly WatchEvent[]> {
  return {
    [Symbol.asyncIterator]() {
      const source = frames[Symbol.asyncIterator]();
      return {
        async next() {
          const { done, value } = await source.next();
          return done === true ? { done, value: undefined } : { done: false, value: value.map(eventOf) };
        },
        async return() {
          await source.return?.();
          return { done: true, value: undefined };
        },
      };
    },
  };
}

const eventOf = ({ type, item, cause }: WatchFrame): WatchEvent<KubeObject> => ({ type, object: item.object, ...(cause && { cause }) });
