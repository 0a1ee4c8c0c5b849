import { abstained, anonymous, authenticated, type Authenticator } from '@oarlock/spi/authn';
import { noOpinion, type Authorizer, type Decision } from '@oarlock/spi/authz';
import type { PathHandler } from '@oarlock/spi/paths';
import { unionAuthenticator } from '../authentication/authentication.ts';

/** The access-control chains of a server. */
interface AccessChains {
  readonly authn: readonly Authenticator[];
  readonly authz: readonly Authorizer[];
}

const allowed: Decision = { decision: 'allow', reason: 'public path' };

/**
 * Adds the authenticators of path handlers before those of the composition, and access for everyone to public paths. Returns the same chains if no
 * handler needs this.
 */
export function withPathAccess({ authn, authz }: AccessChains, handlers: readonly PathHandler[]): AccessChains {
  const composition = unionAuthenticator(authn);
  const own = handlers.flatMap(({ authenticator }): readonly Authenticator[] =>
    authenticator === undefined ? [] : [{ authenticate: (credentials) => authenticator.authenticate(credentials, composition) }],
  );
  const isPublic = publicPaths(handlers);
  if (isPublic === undefined) return { authn: own.length === 0 ? authn : [...own, ...authn], authz };
  const anonymousResult = authenticated(anonymous);
  const publicAuthenticator: Authenticator = {
    authenticate: ({ bearerToken, certificate, frontProxyCertificate, path }) =>
      (bearerToken ?? certificate ?? frontProxyCertificate) === undefined && isPublic(path) ? anonymousResult : abstained,
  };
  const publicAuthorizer: Authorizer = {
    authorize: (attributes) => (attributes.kind === 'path' && isPublic(attributes.path) ? allowed : noOpinion),
  };
  return { authn: [...own, ...authn, publicAuthenticator], authz: [...authz, publicAuthorizer] };
}

/** Returns a function that reports whether a path is public; undefined if no path is. */
function publicPaths(handlers: readonly PathHandler[]): ((path: string) => boolean) | undefined {
  const paths = handlers.filter((handler) => handler.isPublic === true).map(({ path }) => path);
  if (paths.length === 0) return undefined;
  const exact = new Set<string>(paths.filter((path) => !path.endsWith('/*')));
  const prefixes = paths.filter((path) => path.endsWith('/*')).map((path) => path.slice(0, -1));
  return (path) => exact.has(path) || prefixes.some((prefix) => path.startsWith(prefix));
}
