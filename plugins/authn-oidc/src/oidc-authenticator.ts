import { createHash } from 'node:crypto';
import type { Clock } from '@oarlock/primitives/clock';
import { ExpiringCache } from '@oarlock/primitives/collections/expiring-cache';
import { abstained, rejected, type Authenticator, type AuthnResult, type Credentials } from '@oarlock/spi/authn';
import { JsonClient } from '@oarlock/webhook-client/json-client';
import { errors, jwtVerify, type JWTPayload, type JWTVerifyOptions } from 'jose';
import { ClaimMapper } from './claims.ts';
import type { JwtConfig } from './config.ts';
import { IssuerKeys } from './issuer-keys.ts';

const compactJws = /^[\w-]+\.[\w-]+\.[\w-]+$/; // RFC 7515, section 7.1
/** The accepted signature algorithms. All are asymmetric, because with a symmetric algorithm the published key could sign tokens. */
const algorithms = ['RS256', 'RS384', 'RS512', 'ES256', 'ES384', 'ES512', 'PS256', 'PS384', 'PS512'];
const maxTokenLength = 65_536;
const maxCachedTokens = 10_000;
const cacheMs = 10_000;

export interface OidcOptions {
  readonly jwt: readonly JwtConfig[];
  readonly timeoutSeconds: number;
  readonly clock: Clock;
}

/** A configured issuer with its keys and claim mapper. */
interface Issuer {
  readonly audiences: string[];
  readonly client: JsonClient;
  readonly keys: IssuerKeys;
  readonly mapper: ClaimMapper;
}

/** Authenticates ID tokens of the configured issuers. A success is cached for `cacheMs` by the hash of the token. */
export class OidcAuthenticator implements Authenticator {
  readonly #issuers: ReadonlyMap<string, Issuer>;
  readonly #clock: Clock;
  readonly #cache: ExpiringCache<string, AuthnResult>;

  /** @throws Error if a CEL expression of the configuration does not compile */
  constructor({ jwt, timeoutSeconds, clock }: OidcOptions) {
    this.#issuers = new Map(jwt.map((config) => [config.issuer.url, issuerOf(config, timeoutSeconds * 1000, clock)]));
    this.#clock = clock;
    this.#cache = new ExpiringCache({ max: maxCachedTokens, clock });
  }

  async stop(): Promise<void> {
    for (const { client } of this.#issuers.values()) client.close();
  }

  async authenticate({ bearerToken }: Credentials): Promise<AuthnResult> {
    if (bearerToken === undefined || bearerToken.length > maxTokenLength || !compactJws.test(bearerToken)) return abstained;
    const url = issuerClaimOf(bearerToken);
    const issuer = url === undefined ? undefined : this.#issuers.get(url);
    if (url === undefined || issuer === undefined) return abstained;
    const hash = createHash('sha256').update(bearerToken).digest('base64');
    const cached = this.#cache.get(hash);
    if (cached !== undefined) return cached;
    let payload: JWTPayload;
    try {
      payload = await this.#verify(bearerToken, url, issuer);
    } catch (error) {
      if (error instanceof errors.JOSEError) return rejected('the token is not valid');
      throw error;
    }
    const result = issuer.mapper.map(payload);
    if (result.outcome === 'authenticated') this.#cache.set(hash, result, Math.min((payload.exp ?? 0) * 1000, this.#clock.now() + cacheMs));
    return result;
  }

  /** Verifies a token's signature and claims. @throws JOSEError if the token is invalid; another error if the issuer's keys are not available */
  async #verify(token: string, url: string, { audiences, keys }: Issuer): Promise<JWTPayload> {
    const options: JWTVerifyOptions = {
      issuer: url,
      audience: audiences,
      algorithms,
      requiredClaims: ['exp'],
      currentDate: new Date(this.#clock.now()),
    };
    try {
      return (await jwtVerify(token, keys.get, options)).payload;
    } catch (error) {
      if (!(error instanceof errors.JWKSMultipleMatchingKeys)) throw error;
      // a token without a key id: each key of its algorithm may have signed it
      for await (const key of error) {
        try {
          return (await jwtVerify(token, key, options)).payload;
        } catch (fault) {
          if (!(fault instanceof errors.JWSSignatureVerificationFailed)) throw fault;
        }
      }
      throw new errors.JWSSignatureVerificationFailed();
    }
  }
}

function issuerOf(config: JwtConfig, timeoutMs: number, clock: Clock): Issuer {
  const { url, discoveryURL, certificateAuthorityFile, certificateAuthority: ca, audiences } = config.issuer;
  const client = new JsonClient({ url, caFile: certificateAuthorityFile, ca });
  const fetch = async (target: string): Promise<unknown> => {
    const { code, body } = await client.get(target, timeoutMs);
    if (code !== 200) throw new Error(`${new URL(target).host} returned status ${code}`);
    return body;
  };
  return {
    audiences,
    client,
    keys: new IssuerKeys({ issuer: url, discoveryUrl: discoveryURL, fetch, clock }),
    mapper: new ClaimMapper(config),
  };
}

/** Returns the claim `iss` of a token without verifying the token; undefined if the token is not a JWT. */
function issuerClaimOf(token: string): string | undefined {
  try {
    const { iss } = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString('utf8')) as { readonly iss?: unknown };
    return typeof iss === 'string' ? iss : undefined;
  } catch {
    return undefined;
  }
}
