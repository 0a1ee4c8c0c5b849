import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { Credentials } from '@oarlock/spi/authn';
import { credentialsEnd } from './credentials-end.ts';
import { GrantRejected, type OidcProvider, type Tokens } from './oidc-provider.ts';
import type { CredentialsRenewal } from './session-table.ts';

/** The time before the end of an ID token in which a request begins its renewal. Milliseconds. */
const marginMs = 30_000;
/** The time between two requests to the provider for a session. Milliseconds. */
const intervalMs = 5_000;

export interface OidcRenewalOptions {
  readonly provider: Pick<OidcProvider, 'refresh' | 'revoke'>;
  readonly clientID: string;
  readonly clock: Pick<Clock, 'now'>;
  readonly log: Pick<Logger, 'warn'>;
}

interface Attempt {
  readonly beganAt: number;
  readonly result: Promise<void>;
  isRunning: boolean;
}

/**
 * Renews the ID token of a session with its refresh token, when a request of the session finds that it expires: an unused session is not renewed. Requests
 * wait for the renewal only if the ID token has expired. While the provider is not available, they fail and the session continues.
 */
export class OidcRenewal implements CredentialsRenewal {
  readonly #options: OidcRenewalOptions;
  readonly #first: Claims;
  #credentials: Credentials;
  /** Undefined if the provider rejected it, and after the end of the session. */
  #refreshToken: string | undefined;
  #attempt: Attempt | undefined;
  #isEnded = false;

  constructor(options: OidcRenewalOptions, { idToken, refreshToken }: Required<Tokens>) {
    this.#options = options;
    this.#first = claimsOf(idToken);
    this.#credentials = bearerCredentials(idToken);
    this.#refreshToken = refreshToken;
  }

  async credentials(): Promise<Credentials> {
    const now = this.#options.clock.now();
    const end = credentialsEnd(this.#credentials);
    if (now >= end - marginMs && this.#refreshToken !== undefined && !this.#isEnded) {
      const attempt = this.#attemptAt(now, this.#refreshToken);
      if (now >= end) await attempt;
    }
    return this.#credentials;
  }

  /** Revokes the newest refresh token at the provider, if it has an endpoint for that. A failure is logged: the token then ends as the provider decides. */
  async end(): Promise<void> {
    const { provider, log } = this.#options;
    this.#isEnded = true;
    await this.#attempt?.result.catch(() => undefined); // a renewal that runs replaces the token; it logs its failure itself
    const refreshToken = this.#refreshToken;
    this.#refreshToken = undefined;
    if (refreshToken === undefined) return;
    try {
      await provider.revoke(refreshToken);
    } catch (error) {
      log.warn({ err: error }, 'the OIDC provider did not revoke a refresh token of the console');
    }
  }

  /** Returns the attempt that runs or has just ended, or begins another. One runs at a time: a provider can revoke refresh tokens that are used twice. */
  #attemptAt(now: number, refreshToken: string): Promise<void> {
    const last = this.#attempt;
    if (last !== undefined && (last.isRunning || now < last.beganAt + intervalMs)) return last.result;
    const attempt: Attempt = { beganAt: now, isRunning: true, result: this.#renew(refreshToken) };
    this.#attempt = attempt;
    attempt.result
      .catch((error: unknown) => this.#options.log.warn({ err: error }, 'the OIDC provider did not renew an ID token of the console'))
      .finally(() => {
        attempt.isRunning = false;
      });
    return attempt.result;
  }

  async #renew(refreshToken: string): Promise<void> {
    const { provider, clientID } = this.#options;
    try {
      const tokens = await provider.refresh(refreshToken);
      // OpenID Connect Core 1.0, section 12.2
      const { iss, sub, aud } = claimsOf(tokens.idToken);
      if (iss !== this.#first.iss || sub !== this.#first.sub || ![aud].flat().includes(clientID))
        throw new GrantRejected('invalid_id_token');
      this.#credentials = bearerCredentials(tokens.idToken);
      this.#refreshToken = tokens.refreshToken ?? refreshToken;
    } catch (error) {
      if (!(error instanceof GrantRejected)) throw error;
      this.#refreshToken = undefined;
    }
  }
}

/** Returns the credentials of a token alone, without headers and a client certificate of the request that could authenticate another user. */
export const bearerCredentials = (token: string): Credentials => ({
  headers: { authorization: `Bearer ${token}` },
  path: '/console/session',
  bearerToken: token,
});

interface Claims {
  readonly iss?: unknown;
  readonly sub?: unknown;
  readonly aud?: unknown;
  readonly nonce?: unknown;
}

/** Returns the claims of a token. Authenticators verify it. */
export function claimsOf(token: string): Claims {
  const [, claims = ''] = token.split('.');
  return JSON.parse(Buffer.from(claims, 'base64url').toString('utf8')) as Claims;
}
