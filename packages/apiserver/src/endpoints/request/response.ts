import type { KubeObject, ListMeta } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import type { SpanContext } from '@oarlock/kernel/tracing';
import type { ApiRequest } from '@oarlock/spi/loopback';

/** A codec for Kubernetes protobuf. The implementation has large tables and is loaded when the first client requests protobuf. */
export interface ProtobufCodec {
  /** Returns true if the kind has a protobuf message. Objects of other kinds cannot be encoded. */
  knows(apiVersion: string, kind: string): boolean;
  /** Encodes the message of an object without type metadata. */
  message(object: KubeObject): Buffer;
  /** Encodes the `PartialObjectMetadata` of an object. */
  metadata(object: KubeObject): Buffer;
  /** Encodes a list message without its items, which have field number 2 in every list. */
  listMetadata(metadata: ListMeta): Buffer;
  /** Encodes the part of an envelope (`runtime.Unknown`) before a message of this length: the magic number, apiVersion and kind. */
  envelopeHead(apiVersion: string, kind: string, length: number): Buffer;
  readonly envelopeTail: Buffer;
  /** Encodes a watch event. */
  watchEvent(type: string, apiVersion: string, kind: string, message: Buffer): Buffer;
}

/** Receives bytes in several parts. */
export interface ByteSink {
  /** Adds the bytes from the offset `start` on, by default all. The sink copies them. */
  add(bytes: Uint8Array, start?: number): void;
  /** Adds the digits of an integer that is not negative. */
  addDecimal(value: number): void;
}

/** One version of an object, encoded at most once per format. A stored object is already encoded as JSON. */
export interface EncodedObject {
  /** The object: deeply frozen, with `apiVersion`, `kind` and `metadata.resourceVersion`. */
  readonly object: KubeObject;
  readonly revision: number;
  /** Returns the JSON of the object in a new buffer, between the texts `before` and `after`. */
  json(before?: string, after?: string): Buffer;
  /** Adds the JSON of the object to a sink. If the JSON begins with the bytes `typeMeta`, an opening brace is added in place of them. */
  writeJson(sink: ByteSink, typeMeta?: Buffer): void;
  /** Returns the protobuf message of the object, the same buffer on every call. The codec must know the kind. */
  protobuf(codec: ProtobufCodec): Buffer;
}

/** A watch event, shared by all watchers that receive the event with the same type. */
export interface WatchFrame {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK';
  readonly item: EncodedObject;
  readonly spanContext: SpanContext | undefined;
  /** Returns the JSON line of the event, `{"type":...,"object":...}` with a line break; the same buffer for every watcher. */
  json(): Buffer;
  /** Returns the event as protobuf, the same buffer for every watcher. The codec must know the kind. */
  protobuf(codec: ProtobufCodec): Buffer;
}

/** An asynchronous iterable of batches of watch events, in order. */
export interface WatchFrames extends AsyncIterable<readonly WatchFrame[]> {
  /**
   * Calls `listener` when the watch is terminated because its reader is too slow. A reader that still writes the last batch should stop. Undefined
   * if the source has no queue.
   */
  onTerminated?(listener: () => void): void;
}

/** The response of the pipeline, which HTTP encodes and loopback clients receive as objects. Rejections are thrown as `StatusError`. */
export type PipelineResponse =
  | { readonly kind: 'object'; readonly code: 200 | 201 | 202; readonly item: EncodedObject; readonly warnings: readonly string[] }
  | {
      readonly kind: 'list';
      readonly resource: Resource;
      readonly items: readonly EncodedObject[];
      readonly metadata: ListMeta;
      readonly warnings: readonly string[];
    }
  /**
   * The source queues a bounded number of frames and bytes for a slow reader, then ends with `Expired`; it ends without error at its timeout
   * or when the request's signal aborts.
   */
  | {
      readonly kind: 'watch';
      readonly resource: Resource;
      readonly frames: WatchFrames;
      /** The warnings for the client; none if absent. */
      readonly warnings?: readonly string[];
    }
  /** An empty response: 204. */
  | { readonly kind: 'nothing' }
  /** Proxy the request to the kubelet of a node: logs, exec, attach, port-forward. `path` begins with `/` and includes the query. */
  | {
      readonly kind: 'kubelet';
      readonly nodeName: string;
      readonly host: string;
      readonly port: number;
      readonly path: string;
      readonly upgrade: boolean;
      /** True for a kubelet of Oarlock, whose serving certificate is signed by the cluster CA. */
      readonly own: boolean;
    }
  /** Proxy the request to another server, with its method, its body and the path after `/proxy` unchanged. */
  | {
      readonly kind: 'proxy';
      readonly scheme: 'http' | 'https';
      readonly host: string;
      readonly port: number;
      /** Set if the target is a kubelet. `own` is true for a kubelet of Oarlock, whose serving certificate is signed by the cluster CA. */
      readonly kubelet?: { readonly own: boolean };
      /** True if the target may have a loopback address, because the address ranges of the cluster are loopback addresses. */
      readonly allowLoopback?: boolean;
    };

/** A handler of requests independent of HTTP: the pipeline, or a handler that wraps it. */
export interface RequestHandler {
  /** Handles a request. Returns a promise only if it has to wait. @throws StatusError if the request is rejected */
  handle(request: ApiRequest): PipelineResponse | Promise<PipelineResponse>;
}
