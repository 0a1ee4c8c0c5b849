import { ownCredentials } from '@oarlock/spi/paths';
import { bearerSubprotocolPrefix } from '../../authentication/authentication.ts';

const { cookiePrefix, header: ownHeader, subprotocolPrefix } = ownCredentials;

/** Returns true for the text `NAME=VALUE` of a cookie of the API server's own paths. */
export const isOwnCookie = (pair: string): boolean => pair.trimStart().startsWith(cookiePrefix);

/** Returns the values of `Set-Cookie` headers without those that set cookies of the API server's own paths. */
export const foreignSetCookies = (values: readonly string[]): readonly string[] => values.filter((value) => !isOwnCookie(value));

/**
 * Returns the value of a request header for a backend: without the credentials with which the client authenticated to the API server, and without
 * impersonation. Undefined if nothing remains.
 * @param name in lower case
 */
export function forwardedValue(name: string, value: string): string | undefined {
  if (name === 'authorization' || name === ownHeader || name.startsWith('impersonate-')) return undefined;
  if (name === 'cookie') return value.includes(cookiePrefix) ? remaining(value, ';', (pair) => !isOwnCookie(pair)) : value;
  if (name === 'sec-websocket-protocol') return remaining(value, ',', (protocol) => !isCredential(protocol.trim()));
  return value;
}

const isCredential = (protocol: string): boolean => protocol.startsWith(bearerSubprotocolPrefix) || protocol.startsWith(subprotocolPrefix);

function remaining(value: string, separator: string, isForwarded: (part: string) => boolean): string | undefined {
  const parts = value.split(separator).filter(isForwarded);
  return parts.length === 0 ? undefined : parts.join(separator).trimStart();
}
