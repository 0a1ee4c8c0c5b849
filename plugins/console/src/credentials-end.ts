import type { Credentials } from '@oarlock/spi/authn';

/**
 * Returns when verified credentials expire, in milliseconds since the epoch: `exp` of a JSON Web Token, or the end of a client certificate. Infinity if
 * they do not expire.
 */
export function credentialsEnd({ bearerToken, certificate }: Pick<Credentials, 'bearerToken' | 'certificate'>): number {
  if (bearerToken !== undefined) return tokenEnd(bearerToken);
  return certificate === undefined ? Infinity : Date.parse(certificate.validTo);
}

/** Returns the end of a token, whose signature an authenticator has verified. */
function tokenEnd(token: string): number {
  const [, claims, signature] = token.split('.');
  if (claims === undefined || signature === undefined) return Infinity;
  try {
    const { exp } = JSON.parse(Buffer.from(claims, 'base64url').toString('utf8')) as { readonly exp?: unknown };
    return typeof exp === 'number' ? exp * 1000 : Infinity;
  } catch {
    return Infinity; // the token has another format
  }
}
