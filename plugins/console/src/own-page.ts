import type { Credentials } from '@oarlock/spi/authn';
import { ownCredentials } from '@oarlock/spi/paths';

const { cookiePrefix, subprotocolPrefix } = ownCredentials;

/**
 * The header with the key of the page, which the page sends with each request. Scripts of other origins cannot send it without CORS, which the API server
 * does not grant, and links, forms, images and scripts cannot send it at all: content that the API server proxies from pods never loads with the user's
 * session.
 */
export const consoleHeader = ownCredentials.header;

type Headers = Credentials['headers'];

const single = (headers: Headers, name: string): string | undefined => {
  const value = headers[name];
  return typeof value === 'string' ? value : undefined;
};
const hostOf = (headers: Headers): string | undefined => single(headers, 'host') ?? single(headers, ':authority');
const isWebSocket = (headers: Headers): boolean => single(headers, 'upgrade')?.toLowerCase() === 'websocket';

/** Returns the one value that is a secret of 256 bits in base64url; undefined if there is another number of values. */
const onlySecret = (values: readonly string[]): string | undefined =>
  values.length === 1 && /^[\w-]{43}$/.test(values[0] ?? '') ? values[0] : undefined;

/** Returns the rest of each part of a header that begins with a prefix. */
const partsOf = (header = '', separator: string, prefix: string): readonly string[] =>
  header
    .split(separator)
    .map((part) => part.trim())
    .filter((part) => part.startsWith(prefix))
    .map((part) => part.slice(prefix.length));

/**
 * Returns the name of the cookie of a session. The prefix `__Host-` makes browsers reject the cookie without Secure, or with a Domain or another Path.
 * Browsers send cookies to all ports of a host, so the name contains the port: clusters on one host do not replace each other's sessions.
 */
export function sessionCookie(headers: Headers): string {
  const port = /:(\d{1,5})$/.exec(hostOf(headers) ?? '')?.[1] ?? '443';
  return `${cookiePrefix}session-${port}`;
}

/**
 * Returns the key of the page that sent the request; undefined if there is none. The page keeps the key in the storage of its origin, which servers on
 * other ports of the host cannot read or write, unlike cookies. Browsers send no headers with WebSockets, so that a subprotocol contains it there.
 */
export function pageKeyOf(headers: Headers): string | undefined {
  if (isWebSocket(headers)) return onlySecret(partsOf(single(headers, 'sec-websocket-protocol'), ',', subprotocolPrefix));
  return onlySecret([single(headers, consoleHeader) ?? '']);
}

/** Returns true if the headers show that a script of the console's own origin sent the request. */
export function isFromOwnPage(headers: Headers): boolean {
  const origin = single(headers, 'origin');
  const site = single(headers, 'sec-fetch-site');
  const host = hostOf(headers);
  if (host === undefined || pageKeyOf(headers) === undefined) return false;
  if (site !== undefined && site !== 'same-origin') return false;
  const isOwnOrigin = origin?.toLowerCase() === `https://${host.toLowerCase()}`;
  return isOwnOrigin || (origin === undefined && !isWebSocket(headers)); // browsers always send the origin of a WebSocket
}

/** Returns the URL of the page, as its browser addresses the server. */
export const pageUrl = (headers: Headers): string => `https://${hostOf(headers)?.toLowerCase()}/console/`;

/** Returns the secret of a session: the value of the cookie with the key of the page. */
export const sessionSecret = (cookie: string, headers: Headers): string => `${cookie}.${pageKeyOf(headers)}`;

/** Returns the secret of the session that sent a request; undefined without a cookie or key, or with several. */
export function sessionSecretOf(headers: Headers): string | undefined {
  const cookie = onlySecret(partsOf(single(headers, 'cookie'), ';', `${sessionCookie(headers)}=`));
  return cookie === undefined || pageKeyOf(headers) === undefined ? undefined : sessionSecret(cookie, headers);
}
