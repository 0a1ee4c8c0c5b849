import type { ClientRequest } from 'node:http';
import { checkServerIdentity, type PeerCertificate } from 'node:tls';

/**
 * Whether a request failed because the other side had given the kept connection up before it came: it was not read, and is sent again over
 * a connection of its own. Kubernetes' clients send TokenReviews, SubjectAccessReviews and admission reviews again, too.
 */
export const isGivenUp = ({ reusedSocket }: Pick<ClientRequest, 'reusedSocket'>, { code }: NodeJS.ErrnoException): boolean =>
  reusedSocket && (code === 'ECONNRESET' || code === 'EPIPE');

/** Go's words for a certificate with nothing but a common name, which clients of Kubernetes do not take for a server's name. */
const legacyName = 'x509: certificate relies on legacy Common Name field, use SANs instead';

/** As node checks the names of a server's certificate, but those alone that it has as subject alternative names. */
export function checkAlternativeNames(host: string, certificate: PeerCertificate): Error | undefined {
  // node takes the common name where there are no others
  if (!certificate.subjectaltname) return Object.assign(new Error(legacyName), { code: 'ERR_TLS_CERT_ALTNAME_INVALID' });
  return checkServerIdentity(host, certificate);
}
