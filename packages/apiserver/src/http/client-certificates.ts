import { X509Certificate, type KeyObject } from 'node:crypto';
import type { TLSSocket } from 'node:tls';

/** The extended key usage of TLS clients (RFC 5280, section 4.2.1.12). */
const clientAuth = '1.3.6.1.5.5.7.3.2';
const anyUsage = '2.5.29.37.0';

interface CertificateAuthority {
  readonly certificate: X509Certificate;
  readonly key: KeyObject;
}

/** A client certificate of the cluster's CA. */
export interface VerifiedCertificate {
  readonly certificate: X509Certificate;
  /** Validity of the certificate and its CA, in milliseconds since the Unix epoch. */
  readonly notBefore: number;
  readonly notAfter: number;
}

/**
 * Verifies client certificates: their issuer must be the cluster's CA, and their usage that of clients. OpenSSL verifies the same during
 * the handshake, but a resumed TLS session only keeps the result and reports a session without a certificate as authorized. Verification
 * therefore runs once per connection; callers check the dates with each request.
 */
export class ClientCertificateVerifier {
  readonly #authorities: readonly CertificateAuthority[];

  constructor(caBundle: string) {
    this.#authorities = certificatesOf(caBundle).map((certificate) => ({ certificate, key: certificate.publicKey }));
  }

  /** Returns the certificate of a connection, or undefined if it has none that counts. */
  verify(socket: TLSSocket): VerifiedCertificate | undefined {
    if (!socket.authorized) return undefined;
    const certificate = socket.getPeerX509Certificate();
    const authority = certificate && this.#authorityOf(certificate);
    if (
      certificate === undefined ||
      authority === undefined ||
      certificate.ca ||
      !certificate.keyUsage?.some((usage) => usage === clientAuth || usage === anyUsage)
    )
      return undefined;
    const dates = [certificate, authority.certificate];
    return {
      certificate,
      notBefore: Math.max(...dates.map(({ validFrom }) => Date.parse(validFrom))),
      notAfter: Math.min(...dates.map(({ validTo }) => Date.parse(validTo))),
    };
  }

  /** The cluster's CA signs client certificates directly: there are no intermediate certificates. */
  #authorityOf(certificate: X509Certificate): CertificateAuthority | undefined {
    return this.#authorities.find((authority) => certificate.checkIssued(authority.certificate) && certificate.verify(authority.key));
  }
}

const pem = /-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g;
export function certificatesOf(bundle: string): readonly X509Certificate[] {
  return (bundle.match(pem) ?? []).map((text) => new X509Certificate(text));
}
