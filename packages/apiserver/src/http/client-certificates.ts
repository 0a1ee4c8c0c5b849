import { X509Certificate, type KeyObject } from 'node:crypto';
import type { TLSSocket } from 'node:tls';
import type { Clock } from '@oarlock/primitives/clock';

/** The extended key usage of TLS clients (RFC 5280, section 4.2.1.12). */
const clientAuth = '1.3.6.1.5.5.7.3.2';
const anyUsage = '2.5.29.37.0';

/** What all requests of one connection share. */
export interface ClientConnection {
  readonly remoteAddress: string | undefined;
  /** The verified client certificate, as long as it is valid. */
  certificate(): X509Certificate | undefined;
}

interface CertificateAuthority {
  readonly certificate: X509Certificate;
  readonly key: KeyObject;
}

/**
 * Decides which client certificates count: those whose chain ends at the cluster's CA, for the usage of clients, within their
 * dates. OpenSSL has checked that in the handshake, but a resumed session only remembers the result, and reports a session that
 * never had a certificate as authorized; so what decides is checked here, once per connection, and the dates with every request.
 */
export class ClientCertificateVerifier {
  readonly #authorities: readonly CertificateAuthority[];
  readonly #clock: Clock;

  constructor(caBundle: string, clock: Clock) {
    this.#authorities = certificatesOf(caBundle).map((certificate) => ({ certificate, key: certificate.publicKey }));
    this.#clock = clock;
  }

  connection(socket: TLSSocket): ClientConnection {
    const { remoteAddress } = socket;
    const verified = this.#verify(socket);
    if (verified === undefined) return { remoteAddress, certificate: () => undefined };
    const { certificate, from, to } = verified;
    return {
      remoteAddress,
      certificate: () => {
        const now = this.#clock.now();
        return now >= from && now <= to ? certificate : undefined;
      },
    };
  }

  #verify(socket: TLSSocket): { readonly certificate: X509Certificate; readonly from: number; readonly to: number } | undefined {
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
      from: Math.max(...dates.map(({ validFrom }) => Date.parse(validFrom))),
      to: Math.min(...dates.map(({ validTo }) => Date.parse(validTo))),
    };
  }

  /** The cluster's CA signs what it issues itself: there are no certificates between it and a client's. */
  #authorityOf(certificate: X509Certificate): CertificateAuthority | undefined {
    return this.#authorities.find((authority) => certificate.checkIssued(authority.certificate) && certificate.verify(authority.key));
  }
}

const pem = /-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g;
export function certificatesOf(bundle: string): readonly X509Certificate[] {
  return (bundle.match(pem) ?? []).map((text) => new X509Certificate(text));
}
