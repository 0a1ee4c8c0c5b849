import { slot } from '@oarlock/kernel/slot';
import type { Authenticator, Credentials, Identity } from '../authn/authn.ts';

export interface PathRequest {
  readonly method: string;
  readonly path: string;
  readonly query: Readonly<Record<string, string | undefined>>;
  /** Parsed JSON, not validated; absent if there was no body. */
  readonly body: unknown;
  readonly identity: Identity;
  /** The headers and credentials of an HTTP request; absent for a request of a loopback client. */
  readonly credentials?: Credentials;
}
export interface PathResponse {
  readonly code: number;
  /** A value that is sent as JSON, or a Buffer, which is sent unchanged and requires a `contentType`. */
  readonly body: unknown;
  /** The media type of the body; by default `application/json`, or the type that the client prefers. */
  readonly contentType?: string;
  /** The value of the `Cache-Control` header; by default the one of the API server. */
  readonly cacheControl?: string;
  /** Further response headers. */
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * A non-resource path of the API server. The API server authorizes the request as a non-resource request before it calls the handler, unless the
 * path is public.
 */
export interface PathHandler {
  /** An exact path, or a path that ends in `/*` and matches everything below. */
  readonly path: `/${string}`;
  readonly methods: readonly ('GET' | 'POST' | 'PUT' | 'DELETE')[];
  /**
   * True if every user may request the path. A request without credentials is then handled as `system:anonymous`; invalid credentials are still
   * rejected with 401.
   */
  readonly isPublic?: boolean;
  /** Authenticates requests for all paths of the API server, for instance by sessions. The API server calls it before the authenticators of the composition. */
  readonly authenticator?: Authenticator;
  handle(request: PathRequest): Promise<PathResponse>;
}

export const Paths = slot.chain<PathHandler>('paths/v1');

/**
 * The prefix of the names of cookies that handlers of paths set. The API server removes these cookies from requests and responses that it proxies,
 * so that pods and extension API servers neither receive nor set them.
 */
export const ownCookiePrefix = '__Host-oarlock-';
