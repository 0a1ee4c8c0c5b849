import { slot } from '@oarlock/kernel/slot';
import type { Identity } from './authn.ts';

export interface PathRequest {
  readonly method: string;
  readonly path: string;
  readonly query: Readonly<Record<string, string | undefined>>;
  /** Parsed JSON; absent when there was no body. Untrusted. */
  readonly body: unknown;
  readonly identity: Identity;
}
export interface PathResponse {
  readonly code: number;
  readonly body: unknown;
}

/** A path of the API server that is not a Kubernetes resource. Authorized as a non-resource path before it is called; JSON in and out. */
export interface PathHandler {
  /** Exact, or everything below when it ends in `/*`. */
  readonly path: `/${string}`;
  readonly methods: readonly ('GET' | 'POST' | 'PUT' | 'DELETE')[];
  handle(request: PathRequest): Promise<PathResponse>;
}

export const Paths = slot.chain<PathHandler>('paths/v1');
