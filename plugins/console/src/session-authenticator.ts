import { abstained, rejected, type Authenticator, type AuthnResult, type Credentials } from '@oarlock/spi/authn';
import { isFromOwnPage, sessionSecretOf } from './own-page.ts';
import type { SessionTable } from './session-table.ts';

const unknownSession = rejected('the session of the console is unknown or has expired');

/**
 * Authenticates requests of the console's page by the session cookie. The cookie counts only for requests that the page itself sent: it never
 * authenticates navigations, or requests of other origins.
 */
export class SessionAuthenticator implements Authenticator {
  readonly #sessions: SessionTable;
  constructor(sessions: SessionTable) {
    this.#sessions = sessions;
  }

  authenticate({ headers, bearerToken, path }: Credentials): AuthnResult {
    if (headers['cookie'] === undefined || bearerToken !== undefined || !isFromOwnPage(headers)) return abstained;
    const secret = sessionSecretOf(headers);
    if (secret === undefined) return abstained;
    const session = this.#sessions.use(secret);
    // a user whose session has ended signs in again with the same browser
    if (session === undefined) return path.startsWith('/console/') ? abstained : unknownSession;
    const { identity, id, method } = session;
    return {
      outcome: 'authenticated',
      identity,
      annotations: { 'console.oarlock.dev/session': id, 'console.oarlock.dev/sign-in': method },
    };
  }
}
