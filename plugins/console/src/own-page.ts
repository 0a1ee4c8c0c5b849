import type { Credentials } from '@oarlock/spi/authn';
import { ownCookiePrefix } from '@oarlock/spi/paths';

/**
 * The header that the page sends with each request. Scripts of other origins cannot send it without CORS, which the API server does not grant, and
 * links, forms, images and scripts cannot send it at all: content that the API server proxies from pods never loads with the user's session.
 */
export const consoleHeader = 'x-oarlock-console';

type Headers = Credentials['headers'];

const single = (headers: Headers, name: string): string | undefined => {
  const value = headers[name];
  return typeof value === 'string' ? value : undefined;
};
const hostOf = (headers: Headers): string | undefined => single(headers, 'host') ?? single(headers, ':authority');

/**
 * Returns the name of the cookie of a session. The prefix `__Host-` makes browsers reject the cookie without Secure, or with a Domain or another Path.
 * Browsers send cookies to all ports of a host, so the name contains the port: clusters on one host do not replace each other's sessions.
 */
export function sessionCookie(headers: Headers): string {
  const port = /:(\d{1,5})$/.exec(hostOf(headers) ?? '')?.[1] ?? '443';
  return `${ownCookiePrefix}session-${port}`;
}

/**
 * Returns true if the headers show that a script of the console's own origin sent the request. WebSocket requests cannot have further headers, but
 * browsers always send their `Origin`.
 */
export function isFromOwnPage(headers: Headers): boolean {
  const origin = single(headers, 'origin');
  const site = single(headers, 'sec-fetch-site');
  const host = hostOf(headers);
  if (host === undefined) return false;
  if (site !== undefined && site !== 'same-origin') return false;
  const isOwnOrigin = origin?.toLowerCase() === `https://${host.toLowerCase()}`;
  if (single(headers, 'upgrade')?.toLowerCase() === 'websocket') return isOwnOrigin;
  return headers[consoleHeader] === '1' && (origin === undefined || isOwnOrigin);
}

/** Returns the secret in the session cookie; undefined if there is none, or if there are several. */
export function sessionSecretOf(headers: Headers): string | undefined {
  const cookies = single(headers, 'cookie');
  if (cookies === undefined) return undefined;
  const start = `${sessionCookie(headers)}=`;
  const values = cookies
    .split(';')
    .map((pair) => pair.trim())
    .filter((pair) => pair.startsWith(start))
    .map((pair) => pair.slice(start.length));
  return values.length === 1 && /^[\w-]{43}$/.test(values[0] ?? '') ? values[0] : undefined;
}
