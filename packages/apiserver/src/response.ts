import type { KubeObject, ListMeta } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import type { Cause } from '@oarlock/kernel/tracing';

/** How objects are written in Kubernetes' protobuf. Its tables are large: it is loaded for the first client that asks for it. */
export interface ProtobufCodec {
  /** Whether a kind has a message; others cannot be written. */
  knows(apiVersion: string, kind: string): boolean;
  /** The message of an object, without what says its kind. */
  message(object: KubeObject): Buffer;
  /** The message of its `PartialObjectMetadata`. */
  metadata(object: KubeObject): Buffer;
  /** The beginning of the message of any list: all but its items, whose field has the number 2. */
  listMetadata(metadata: ListMeta): Buffer;
  /** What comes before a message of this length: the mark of Kubernetes, version and kind. */
  envelopeHead(apiVersion: string, kind: string, length: number): Buffer;
  readonly envelopeTail: Buffer;
  /** An event of a watch. */
  frame(type: string, apiVersion: string, kind: string, message: Buffer): Buffer;
}

/** One version of one object. Encoded at most once per format, whoever asks; what is stored is JSON and not encoded again. */
export interface Encoded {
  /** Deeply frozen, complete with `apiVersion`, `kind` and `metadata.resourceVersion`. */
  readonly object: KubeObject;
  readonly revision: number;
  /** The object as JSON between two texts, in a buffer of its own. */
  json(before?: string, after?: string): Buffer;
  /** Its JSON in pieces that make it up together. Nothing is copied: they must not change. */
  pieces(): readonly Buffer[];
  /** Its message in protobuf. The same buffer every time. Only where the codec knows the kind. */
  protobuf(codec: ProtobufCodec): Buffer;
}

/** One watch event, shared by all watchers that see it with this type. */
export interface WatchFrame {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK';
  readonly item: Encoded;
  readonly cause: Cause | undefined;
  /** `{"type":...,"object":...}` and a line break. The same buffer for every watcher. */
  json(): Buffer;
  /** The same as protobuf. The same buffer for every watcher. Only where the codec knows the kind. */
  protobuf(codec: ProtobufCodec): Buffer;
}

/** What the pipeline answers; HTTP turns it into bytes, loopback hands the objects on. Refusals are thrown as `StatusError`. */
export type PipelineResponse =
  | { readonly kind: 'object'; readonly code: 200 | 201 | 202; readonly item: Encoded; readonly warnings: readonly string[] }
  | {
      readonly kind: 'list';
      readonly resource: Resource;
      readonly items: readonly Encoded[];
      readonly metadata: ListMeta;
      readonly warnings: readonly string[];
    }
  /**
   * Batches in order. The source buffers at most a fixed number of frames for a reader that does not come back, then ends with
   * `Expired`; it ends without error at its timeout or when the request's signal aborts.
   */
  | {
      readonly kind: 'watch';
      readonly resource: Resource;
      readonly frames: AsyncIterable<readonly WatchFrame[]>;
      /** None when absent. */
      readonly warnings?: readonly string[];
    }
  /** There is nothing to be sent: 204. */
  | { readonly kind: 'nothing' }
  /** Go on at the node's kubelet: logs, exec, attach, port-forward. `path` begins with `/` and has the query. */
  | {
      readonly kind: 'kubelet';
      readonly nodeName: string;
      readonly host: string;
      readonly port: number;
      readonly path: string;
      readonly upgrade: boolean;
      /** One of Oarlock's: it has a certificate of the cluster's CA. */
      readonly own: boolean;
    }
  /** Go on at whoever serves there, with the method, the body and the path behind `/proxy` as they came. */
  | {
      readonly kind: 'proxy';
      readonly scheme: 'http' | 'https';
      readonly host: string;
      readonly port: number;
      /** It is a kubelet, and knows the server; `own`: one of Oarlock's, known by the cluster's CA. Of others nothing is known. */
      readonly kubelet?: { readonly own: boolean };
    };
