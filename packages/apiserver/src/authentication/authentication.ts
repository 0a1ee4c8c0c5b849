import type { IncomingHttpHeaders } from 'node:http';
import { StatusError } from '@oarlock/api/status';
import { continueWith } from '@oarlock/primitives/concurrency/continue-with';
import { anonymous, rejected, type Authenticator, type AuthnResult, type Credentials, type Identity } from '@oarlock/spi/authn';
import { unauthorized } from '../http/errors.ts';
import type { Exchange } from '../http/exchange.ts';

/** Returns the credentials of a request: the headers, and the verified client certificate of the connection. */
export function credentialsOf(exchange: Pick<Exchange, 'headers' | 'rawHeaders' | 'connection'>, path: string): Credentials {
  const { headers, rawHeaders, connection } = exchange;
  const bearerToken = bearerTokenOf(headers);
  const certificate = connection.certificate();
  const frontProxyCertificate = connection.frontProxyCertificate();
  return {
    headers,
    rawHeaders,
    path,
    connection: connection.cacheKey,
    ...(bearerToken !== undefined && { bearerToken }),
    ...(certificate !== undefined && { certificate }),
    ...(frontProxyCertificate !== undefined && { frontProxyCertificate }),
    ...(connection.remoteAddress !== undefined && { remoteAddress: connection.remoteAddress }),
  };
}

/** The prefix of the WebSocket subprotocol that contains a bearer token. */
export const bearerSubprotocolPrefix = 'base64url.bearer.authorization.k8s.io.';

/**
 * Returns the bearer token of the `Authorization` header, or of the WebSocket subprotocol that browsers use instead; undefined if there is
 * none.
 */
function bearerTokenOf(headers: IncomingHttpHeaders): string | undefined {
  const { authorization } = headers;
  if (authorization !== undefined) return /^bearer +(\S+) *$/i.exec(authorization)?.[1];
  if (headers.upgrade?.toLowerCase() !== 'websocket') return undefined;
  const protocols = (headers['sec-websocket-protocol'] ?? '').split(',').map((part) => part.trim());
  const tokens = protocols.filter((part) => part.startsWith(bearerSubprotocolPrefix));
  // a server must choose one of the offered protocols, and never the one with the token
  if (tokens.length !== 1 || protocols.length === 1) return undefined;
  const token = Buffer.from(tokens[0]?.slice(bearerSubprotocolPrefix.length) ?? '', 'base64url').toString('utf8');
  return token === '' ? undefined : token;
}

/** The authenticated user, the annotations that authenticators add to the audit events of the request, and their warnings for the client. */
export interface AuthenticatedRequest {
  readonly identity: Identity;
  readonly annotations: Readonly<Record<string, string>>;
  readonly warnings: readonly string[];
}
const noAnnotations = Object.freeze({});
const noWarnings: readonly string[] = [];

/**
 * Calls the authenticators in order until one authenticates the user. Invalid credentials are rejected, never downgraded to anonymous:
 * after a rejection or an error, an anonymous result counts as unauthorized. After an error the next authenticator is called, as in
 * upstream's union. Returns a promise only if an authenticator does.
 */
export function authenticate(
  chain: readonly Authenticator[],
  credentials: Credentials,
  onError: (error: unknown) => void,
): AuthenticatedRequest | StatusError | Promise<AuthenticatedRequest | StatusError> {
  return authenticateFrom(0, false, { chain, credentials, onError });
}

interface AuthenticationAttempt {
  readonly chain: readonly Authenticator[];
  readonly credentials: Credentials;
  readonly onError: (error: unknown) => void;
}

/** Calls the authenticators from the index `first` on. `rejectedBefore`: an earlier one rejected the credentials. */
function authenticateFrom(
  first: number,
  rejectedBefore: boolean,
  attempt: AuthenticationAttempt,
): AuthenticatedRequest | StatusError | Promise<AuthenticatedRequest | StatusError> {
  const authenticator = attempt.chain[first];
  if (authenticator === undefined) return unauthorized();
  return continueWith(tryAuthenticator(authenticator, attempt.credentials, attempt.onError), (result) => {
    if (result.outcome !== 'authenticated') return authenticateFrom(first + 1, rejectedBefore || result.outcome === 'rejected', attempt);
    if (rejectedBefore && result.identity.name === anonymous.name) return unauthorized();
    const { annotations = noAnnotations, warnings = noWarnings } = result;
    return { identity: withAuthenticatedGroup(result.identity), annotations, warnings };
  });
}

/** Calls an authenticator. An exception of the authenticator counts as a rejection. */
function tryAuthenticator(
  authenticator: Authenticator,
  credentials: Credentials,
  onError: (error: unknown) => void,
): AuthnResult | Promise<AuthnResult> {
  const rejection = (error: unknown) => {
    onError(error);
    return rejected('the authenticator failed');
  };
  try {
    const result = authenticator.authenticate(credentials);
    return result instanceof Promise ? result.catch(rejection) : result;
  } catch (error) {
    return rejection(error);
  }
}

/** Adds the group `system:authenticated` to a user if the authenticator did not add it. */
function withAuthenticatedGroup(identity: Identity): Identity {
  const { groups } = identity;
  if (groups.includes('system:authenticated') || groups.includes('system:unauthenticated') || identity.name === anonymous.name)
    return identity;
  return { ...identity, groups: [...groups, 'system:authenticated'] };
}

/** Returns a chain as one authenticator. It throws the first error of an authenticator if no later one accepts the credentials. */
export function unionAuthenticator(chain: readonly Authenticator[]): Authenticator {
  return {
    async authenticate(credentials) {
      const errors: unknown[] = [];
      const result = await authenticate(chain, credentials, (error) => errors.push(error));
      if (!(result instanceof StatusError)) return { outcome: 'authenticated', ...result };
      if (errors.length > 0) throw errors[0];
      return rejected('no authenticator accepts the credentials');
    },
  };
}
