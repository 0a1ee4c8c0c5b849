import type { KubeObject, ObjectList } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import { failure, type StatusError } from '@oarlock/api/status';
import { slot } from '@oarlock/kernel/slot';
import type { SpanContext } from '@oarlock/kernel/tracing';
import type { Identity } from '../authn/authn.ts';
import type { PatchType, WatchEvent } from './client.ts';

export type ApiVerb = 'get' | 'list' | 'watch' | 'create' | 'update' | 'patch' | 'delete' | 'deletecollection';

/** A decoded API request: the result of HTTP parsing, or a request of the loopback client. */
export interface ApiRequest {
  readonly verb: ApiVerb;
  readonly resource: Resource;
  /** The subresource; '' for the resource itself. */
  readonly subresource: string;
  /** The namespace; '' for cluster-scoped resources and for requests across all namespaces. */
  readonly namespace: string;
  /** The object's name; '' for collections. */
  readonly name: string;
  /** The URL's query parameters: labelSelector, fieldSelector, limit, continue, resourceVersion, dryRun, fieldManager, force, ... */
  readonly query: Readonly<Record<string, string | undefined>>;
  /** The request body: an object, a patch, or DeleteOptions. The handler validates the body, and neither keeps nor changes it. */
  readonly body?: unknown;
  /** Size of the request body in bytes; absent for loopback requests. */
  readonly bytes?: number;
  readonly patchType?: PatchType;
  readonly identity: Identity;
  /** The remote address of the connection as the server sees it, never an address from a header. Absent for requests of this process. */
  readonly sourceAddress?: string;
  readonly userAgent?: string;
  /** Start and end of authentication in milliseconds since the epoch; absent for loopback requests. */
  readonly authentication?: { readonly from: number; readonly to: number };
  readonly spanContext?: SpanContext | undefined;
  readonly signal?: AbortSignal;
  /** Adds an annotation to the request's audit event, from the audit level `level` on. Absent if the request has no audit event. */
  annotate?(key: string, value: string, level?: 'Request'): void;
  /** Adds a warning to the response of a request that fails; a successful response carries its warnings itself. */
  warn?(message: string): void;
}

export type ApiResponse =
  | { readonly kind: 'object'; readonly code: number; readonly object: KubeObject; readonly warnings: readonly string[] }
  | { readonly kind: 'list'; readonly list: ObjectList; readonly warnings: readonly string[] }
  | { readonly kind: 'watch'; readonly events: AsyncIterable<readonly WatchEvent[]> };

/** The API server behind authentication. Throws error statuses as `StatusError`. */
export interface ApiHandler {
  handle(request: ApiRequest): Promise<ApiResponse>;
  /** Handles a non-resource path such as `/version`. */
  handlePath(method: string, path: string, body: unknown, identity: Identity): Promise<unknown>;
}

const inProcess = 'StreamInProcess';

/** Returns the error of a loopback request for a stream to a kubelet or a proxied server, which only clients of the network can open. */
export const streamInProcess = (): StatusError =>
  failure('BadRequest', 'streams of the kubelet cannot be opened in process', { causes: [{ reason: inProcess }] });

/** Returns true for a request that only the lack of a network connection prevents. */
export const isStreamInProcess = ({ status }: StatusError): boolean =>
  status.details?.causes?.some(({ reason }) => reason === inProcess) === true;

/** Connects the API server of this process to the loopback clients of the same process. */
export interface LoopbackEndpoint {
  /** Called once, when the API server accepts requests. Requests that were sent earlier are then handled. */
  connect(handler: ApiHandler): void;
}
export const Loopback = slot.one<LoopbackEndpoint>('loopback/v1');
