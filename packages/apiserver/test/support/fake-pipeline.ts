import { kinds, type Kind } from '@oarlock/api/kinds';
import { deepFreeze, type KubeObject } from '@oarlock/api/object';
import { notFound } from '@oarlock/api/status';
import type { ApiRequest } from '@oarlock/spi/loopback';
import type { SpanContext } from '@oarlock/kernel/tracing';
import type { HttpPipeline } from '../../src/handler-chain/http-pipeline.ts';
import type { EncodedObject, PipelineResponse, WatchFrame } from '../../src/endpoints/request/response.ts';
import { SharedWatchFrame } from '../../src/watch-cache/watch-cache-event.ts';

export function encoded(
  object: KubeObject,
  revision = Number(object.metadata?.resourceVersion ?? 1),
): EncodedObject & { encodings: number } {
  let json: Buffer | undefined;
  let protobuf: Buffer | undefined;
  const whole = () => {
    if (json === undefined) {
      item.encodings += 1;
      json = Buffer.from(JSON.stringify(object));
    }
    return json;
  };
  const item: EncodedObject & { encodings: number } = {
    object: deepFreeze(object),
    revision,
    encodings: 0,
    json: (before = '', after = '') => Buffer.concat([Buffer.from(before), whole(), Buffer.from(after)]),
    writeJson(sink, typeMeta) {
      const typed = typeMeta !== undefined && whole().subarray(0, typeMeta.length).equals(typeMeta);
      sink.add(typed ? Buffer.concat([Buffer.from('{'), whole().subarray(typeMeta.length)]) : whole());
    },
    protobuf(codec) {
      if (protobuf === undefined) {
        item.encodings += 1;
        protobuf = codec.message(object);
      }
      return protobuf;
    },
  };
  return item;
}

export function frame(type: WatchFrame['type'], item: EncodedObject, spanContext?: SpanContext): WatchFrame {
  return new SharedWatchFrame(type, item, spanContext);
}

export const configMap = (name: string, more: object = {}): KubeObject =>
  ({
    kind: 'ConfigMap',
    apiVersion: 'v1',
    metadata: { name, namespace: 'default', resourceVersion: '7', uid: `uid-${name}`, creationTimestamp: '2026-01-01T00:00:00Z' },
    ...more,
  }) as KubeObject;

/** Responds with functions that a test sets, and records the requests. */
export class FakePipeline implements HttpPipeline {
  readonly requests: ApiRequest[] = [];
  readonly bodies: unknown[] = [];
  readonly #served: readonly Kind[];
  constructor(more: readonly Kind[] = []) {
    this.#served = [...kinds.filter(({ servedByDefault }) => servedByDefault), ...more];
  }
  answer: (request: ApiRequest) => PipelineResponse | Promise<PipelineResponse> = ({ resource, name }) => {
    throw notFound(resource, name);
  };
  readBody = true;

  servedKinds() {
    return this.#served;
  }

  count() {
    return 0;
  }

  async handle(request: ApiRequest): Promise<PipelineResponse> {
    this.requests.push(request);
    if (this.readBody) this.bodies.push(request.body);
    return this.answer(request);
  }

  object(object: KubeObject, code: 200 | 201 | 202 = 200, warnings: readonly string[] = []): void {
    const item = encoded(object);
    this.answer = () => ({ kind: 'object', code, item, warnings });
  }

  list(items: readonly EncodedObject[], metadata: object = { resourceVersion: '42' }): void {
    this.answer = ({ resource }) => ({ kind: 'list', resource, items, metadata, warnings: [] });
  }

  watch(frames: () => AsyncIterable<readonly WatchFrame[]>): void {
    this.answer = ({ resource }) => ({ kind: 'watch', resource, frames: frames() });
  }
}
