import type { X509Certificate } from 'node:crypto';
import { slot } from '@oarlock/kernel/slot';

/** An authenticated user (`user.Info` upstream). */
export interface Identity {
  readonly name: string;
  readonly uid?: string;
  readonly groups: readonly string[];
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

/** The parts of a request that authenticators read. Header names are lower case. */
export interface Credentials {
  readonly bearerToken?: string;
  /** The client certificate of a user, verified against the cluster CA. Absent if none was sent or verification failed. */
  readonly certificate?: X509Certificate;
  /**
   * The client certificate of a front proxy, verified against the front-proxy CA. Absent if none was sent or verification failed. The certificate
   * does not authenticate a user: it permits the front proxy to name the user in request headers.
   */
  readonly frontProxyCertificate?: X509Certificate;
  /** The request headers, by name in lower case. The lines of a repeated header are joined with commas: `headerValues` returns them separately. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  /** The names and values of the header lines, alternately, as the client sent them. Absent if the credentials are not those of an HTTP request. */
  readonly rawHeaders?: readonly string[];
  readonly remoteAddress?: string;
  /** An object that is the same for all requests of one connection, as a weak key of caches. Absent if the credentials are not those of an HTTP request. */
  readonly connection?: object;
  /**
   * The audiences for which a token must be valid; set for a TokenReview with audiences. Absent: the audiences of the API server. The result lists
   * the audiences that match in `audiences`.
   */
  readonly audiences?: readonly string[];
  readonly path: string;
}

/**
 * Returns the values of a header, one for each line. A value may contain commas.
 * @param rawHeaders the names and values of the header lines, alternately
 * @param name in lower case
 */
export function headerValues(rawHeaders: readonly string[], name: string): string[] {
  const values: string[] = [];
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const line = rawHeaders[i] ?? '';
    if (line.length === name.length && line.toLowerCase() === name) values.push(rawHeaders[i + 1] ?? '');
  }
  return values;
}

/**
 * The result of one authenticator.
 *
 * | outcome | effect |
 * |---|---|
 * | `authenticated` | The request continues as this user; later authenticators are not called. |
 * | `abstained` | The request has no credentials of this kind. The next authenticator is called. |
 * | `rejected` | The credentials are of this kind and invalid. The next authenticator is called; if none succeeds, the request fails with 401 and does not become anonymous. |
 */
export type AuthnResult =
  | {
      readonly outcome: 'authenticated';
      readonly identity: Identity;
      readonly audiences?: readonly string[];
      /** Annotations for the audit events of the request, for instance that a token is deprecated. */
      readonly annotations?: Readonly<Record<string, string>>;
      /** Warnings for the client about its credentials. */
      readonly warnings?: readonly string[];
    }
  | { readonly outcome: 'abstained' }
  | { readonly outcome: 'rejected'; readonly reason: string };

export const abstained: AuthnResult = { outcome: 'abstained' };
export const rejected = (reason: string): AuthnResult => ({ outcome: 'rejected', reason });
export const authenticated = (identity: Identity): AuthnResult => ({ outcome: 'authenticated', identity });

/**
 * Authenticates requests. The API server calls the authenticators of the chain in the order of the composition until one succeeds.
 *
 * An authenticator must not put credentials or parts of credentials into results, errors or logs.
 *
 * ```ts
 * const staticToken: Authenticator = {
 *   authenticate: ({ bearerToken }) =>
 *     bearerToken === undefined || !bearerToken.startsWith('demo-')
 *       ? abstained
 *       : bearerToken === token
 *         ? authenticated({ name: 'demo', groups: ['system:authenticated'] })
 *         : rejected('unknown demo token'),
 * };
 * ```
 */
export interface Authenticator {
  /**
   * Authenticates the sender of a request.
   *
   * It throws only on internal errors, such as an unreachable webhook. The chain then continues; if no later authenticator
   * succeeds, the request fails with 401 and does not become anonymous.
   */
  authenticate(credentials: Credentials): AuthnResult | Promise<AuthnResult>;
}

export const Authn = slot.chain<Authenticator>('authn/v1');

/** The identity of unauthenticated requests, where anonymous authentication is enabled. */
export const anonymous: Identity = { name: 'system:anonymous', groups: ['system:unauthenticated'] };
/**
 * The ConfigMap that lists nodes whose certificates are revoked, by name: the value is the RFC 3339 time up to which the validity of a revoked certificate
 * begins. A certificate that the node obtains later, by joining again, is accepted.
 */
export const removedNodes = { namespace: 'kube-system', name: 'oarlock-removed-nodes' } as const;

/** Prefix of the user name of a node. */
export const nodeUserPrefix = 'system:node:';
