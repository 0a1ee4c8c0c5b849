import { hash } from 'node:crypto';
import type { Clock } from '@oarlock/primitives/clock';
import { ExpiringCache } from '@oarlock/primitives/collections/expiring-cache';
import type { Logger } from '@oarlock/primitives/logger';
import { abstained, type Authenticator, type AuthnResult, type Credentials } from '@oarlock/spi/authn';
import type { Client } from '@oarlock/spi/client';
import type { ClusterKeys } from '@oarlock/spi/cluster';
import type { JWTPayload } from 'jose';
import { BoundTokens } from './bound-tokens.ts';
import { legacyIssuer, LegacyTokens } from './legacy-tokens.ts';
import { VerifyingKeys } from './verifying-keys.ts';

export interface ServiceAccountAuthenticatorOptions {
  readonly keys: Pick<ClusterKeys, 'serviceAccount'>;
  /** The accepted audiences, of which a token must have at least one; by default the issuer. */
  readonly audiences?: readonly string[] | undefined;
  readonly cacheMs: number;
  readonly client: Client;
  readonly clock: Clock;
  readonly log: Logger;
}

const maxCachedTokens = 10_000;
const maxTokenLength = 16_384;
const compactJws = /^[\w-]+\.[\w-]+\.[\w-]+$/; // RFC 7515, section 7.1

/** Authenticates service account tokens. Successes are cached by the hash of the token. A rotation of the keys clears the cache. */
export class ServiceAccountAuthenticator implements Authenticator {
  readonly #issuer: string;
  readonly #audiences: readonly string[];
  readonly #cacheMs: number;
  readonly #clock: Clock;
  readonly #keys: VerifyingKeys;
  readonly #boundTokens: BoundTokens;
  readonly #legacyTokens: LegacyTokens;
  #cache: ExpiringCache<string, AuthnResult>;
  /** The last token of each open connection, and its key in the cache. */
  readonly #lastTokens = new WeakMap<object, { readonly token: string; readonly key: string }>();

  constructor({ keys: clusterKeys, audiences, cacheMs, client, clock, log }: ServiceAccountAuthenticatorOptions) {
    const { issuer } = clusterKeys.serviceAccount;
    this.#issuer = issuer;
    this.#audiences = audiences ?? [issuer];
    this.#cacheMs = cacheMs;
    this.#clock = clock;
    this.#cache = this.#emptyCache();
    this.#keys = new VerifyingKeys(clusterKeys, () => {
      this.#cache = this.#emptyCache();
    });
    const keys = () => this.#keys.current();
    this.#boundTokens = new BoundTokens({ issuer, client, clock, keys });
    this.#legacyTokens = new LegacyTokens({ client, clock, log, keys });
  }

  /** Returns a promise only if the token is not in the cache: a promise per request costs more than the lookup. */
  authenticate({ bearerToken, connection, audiences: requested = [] }: Credentials): AuthnResult | Promise<AuthnResult> {
    if (bearerToken === undefined) return abstained;
    const audiences = requested.length > 0 ? requested : this.#audiences;
    const key = audiences === this.#audiences ? this.#keyOf(bearerToken, connection) : cacheKey(bearerToken, JSON.stringify(audiences));
    if (key === undefined) return abstained;
    this.#keys.current(); // empties the cache after a rotation
    return this.#cache.get(key) ?? this.#verify(bearerToken, audiences, key);
  }

  /** Returns the key of a token in the cache. It is hashed once per connection, because clients send the same token with all requests. */
  #keyOf(token: string, connection: object | undefined): string | undefined {
    if (connection === undefined) return cacheKey(token);
    const last = this.#lastTokens.get(connection);
    if (last?.token === token) return last.key;
    const key = cacheKey(token);
    if (key !== undefined) this.#lastTokens.set(connection, { token, key });
    return key;
  }

  async #verify(bearerToken: string, audiences: readonly string[], key: string): Promise<AuthnResult> {
    const { iss, exp } = claimsOf(bearerToken) ?? {};
    if (iss !== this.#issuer && iss !== legacyIssuer) return abstained;
    const isLegacy = iss === legacyIssuer;
    const result = await (isLegacy ? this.#legacyTokens.verify(bearerToken) : this.#boundTokens.verify(bearerToken, audiences));
    if (result.outcome === 'authenticated') {
      const expiresAt = (exp ?? (isLegacy ? Infinity : 0)) * 1000;
      this.#cache.set(key, result, Math.min(expiresAt, this.#clock.now() + this.#cacheMs));
    }
    return result;
  }

  #emptyCache(): ExpiringCache<string, AuthnResult> {
    return new ExpiringCache({ max: maxCachedTokens, clock: this.#clock });
  }
}

/** Returns the key of a token in the cache: a hash of the token and of the requested audiences; undefined if the token is not a JWT. */
const cacheKey = (token: string, audiences = ''): string | undefined =>
  token.length > maxTokenLength || !compactJws.test(token) ? undefined : hash('sha256', token + audiences, 'base64');

/** Returns the claims of a token without verifying the token; undefined if the token is not a JWT. */
function claimsOf(token: string): JWTPayload | undefined {
  try {
    return JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString('utf8')) as JWTPayload;
  } catch {
    return undefined;
  }
}
