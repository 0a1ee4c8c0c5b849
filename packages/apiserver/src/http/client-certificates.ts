import { X509Certificate, type KeyObject } from 'node:crypto';
import type { TLSSocket } from 'node:tls';
import type { Clock } from '@oarlock/primitives/clock';

/** The extended key usage of TLS clients (RFC 5280, section 4.2.1.12). */
const clientAuth = '1.3.6.1.5.5.7.3.2';
const anyUsage = '2.5.29.37.0';

/** What all requests of one connection share. */
export interface ClientConnection {
  readonly remoteAddress: string | undefined;
  /** Returns the client certificate if the cluster CA issued it, while it is valid. */
  certificate(): X509Certificate | undefined;
  /** Returns the client certificate if the front-proxy CA issued it, while it is valid. */
  frontProxyCertificate(): X509Certificate | undefined;
}

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

/**
 * Verifies the client certificates of connections, against each CA separately.
 *
 * The handshake accepts certificates of both CAs; a resumed session only remembers that result, and OpenSSL reports a session that never had a
 * certificate as authorized. So the issuer and the usage are verified here once per connection, and the dates for every request.
 */
export class ClientCertificateVerifier {
  readonly #cluster: AuthorityPool;
  readonly #frontProxy: AuthorityPool;
  readonly #clock: Clock;

  constructor({ cluster, frontProxy }: ClientAuthorities, clock: Clock) {
    this.#cluster = new AuthorityPool(cluster);
    this.#frontProxy = new AuthorityPool(frontProxy);
    this.#clock = clock;
  }

  connection(socket: TLSSocket): ClientConnection {
    const presented = socket.authorized ? socket.getPeerX509Certificate() : undefined;
    return {
      remoteAddress: socket.remoteAddress,
      certificate: this.#whileValid(presented && this.#cluster.verify(presented)),
      frontProxyCertificate: this.#whileValid(presented && this.#frontProxy.verify(presented)),
    };
  }

  #whileValid(verified: VerifiedCertificate | undefined): () => X509Certificate | undefined {
    if (verified === undefined) return () => undefined;
    const { certificate, from, to } = verified;
    return () => {
      const now = this.#clock.now();
      return now >= from && now <= to ? certificate : undefined;
    };
  }
}

interface VerifiedCertificate {
  readonly certificate: X509Certificate;
  /** The dates within which both the certificate and its CA are valid, in milliseconds since the epoch. */
  readonly from: number;
  readonly to: number;
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
      from: Math.max(...dates.map(({ validFrom }) => Date.parse(validFrom))),
      to: Math.min(...dates.map(({ validTo }) => Date.parse(validTo))),
    };
  }
}

const pem = /-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g;
export function certificatesOf(bundle: string): readonly X509Certificate[] {
  return (bundle.match(pem) ?? []).map((text) => new X509Certificate(text));
}
