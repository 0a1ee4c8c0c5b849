import { isObject } from '@oarlock/api/json/json';
import type { Clock } from '@oarlock/primitives/clock';
import { isSafeUrl } from '@oarlock/webhook-client/endpoint-config';
import { createLocalJWKSet, errors, type JSONWebKeySet, type JWTVerifyGetKey } from 'jose';

/** Fetches JSON with a GET request. @throws Error if the request fails */
export type Fetch = (url: string) => Promise<unknown>;

export interface IssuerKeysOptions {
  /** The issuer URL, exactly as in the claim `iss`. */
  readonly issuer: string;
  /** The URL of the discovery document; by default the well-known path below the issuer URL. */
  readonly discoveryUrl?: string | undefined;
  readonly fetch: Fetch;
  readonly clock: Clock;
}

/** The minimum time between two attempts to fetch keys. Milliseconds. */
const fetchIntervalMs = 10_000;
/** The maximum number of keys per issuer. A token may be compared with each of them. */
const maxKeys = 100;

/** The public keys of one issuer, read through the issuer's discovery document (OpenID Connect Discovery 1.0). */
export class IssuerKeys {
  readonly #options: IssuerKeysOptions;
  #known: JWTVerifyGetKey | undefined;
  #fetchedAt = -Infinity;
  #fetching: Promise<JWTVerifyGetKey> | undefined;
  #failure: unknown;

  constructor(options: IssuerKeysOptions) {
    this.#options = options;
  }

  /**
   * Returns the key that a token's header names. Fetches the keys at the first token, and again for an unknown key, at most once per
   * `fetchIntervalMs`.
   */
  readonly get: JWTVerifyGetKey = async (header, token) => {
    const known = this.#known ?? (await this.#first());
    try {
      return await known(header, token);
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey) || this.#fetchedRecently()) throw error;
      return (await this.#refresh())(header, token);
    }
  };

  #fetchedRecently(): boolean {
    return this.#options.clock.monotonic() - this.#fetchedAt < fetchIntervalMs;
  }

  /**
   * Fetches the keys for the first token. Rejects immediately if a recent attempt failed: otherwise each token would wait for the timeout of an
   * unreachable issuer.
   */
  #first(): Promise<JWTVerifyGetKey> {
    if (this.#fetching === undefined && this.#failure !== undefined && this.#fetchedRecently())
      return Promise.reject(new Error(`the keys of ${this.#options.issuer} could not be fetched`, { cause: this.#failure }));
    return this.#refresh();
  }

  #refresh(): Promise<JWTVerifyGetKey> {
    this.#fetching ??= this.#load().finally(() => {
      this.#fetching = undefined;
    });
    return this.#fetching;
  }

  async #load(): Promise<JWTVerifyGetKey> {
    this.#fetchedAt = this.#options.clock.monotonic();
    try {
      this.#known = createLocalJWKSet(await this.#fetchKeySet());
      this.#failure = undefined;
      return this.#known;
    } catch (error) {
      this.#failure = error;
      // the token is not at fault: an error of the issuer is not a JOSE error of the token
      throw error instanceof errors.JOSEError ? new Error(`the keys of ${this.#options.issuer} are invalid`, { cause: error }) : error;
    } finally {
      // an attempt that ended in a timeout counts from its end
      this.#fetchedAt = this.#options.clock.monotonic();
    }
  }

  async #fetchKeySet(): Promise<JSONWebKeySet> {
    const { issuer, discoveryUrl, fetch } = this.#options;
    const document = await fetch(discoveryUrl ?? `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`);
    if (!isObject(document) || document['issuer'] !== issuer || typeof document['jwks_uri'] !== 'string')
      throw new Error(`the discovery document of ${issuer} names another issuer`);
    const { jwks_uri: keysUrl } = document as { readonly jwks_uri: string };
    // keys that can be changed in transit prove nothing
    if (!isSafeUrl(keysUrl) || (issuer.startsWith('https:') && !keysUrl.startsWith('https:')))
      throw new Error(`the discovery document of ${issuer} names a jwks_uri that is not an https:// URL`);
    const keySet = await fetch(keysUrl);
    if (!isObject(keySet) || !Array.isArray(keySet['keys'])) throw new Error(`the JWKS endpoint of ${issuer} returned no keys`);
    if (keySet['keys'].length > maxKeys) throw new Error(`the JWKS endpoint of ${issuer} returned more than ${maxKeys} keys`);
    return keySet as unknown as JSONWebKeySet;
  }
}
