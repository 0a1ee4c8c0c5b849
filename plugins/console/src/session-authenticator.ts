import { abstained, anonymous, rejected, type Authenticator, type AuthnResult, type Credentials, type Identity } from '@oarlock/spi/authn';
import type { PathAuthenticator } from '@oarlock/spi/paths';
import { isFromOwnPage, sessionSecretOf } from './own-page.ts';
import type { Session, SessionTable } from './session-table.ts';

const unknownSession = rejected('the session of the console is unknown or has expired');

/**
 * Authenticates requests of the console's page by the session cookie and the key of the page. They count only for requests that the page itself sent:
 * they never authenticate navigations, or requests of other origins. A session ends when the credentials that began it are no longer accepted, for
 * instance because their service account was deleted.
 */
export class SessionAuthenticator implements PathAuthenticator {
  readonly #sessions: SessionTable;
  /** The authenticators of the composition, which every request passes before its handler is called. */
  #composition: Authenticator | undefined;
  constructor(sessions: SessionTable) {
    this.#sessions = sessions;
  }

  /** Returns a promise only for requests of the page: a promise for each request costs more than the check. */
  authenticate({ headers, bearerToken, path }: Credentials, composition: Authenticator): AuthnResult | Promise<AuthnResult> {
    this.#composition = composition;
    if (headers['cookie'] === undefined || bearerToken !== undefined || !isFromOwnPage(headers)) return abstained;
    const secret = sessionSecretOf(headers);
    return secret === undefined ? abstained : this.#authenticate(secret, path, composition);
  }

  /**
   * Returns the user of credentials that are not those of the request; undefined if no authenticator of the composition accepts them.
   * @throws Error if it is unknown whether one does
   */
  async userOf(credentials: Credentials): Promise<Identity | undefined> {
    const result = await this.#composition?.authenticate(credentials);
    return result?.outcome === 'authenticated' && result.identity.name !== anonymous.name ? result.identity : undefined;
  }

  async #authenticate(secret: string, path: string, composition: Authenticator): Promise<AuthnResult> {
    const session = this.#sessions.use(secret);
    const identity = session && (await currentIdentity(session, composition));
    if (session === undefined || identity === undefined) {
      this.#sessions.end(secret);
      // a user whose session has ended signs in again with the same browser
      return path.startsWith('/console/') ? abstained : unknownSession;
    }
    const { id, method } = session;
    return {
      outcome: 'authenticated',
      identity,
      annotations: { 'console.oarlock.dev/session': id, 'console.oarlock.dev/sign-in': method },
    };
  }
}

/**
 * Returns the user of a session, as the credentials that began the session authenticate them now. Undefined if the credentials are no longer accepted.
 * @throws Error if it is unknown whether they are
 */
async function currentIdentity(
  { identity, credentials: first, renewal }: Session,
  composition: Authenticator,
): Promise<Identity | undefined> {
  const credentials = renewal === undefined ? first : await renewal.credentials();
  if (credentials === undefined) return identity;
  const result = await composition.authenticate(credentials);
  if (result.outcome !== 'authenticated' || result.identity.name === anonymous.name) return undefined;
  return result.identity.name === identity.name && result.identity.uid === identity.uid ? result.identity : undefined;
}
