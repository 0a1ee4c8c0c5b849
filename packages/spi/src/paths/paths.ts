import { slot } from '@oarlock/kernel/slot';
import type { Authenticator, AuthnResult, Credentials, Identity } from '../authn/authn.ts';

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

/** Authenticates requests for all paths of the API server, for instance by sessions. */
export interface PathAuthenticator {
  /**
   * @param composition the authenticators of the composition, as one. A session is valid as long as they accept the credentials that began it. Throws if
   * no authenticator accepts the credentials and one failed, so that it is unknown whether they are valid.
   */
  authenticate(credentials: Credentials, composition: Authenticator): AuthnResult | Promise<AuthnResult>;
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
  /** The API server calls it before the authenticators of the composition. */
  readonly authenticator?: PathAuthenticator;
  handle(request: PathRequest): Promise<PathResponse>;
}

export const Paths = slot.chain<PathHandler>('paths/v1');

/**
 * The credentials of handlers of paths: cookies whose names have the prefix, the header, and WebSocket subprotocols with the prefix, which browsers
 * send instead of headers. The API server removes them from requests and responses that it proxies, so that pods, kubelets and extension API servers
 * neither receive nor set them.
 */
export const ownCredentials = {
  cookiePrefix: '__Host-oarlock-',
  header: 'x-oarlock-console',
  subprotocolPrefix: 'key.console.oarlock.dev.',
} as const;
