import type { KubeObject, ListMeta } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import type { SpanContext } from '@oarlock/kernel/tracing';
import type { ApiRequest } from '@oarlock/spi/loopback';

/** Encodes objects as Kubernetes protobuf. The implementation has large tables and is loaded for the first client that requests it. */
export interface ProtobufCodec {
  /** Returns true if the kind has a message; other kinds cannot be encoded. */
  knows(apiVersion: string, kind: string): boolean;
  /** Encodes an object without its type metadata. */
  message(object: KubeObject): Buffer;
  /** Encodes the `PartialObjectMetadata` of an object. */
  metadata(object: KubeObject): Buffer;
  /** Encodes the start of any list message: everything except the items (field number 2). */
  listMetadata(metadata: ListMeta): Buffer;
  /** Encodes the header of a message of this length: the magic bytes of Kubernetes, version and kind (runtime.Unknown). */
  envelopeHead(apiVersion: string, kind: string, length: number): Buffer;
  readonly envelopeTail: Buffer;
  /** Encodes a watch event. */
  watchEvent(type: string, apiVersion: string, kind: string, message: Buffer): Buffer;
}

/** One version of one object, encoded at most once per format. Stored objects are JSON already and are not encoded again. */
export interface EncodedObject {
  /** Deeply frozen, complete with `apiVersion`, `kind` and `metadata.resourceVersion`. */
  readonly object: KubeObject;
  readonly revision: number;
  /** Returns the object as JSON between two texts, in a new buffer. */
  json(before?: string, after?: string): Buffer;
  /** Returns buffers that together are the object's JSON. They are shared and must not be modified. */
  pieces(): readonly Buffer[];
  /** Returns the object's protobuf message, the same buffer on every call. The codec must know the kind. */
  protobuf(codec: ProtobufCodec): Buffer;
}

/** A watch event, shared by all watchers that receive it with this type. */
export interface WatchFrame {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK';
  readonly item: EncodedObject;
  readonly spanContext: SpanContext | undefined;
  /** Returns `{"type":...,"object":...}` and a line break, the same buffer for every watcher. */
  json(): Buffer;
  /** Returns the event as protobuf, the same buffer for every watcher. The codec must know the kind. */
  protobuf(codec: ProtobufCodec): Buffer;
}

/** Batches of watch events in order. */
export interface WatchFrames extends AsyncIterable<readonly WatchFrame[]> {
  /**
   * Calls `listener` when the source is terminated because its reader is too slow: a reader that still writes the last batch should give up.
   * Absent if the source does not queue.
   */
  onTerminated?(listener: () => void): void;
}

/** The result of the pipeline: HTTP encodes it, loopback clients receive its objects. Rejections are thrown as `StatusError`. */
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
      /** No warnings if absent. */
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
      /** True for an Oarlock kubelet, whose certificate is signed by the cluster's CA. */
      readonly own: boolean;
    }
  /** Proxy the request to another server, with its method, its body and the path after `/proxy` unchanged. */
  | {
      readonly kind: 'proxy';
      readonly scheme: 'http' | 'https';
      readonly host: string;
      readonly port: number;
      /** Set if the target is a kubelet; `own` is true if it is Oarlock's, with a certificate of the cluster's CA. */
      readonly kubelet?: { readonly own: boolean };
      /** True if the target may be a loopback address, because the cluster's ranges are. */
      readonly allowLoopback?: boolean;
    };

/** Serves requests without HTTP: the pipeline, or a handler in front of it. */
export interface RequestHandler {
  /** @throws StatusError if the request is rejected */
  handle(request: ApiRequest): Promise<PipelineResponse>;
}
