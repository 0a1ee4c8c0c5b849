import { ownCookiePrefix } from '@oarlock/spi/paths';

/** Returns true for the text `NAME=VALUE` of a cookie of the API server's own paths. */
export const isOwnCookie = (pair: string): boolean => pair.trimStart().startsWith(ownCookiePrefix);

/** Returns a `Cookie` header without the cookies of the API server's own paths; undefined if no cookie remains. */
export function foreignCookies(header: string): string | undefined {
  if (!header.includes(ownCookiePrefix)) return header;
  const rest = header.split(';').filter((pair) => !isOwnCookie(pair));
  return rest.length === 0 ? undefined : rest.join(';').trimStart();
}

/** Returns the values of `Set-Cookie` headers without those that set cookies of the API server's own paths. */
export const foreignSetCookies = (values: readonly string[]): readonly string[] => values.filter((value) => !isOwnCookie(value));
