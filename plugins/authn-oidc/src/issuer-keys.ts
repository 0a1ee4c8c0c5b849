import { isObject } from '@oarlock/api/json/json';
import type { Clock } from '@oarlock/primitives/clock';
import { createLocalJWKSet, errors, type JSONWebKeySet, type JWTVerifyGetKey } from 'jose';

/** Fetches JSON with a GET request. @throws Error */
export type Fetch = (url: string) => Promise<unknown>;

const pauseMs = 10_000;

/** The public keys of one issuer, from its discovery document (OpenID Connect Discovery 1.0). */
export class IssuerKeys {
  readonly #issuer: string;
  readonly #discovery: string;
  readonly #fetch: Fetch;
  readonly #clock: Clock;
  #known: JWTVerifyGetKey | undefined;
  #fetchedAt = -Infinity;
  #fetching: Promise<JWTVerifyGetKey> | undefined;

  constructor(issuer: string, discoveryUrl: string | undefined, fetch: Fetch, clock: Clock) {
    this.#issuer = issuer;
    this.#discovery = discoveryUrl ?? `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
    this.#fetch = fetch;
    this.#clock = clock;
  }

  readonly get: JWTVerifyGetKey = async (header, token) => {
    const known = this.#known ?? (await this.#refresh());
    try {
      return await known(header, token);
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey) || this.#clock.monotonic() - this.#fetchedAt < pauseMs) throw error;
      return (await this.#refresh())(header, token);
    }
  };

  #refresh(): Promise<JWTVerifyGetKey> {
    this.#fetching ??= this.#load().finally(() => {
      this.#fetching = undefined;
    });
    return this.#fetching;
  }

  async #load(): Promise<JWTVerifyGetKey> {
    this.#fetchedAt = this.#clock.monotonic();
    const document = await this.#fetch(this.#discovery);
    if (!isObject(document) || document['issuer'] !== this.#issuer || typeof document['jwks_uri'] !== 'string')
      throw new Error(`the discovery document of ${this.#issuer} names another issuer`);
    const keys = await this.#fetch(document['jwks_uri']);
    if (!isObject(keys) || !Array.isArray(keys['keys'])) throw new Error(`the JWKS endpoint of ${this.#issuer} returned no keys`);
    this.#known = createLocalJWKSet(keys as unknown as JSONWebKeySet);
    return this.#known;
  }
}
