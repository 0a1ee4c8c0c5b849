import type { IncomingMessage } from 'node:http';

/** The most headers of a request. */
export const maxHeaderPairs = 256;

/**
 * Returns the status with which an HTTP/1 request is rejected for its head: 400 for a request line without a version, which Node reads as HTTP/0.9, and
 * 505 for other versions than 1.0 and 1.1; 431 for more headers than HTTP/2 requests may have; 400 for none or several `Host` headers, of which a proxy
 * in front may have read another one (RFC 9112, sections 3 and 3.2).
 */
export function headFault({ rawHeaders, httpVersion }: Pick<IncomingMessage, 'rawHeaders' | 'httpVersion'>): 400 | 431 | 505 | undefined {
  if (httpVersion !== '1.1' && httpVersion !== '1.0') return httpVersion === '0.9' ? 400 : 505;
  if (rawHeaders.length > 2 * maxHeaderPairs) return 431;
  let hosts = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at];
    if (name?.length === 4 && name.toLowerCase() === 'host') hosts += 1;
  }
  return hosts > 1 || (hosts === 0 && httpVersion !== '1.0') ? 400 : undefined;
}
