import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { Credentials, Identity } from '@oarlock/spi/authn';
import { GrantRejected, type OidcProvider, type Tokens } from './oidc-provider.ts';
import { bearerCredentials, claimsOf, OidcRenewal } from './oidc-renewal.ts';
import { pageKeyOf, pageUrl } from './own-page.ts';
import type { CredentialsRenewal } from './session-table.ts';

/** The time in which the user signs in at the provider. Milliseconds. */
const signInMs = 600_000;

export interface OidcSignInOptions {
  readonly provider: Pick<OidcProvider, 'authorizationUrl' | 'logoutUrl' | 'redeem' | 'refresh' | 'revoke'>;
  readonly clientID: string;
  /** Shown on the page, such as the host of the issuer. */
  readonly name: string;
  readonly clock: Pick<Clock, 'now'>;
  readonly log: Pick<Logger, 'warn'>;
  /** Authenticates an ID token; undefined if no authenticator of the composition accepts it. */
  readonly authenticate: (credentials: Credentials) => Promise<Identity | undefined>;
  /** Closes the connections to the provider. */
  readonly close: () => void;
}

/** The user of an ID token, and the credentials of the session. */
export interface OidcUser {
  readonly identity: Identity;
  readonly credentials: Credentials;
  /** Absent if the provider issued no refresh token: the session then ends with the ID token. */
  readonly renewal?: CredentialsRenewal;
}

/**
 * Signs users in with the authorization code flow and PKCE (OpenID Connect Core 1.0, section 3.1; RFC 7636). Nothing is stored between the two requests:
 * the state is authenticated with a key of this process, and nonce and code verifier are derived from it, so that unfinished sign-ins of anonymous users
 * need no memory. The state is valid for the page whose key began the sign-in: the redirect of an attacker's sign-in does not sign a victim in.
 */
export class OidcSignIn {
  readonly #options: OidcSignInOptions;
  readonly #key = randomBytes(32);

  constructor(options: OidcSignInOptions) {
    this.#options = options;
  }

  get name(): string {
    return this.#options.name;
  }

  /** The URL at which the user can sign out at the provider; undefined if the provider has none. */
  get logoutUrl(): string | undefined {
    return this.#options.provider.logoutUrl;
  }

  close(): void {
    this.#options.close();
  }

  /** Returns the URL of the provider for a page. @throws Error if the provider is not available */
  begin(headers: Credentials['headers']): Promise<string> {
    const unsigned = `${randomBytes(16).toString('base64url')}.${this.#options.clock.now() + signInMs}`;
    const state = `${unsigned}.${this.#signature(unsigned, headers)}`;
    const challenge = createHash('sha256').update(this.#derive('verifier', state)).digest('base64url');
    return this.#options.provider.authorizationUrl({
      redirectUri: pageUrl(headers),
      state,
      nonce: this.#derive('nonce', state),
      challenge,
    });
  }

  /**
   * Returns the user of the code with which the provider redirected the page, or why there is none.
   * @throws Error if the provider or an authenticator is not available
   */
  async finish(
    { code, state }: { readonly code: string; readonly state: string },
    headers: Credentials['headers'],
  ): Promise<OidcUser | string> {
    if (!this.#isOwnState(state, headers))
      return 'this page did not begin the sign-in at the OIDC provider, or it took too long: sign in again';
    const tokens = await this.#redeem(code, { state, headers });
    if (tokens === undefined) return 'the OIDC provider rejected the code, because it is used, expired or unknown: sign in again';
    const credentials = bearerCredentials(tokens.idToken);
    const identity = await this.#options.authenticate(credentials);
    if (identity === undefined) return `no authenticator of the API server accepts the ID token of ${this.#options.name}`;
    const { provider, clientID, clock, log } = this.#options;
    const { nonce, aud } = claimsOf(tokens.idToken);
    if (nonce !== this.#derive('nonce', state) || ![aud].flat().includes(clientID))
      return 'the ID token belongs to another sign-in: sign in again';
    const { refreshToken } = tokens;
    if (refreshToken === undefined) return { identity, credentials };
    return { identity, credentials, renewal: new OidcRenewal({ provider, clientID, clock, log }, { ...tokens, refreshToken }) };
  }

  async #redeem(
    code: string,
    { state, headers }: { readonly state: string; readonly headers: Credentials['headers'] },
  ): Promise<Tokens | undefined> {
    try {
      return await this.#options.provider.redeem({ code, redirectUri: pageUrl(headers), verifier: this.#derive('verifier', state) });
    } catch (error) {
      if (error instanceof GrantRejected) return undefined;
      throw error;
    }
  }

  #isOwnState(state: string, headers: Credentials['headers']): boolean {
    const [random = '', expiresAt = '', signature = ''] = state.split('.');
    const expected = Buffer.from(this.#signature(`${random}.${expiresAt}`, headers));
    const actual = Buffer.from(signature);
    return actual.length === expected.length && timingSafeEqual(actual, expected) && this.#options.clock.now() < Number(expiresAt);
  }

  #signature(unsigned: string, headers: Credentials['headers']): string {
    return this.#derive('state', JSON.stringify([unsigned, pageKeyOf(headers), pageUrl(headers)]));
  }

  #derive(purpose: 'state' | 'nonce' | 'verifier', text: string): string {
    return createHmac('sha256', this.#key).update(`${purpose}:${text}`).digest('base64url');
  }
}
