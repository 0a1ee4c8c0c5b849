import type { IncomingHttpHeaders } from 'node:http';
import type { StatusError } from '@oarlock/api/status';
import { anonymous, rejected, type Authenticator, type AuthnResult, type Credentials, type Identity } from '@oarlock/spi/authn';
import { unauthorized } from '../http/errors.ts';
import type { ClientConnection } from '../http/client-certificates.ts';

export function credentialsOf(headers: IncomingHttpHeaders, connection: ClientConnection, path: string): Credentials {
  const bearerToken = bearerTokenOf(headers);
  const certificate = connection.certificate();
  const frontProxyCertificate = connection.frontProxyCertificate();
  return {
    headers,
    path,
    ...(bearerToken !== undefined && { bearerToken }),
    ...(certificate !== undefined && { certificate }),
    ...(frontProxyCertificate !== undefined && { frontProxyCertificate }),
    ...(connection.remoteAddress !== undefined && { remoteAddress: connection.remoteAddress }),
  };
}

const subprotocolPrefix = 'base64url.bearer.authorization.k8s.io.';

/** From `Authorization`, or from the WebSocket subprotocol that browsers have to use instead. */
function bearerTokenOf(headers: IncomingHttpHeaders): string | undefined {
  const { authorization } = headers;
  if (authorization !== undefined) return /^bearer +(\S+) *$/i.exec(authorization)?.[1];
  const encoded = headers['sec-websocket-protocol']
    ?.split(',')
    .map((part) => part.trim())
    .find((part) => part.startsWith(subprotocolPrefix));
  if (encoded === undefined) return undefined;
  const token = Buffer.from(encoded.slice(subprotocolPrefix.length), 'base64url').toString('utf8');
  return token === '' ? undefined : token;
}

/** A sender who is known, and what the audit events of the request say of how. */
export interface AuthenticatedRequest {
  readonly identity: Identity;
  readonly annotations: Readonly<Record<string, string>>;
}
const none = Object.freeze({});

/**
 * Runs the chain to the first that knows the sender. Nobody is anonymous by falling through: only an authenticator of the chain
 * says so, and not after another one has found the credentials wrong. One that fails has not known the sender, who may be known by another: as the
 * union of authenticators of Kubernetes goes on after an error.
 */
export async function authenticate(
  chain: readonly Authenticator[],
  credentials: Credentials,
  failed: (error: unknown) => void,
): Promise<AuthenticatedRequest | StatusError> {
  let wrong = false;
  for (const authenticator of chain) {
    const answer = tryAuthenticator(authenticator, credentials, failed);
    const result = answer instanceof Promise ? await answer : answer;
    if (result.outcome === 'rejected') wrong = true;
    else if (result.outcome === 'authenticated') {
      if (wrong && result.identity.name === anonymous.name) break;
      return { identity: withGroup(result.identity), annotations: result.annotations ?? none };
    }
  }
  return unauthorized();
}

function tryAuthenticator(
  authenticator: Authenticator,
  credentials: Credentials,
  failed: (error: unknown) => void,
): AuthnResult | Promise<AuthnResult> {
  const refused = (error: unknown) => {
    failed(error);
    return rejected('it could not be asked');
  };
  try {
    const answer = authenticator.authenticate(credentials);
    return answer instanceof Promise ? answer.catch(refused) : answer;
  } catch (error) {
    return refused(error);
  }
}

/** Whoever is known is in `system:authenticated`, also when an authenticator forgets it. */
function withGroup(identity: Identity): Identity {
  const { groups } = identity;
  if (groups.includes('system:authenticated') || groups.includes('system:unauthenticated') || identity.name === anonymous.name)
    return identity;
  return { ...identity, groups: [...groups, 'system:authenticated'] };
}
