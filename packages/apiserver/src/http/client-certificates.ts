import { X509Certificate, type KeyObject } from 'node:crypto';
import type { TLSSocket } from 'node:tls';

/** The extended key usage of TLS clients (RFC 5280, section 4.2.1.12). */
const clientAuth = '1.3.6.1.5.5.7.3.2';
const anyUsage = '2.5.29.37.0';

/** CA bundles in PEM, by what their certificates prove. */
export interface ClientAuthorities {
  /** The cluster CA: its client certificates authenticate users. */
  readonly cluster: string;
  /** The front-proxy CA: its client certificates authenticate proxies, which name the user in headers. */
  readonly frontProxy: string;
}

/** Returns the CAs that the TLS handshake accepts and names to clients: the union. Each use of a certificate verifies it against its own CA. */
export const handshakeAuthorities = ({ cluster, frontProxy }: ClientAuthorities): string[] =>
  [cluster, frontProxy].filter((each) => each !== '');

export interface VerifiedCertificate {
  readonly certificate: X509Certificate;
  /** The dates within which both the certificate and its CA are valid, in milliseconds since the Unix epoch. */
  readonly notBefore: number;
  readonly notAfter: number;
}

/** The client certificate of a connection, by the CA that issued it. */
export interface VerifiedCertificates {
  readonly cluster: VerifiedCertificate | undefined;
  readonly frontProxy: VerifiedCertificate | undefined;
}

/**
 * Verifies client certificates against each CA separately: issuer and usage.
 *
 * The handshake accepts certificates of both CAs; a resumed session only keeps that result, and OpenSSL reports a session without a certificate as
 * authorized. Verification therefore runs once per connection; callers check the dates with each request.
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

  /** Returns the certificate if a CA of this pool issued it for TLS clients. The CAs issue directly: there are no intermediate certificates. */
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
