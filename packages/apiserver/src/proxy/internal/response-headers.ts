import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { Exchange } from '../../http/exchange.ts';
import { connectionHeaders } from './forwarded-body.ts';
import { foreignSetCookies } from './client-credentials.ts';
import { rewriteLink, type LinkRewriting } from './location.ts';

/** Rejects a response whose status code cannot be forwarded: HTTP/2 has no codes above 599, and a code below 200 does not end a request. @throws Error */
export function checkStatusCode({ statusCode = 0 }: Pick<IncomingMessage, 'statusCode'>): void {
  if (statusCode < 200 || statusCode > 599) throw new Error(`unsupported status code ${statusCode}`);
}

/** Rejects a transfer coding that this server would not decode. @throws Error */
export function checkResponseCoding({ headers }: Pick<IncomingMessage, 'headers'>): void {
  const coding = headers['transfer-encoding'];
  if (coding !== undefined && coding.trim().toLowerCase() !== 'chunked')
    throw new Error(`unsupported transfer encoding ${JSON.stringify(coding)}`);
}

/** Returns true if the response is an HTML page without a content coding. */
export const isHtml = (headers: IncomingHttpHeaders): boolean =>
  (headers['content-type'] ?? '').split(';', 1)[0]?.trim().toLowerCase() === 'text/html' && headers['content-encoding'] === undefined;

/** Returns the response headers to forward to the client, without headers that apply to the connection. */
export function returnedHeaders(
  headers: IncomingHttpHeaders,
  rewriting: LinkRewriting | undefined,
  exchange: Exchange,
): Readonly<Record<string, string | readonly string[]>> {
  const result: Record<string, string | readonly string[]> = {};
  const isConnectionHeader = connectionHeaders(headers.connection);
  for (const [name, value] of Object.entries(headers))
    if (value !== undefined && name !== 'authorization' && name !== 'audit-id' && !isConnectionHeader(name)) result[name] = value;
  if (headers['set-cookie'] !== undefined) result['set-cookie'] = foreignSetCookies(headers['set-cookie']);
  if (rewriting !== undefined && headers.location !== undefined)
    result['location'] = rewriteLink(
      headers.location,
      rewriting,
      exchange.headers.host ?? (exchange.headers[':authority'] as string | undefined),
    );
  return result;
}
