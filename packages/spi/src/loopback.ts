import type { KubeObject, ObjectList } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import { slot } from '@oarlock/kernel/slot';
import type { Cause } from '@oarlock/kernel/tracing';
import type { Identity } from './authn.ts';
import type { PatchType, WatchEvent } from './client.ts';

export type ApiVerb = 'get' | 'list' | 'watch' | 'create' | 'update' | 'patch' | 'delete' | 'deletecollection';

/** A request that is already understood: what HTTP parsing yields, and what the loopback client makes without HTTP. */
export interface ApiRequest {
  readonly verb: ApiVerb;
  readonly resource: Resource;
  /** '' when none. */
  readonly subresource: string;
  /** '' for cluster-scoped resources and for all namespaces. */
  readonly namespace: string;
  /** '' for collections. */
  readonly name: string;
  /** As in the URL: labelSelector, fieldSelector, limit, continue, resourceVersion, dryRun, fieldManager, force, ... */
  readonly query: Readonly<Record<string, string | undefined>>;
  /** The object, the patch, or DeleteOptions. Treated as untrusted, and not kept or changed. */
  readonly body?: unknown;
  /** How long the body was as it came, in bytes; absent where it never was text. */
  readonly bytes?: number;
  readonly patchType?: PatchType;
  readonly identity: Identity;
  readonly userAgent?: string;
  /** When it was found out who asks, in milliseconds since the epoch; absent where nothing had to be found out. */
  readonly authentication?: { readonly from: number; readonly to: number };
  readonly cause?: Cause | undefined;
  readonly signal?: AbortSignal;
  /** Is told what the request's audit event is to be annotated with; from a level on, where one is given. Absent: there is no event. */
  annotate?(key: string, value: string, level?: 'Request'): void;
  /** Is told what the sender of a request that was refused is to be warned of; other answers carry their warnings. */
  warn?(message: string): void;
}

export type ApiResponse =
  | { readonly kind: 'object'; readonly code: number; readonly object: KubeObject; readonly warnings: readonly string[] }
  | { readonly kind: 'list'; readonly list: ObjectList; readonly warnings: readonly string[] }
  | { readonly kind: 'watch'; readonly events: AsyncIterable<readonly WatchEvent[]> };

/** The API server's pipeline below authentication. Refusals are thrown as `StatusError`. */
export interface ApiHandler {
  handle(request: ApiRequest): Promise<ApiResponse>;
  /** Non-resource paths such as `/version`. */
  handlePath(method: string, path: string, body: unknown, identity: Identity): Promise<unknown>;
}

/** Where the API server of this process makes itself known to the loopback client of the same process. */
export interface LoopbackSwitch {
  /** Requests made before this wait. Called once, when the server accepts requests. */
  connect(handler: ApiHandler): void;
}
export const Loopback = slot.one<LoopbackSwitch>('loopback/v1');
