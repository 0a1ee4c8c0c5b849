import { slot } from '@oarlock/kernel/slot';
import type { Identity } from '../authn/authn.ts';

export interface PathRequest {
  readonly method: string;
  readonly path: string;
  readonly query: Readonly<Record<string, string | undefined>>;
  /** Parsed JSON, not validated; absent if there was no body. */
  readonly body: unknown;
  readonly identity: Identity;
}
export interface PathResponse {
  readonly code: number;
  readonly body: unknown;
  /** The media type of the body, which is sent as JSON; by default `application/json`, or the type that the client prefers. */
  readonly contentType?: string;
  /** The value of the `Cache-Control` header; by default the one of the API server. */
  readonly cacheControl?: string;
}

/**
 * A non-resource path of the API server with JSON bodies. The API server authorizes the request as a non-resource request
 * before it calls the handler.
 */
export interface PathHandler {
  /** An exact path, or a path that ends in `/*` and matches everything below. */
  readonly path: `/${string}`;
  readonly methods: readonly ('GET' | 'POST' | 'PUT' | 'DELETE')[];
  handle(request: PathRequest): Promise<PathResponse>;
}

export const Paths = slot.chain<PathHandler>('paths/v1');
