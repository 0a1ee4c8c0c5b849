import { X509Certificate, type KeyObject } from 'node:crypto';
import type { TLSSocket } from 'node:tls';

/** The extended key usage of TLS client certificates (RFC 5280, section 4.2.1.12). */
const clientAuth = '1.3.6.1.5.5.7.3.2';
const anyUsage = '2.5.29.37.0';

/** The CA bundles, in PEM, of the two kinds of client certificates. */
export interface ClientAuthorities {
  /** The cluster CA. Its client certificates authenticate users. */
  readonly cluster: string;
  /** The front-proxy CA. Its client certificates authenticate proxies, which name the user in request headers. */
  readonly frontProxy: string;
}

/**
 * Returns the CAs that the TLS handshake accepts and sends to clients: both bundles. Each use of a certificate verifies the certificate against the
 * CA of that use.
 */
export const handshakeAuthorities = ({ cluster, frontProxy }: ClientAuthorities): string[] =>
  [cluster, frontProxy].filter((each) => each !== '');

export interface VerifiedCertificate {
  readonly certificate: X509Certificate;
  /** The period in which both the certificate and its CA are valid, in milliseconds since the Unix epoch. */
  readonly notBefore: number;
  readonly notAfter: number;
}

/** The client certificate of a connection, stored under the CA that issued it. */
export interface VerifiedCertificates {
  readonly cluster: VerifiedCertificate | undefined;
  readonly frontProxy: VerifiedCertificate | undefined;
}

/**
 * Verifies the issuer and the usage of client certificates against each CA separately.
 *
 * The handshake accepts certificates of both CAs. A resumed TLS session only keeps that result, and OpenSSL reports a session without a certificate
 * as authorized, so the certificate is verified once per connection. Callers check the validity period for each request.
 */
export class ClientCertificateVerifier {
  readonly #cluster: AuthorityPool;
  readonly #frontProxy: AuthorityPool;

  constructor({ cluster, frontProxy }: ClientAuthorities) {
    this.#cluster = new AuthorityPool(cluster);
    this.#frontProxy = new AuthorityPool(frontProxy);
  }

  verify(socket: TLSSocket): VerifiedCertificates {
    const presented = socket.authorized ? socket.getPeerX509Certificate() : undefined;
    return { cluster: presented && this.#cluster.verify(presented), frontProxy: presented && this.#frontProxy.verify(presented) };
  }
}

/** The certificates of one CA bundle. */
class AuthorityPool {
  readonly #authorities: readonly { readonly certificate: X509Certificate; readonly key: KeyObject }[];

  constructor(bundle: string) {
    this.#authorities = certificatesOf(bundle).map((certificate) => ({ certificate, key: certificate.publicKey }));
  }

  /**
   * Returns the verified certificate if a CA of this bundle issued it for TLS clients; otherwise undefined. Intermediate certificates are not
   * supported.
   */
  verify(certificate: X509Certificate): VerifiedCertificate | undefined {
    if (certificate.ca || !certificate.keyUsage?.some((usage) => usage === clientAuth || usage === anyUsage)) return undefined;
    const issuer = this.#authorities.find(
      (authority) => certificate.checkIssued(authority.certificate) && certificate.verify(authority.key),
    );
    if (issuer === undefined) return undefined;
    const dates = [certificate, issuer.certificate];
    return {
      certificate,
      notBefore: Math.max(...dates.map(({ validFrom }) => Date.parse(validFrom))),
      notAfter: Math.min(...dates.map(({ validTo }) => Date.parse(validTo))),
    };
  }
}

const pem = /-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g;
export function certificatesOf(bundle: string): readonly X509Certificate[] {
  return (bundle.match(pem) ?? []).map((text) => new X509Certificate(text));
}
