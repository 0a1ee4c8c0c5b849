import type { KubeObject } from '@oarlock/api/object';
import { apiVersionOf } from '@oarlock/api/resource';
import { failure } from '@oarlock/api/status';
import type { Identity } from '@oarlock/spi/authn';
import type { WatchEvent } from '@oarlock/spi/client';
import type { ApiHandler, ApiRequest, ApiResponse } from '@oarlock/spi/loopback';
import { owned } from './body.ts';
import type { Pipeline } from './pipeline.ts';
import type { WatchFrame } from './response.ts';

/** Answers the paths that are no resources, such as `/version`, with JSON. @throws StatusError */
export type PathAnswer = (method: string, path: string, body: unknown, identity: Identity) => Promise<unknown>;

/** The pipeline as the loopback client of the same process calls it: objects in, objects out, nothing encoded. */
export function apiHandler(pipeline: Pick<Pipeline, 'handle'>, paths: PathAnswer): ApiHandler {
  return {
    async handle(request: ApiRequest): Promise<ApiResponse> {
      // what the caller may still change is copied
      const response = await pipeline.handle(typeof request.body === 'object' && !Object.isFrozen(request.body) ? { ...request, body: owned(request.body) } : request);
      switch (response.kind) {
        case 'object': return { kind: 'object', code: response.code, object: response.item.object, warnings: response.warnings };
        case 'list': {
          const { resource, items, metadata, warnings } = response;
          return { kind: 'list', list: { kind: `${resource.kind}List`, apiVersion: apiVersionOf(resource), metadata, items: items.map((item) => item.object) }, warnings };
        }
        case 'watch': return { kind: 'watch', events: eventsOf(response.frames) };
        case 'kubelet': throw failure('BadRequest', 'streams of the kubelet cannot be opened in process');
      }
    },
    handlePath: (method, path, body, identity) => paths(method, path, body, identity),
  };
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
