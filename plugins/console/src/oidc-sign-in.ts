import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Clock } from '@oarlock/primitives/clock';
import type { Credentials, Identity } from '@oarlock/spi/authn';
import { CodeRejected, type OidcProvider } from './oidc-provider.ts';
import { pageKeyOf, pageUrl } from './own-page.ts';

/** The time in which the user signs in at the provider. Milliseconds. */
const signInMs = 600_000;

export interface OidcSignInOptions {
  readonly provider: Pick<OidcProvider, 'authorizationUrl' | 'idToken'>;
  readonly clientID: string;
  /** Shown on the page, such as the host of the issuer. */
  readonly name: string;
  readonly clock: Pick<Clock, 'now'>;
  /** Authenticates an ID token; undefined if no authenticator of the composition accepts it. */
  readonly authenticate: (credentials: Credentials) => Promise<Identity | undefined>;
  /** Closes the connections to the provider. */
  readonly close: () => void;
}

/** The user of an ID token, and the credentials of the session. */
export interface OidcUser {
  readonly identity: Identity;
  readonly credentials: Credentials;
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
    const token = await this.#idToken(code, { state, headers });
    if (token === undefined) return 'the OIDC provider rejected the code, because it is used, expired or unknown: sign in again';
    // without the headers and the client certificate of the request, which could authenticate another user
    const credentials: Credentials = { headers: { authorization: `Bearer ${token}` }, path: '/console/session', bearerToken: token };
    const identity = await this.#options.authenticate(credentials);
    if (identity === undefined) return `no authenticator of the API server accepts the ID token of ${this.#options.name}`;
    const { nonce, aud } = claimsOf(token);
    if (nonce !== this.#derive('nonce', state) || ![aud].flat().includes(this.#options.clientID))
      return 'the ID token belongs to another sign-in: sign in again';
    return { identity, credentials };
  }

  async #idToken(
    code: string,
    { state, headers }: { readonly state: string; readonly headers: Credentials['headers'] },
  ): Promise<string | undefined> {
    try {
      return await this.#options.provider.idToken({ code, redirectUri: pageUrl(headers), verifier: this.#derive('verifier', state) });
    } catch (error) {
      if (error instanceof CodeRejected) return undefined;
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

/** Returns the claims of a token, which an authenticator has verified. */
function claimsOf(token: string): { readonly nonce?: unknown; readonly aud?: unknown } {
  const [, claims = ''] = token.split('.');
  return JSON.parse(Buffer.from(claims, 'base64url').toString('utf8')) as { readonly nonce?: unknown; readonly aud?: unknown };
}
