import type { ClientRequest } from 'node:http';
import { checkServerIdentity, type PeerCertificate } from 'node:tls';

/**
 * Returns true if a request failed because the server closed the keep-alive connection before it read the request. The
 * request can then be sent again on a new connection. Kubernetes' webhook clients also retry TokenReviews,
 * SubjectAccessReviews and admission reviews.
 */
export const isStaleConnection = ({ reusedSocket }: Pick<ClientRequest, 'reusedSocket'>, { code }: NodeJS.ErrnoException): boolean =>
  reusedSocket && (code === 'ECONNRESET' || code === 'EPIPE');

/** Go's message for a certificate that has only a common name. Kubernetes' clients reject such a server certificate. */
const legacyName = 'x509: certificate relies on legacy Common Name field, use SANs instead';

/** Verifies a server's host name as Node.js does, but against subject alternative names only. */
export function checkSubjectAlternativeNames(host: string, certificate: PeerCertificate): Error | undefined {
  // Node.js falls back to the common name if the certificate has no alternative names
  if (!certificate.subjectaltname) return Object.assign(new Error(legacyName), { code: 'ERR_TLS_CERT_ALTNAME_INVALID' });
  return checkServerIdentity(host, certificate);
}

/**
 * Fails a request whose server switches protocols although it received no such request. Without a listener Node.js destroys the connection and emits
 * neither a response nor an error, and a later abort of the request has no effect.
 */
export function rejectUpgrade(request: ClientRequest): void {
  request.once('upgrade', (_response, socket) => {
    socket.destroy();
    request.emit('error', new Error('the server switched protocols without a request to do so'));
  });
}
