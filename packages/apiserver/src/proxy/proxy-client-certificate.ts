import type { Clock } from '@oarlock/primitives/clock';
import type { KeyPair } from '@oarlock/spi/cluster';
import type { ProxyTls } from './reverse-proxy.ts';

/** The time after which a new certificate is issued, in milliseconds. Much shorter than the lifetime of certificates. */
const renewAfterMs = 12 * 3600 * 1000;

/**
 * The servers that must present a certificate of the cluster CA: all (`true`), none (`false`), or servers whose Node object states that they have
 * one (`own`). Kubelets of upstream use self-signed certificates by default, which kube-apiserver accepts.
 */
export type ServingCertificateVerification = boolean | 'own';
export const requiresVerification = (verify: ServingCertificateVerification, own: boolean): boolean => (verify === 'own' ? own : verify);

export interface ProxyClientCertificateOptions {
  issue(): Promise<KeyPair>;
  /** The CA bundle in PEM that verifies servers; if undefined, the caller adds it. */
  readonly caBundle?: string;
  /** The servers whose certificate `caBundle` must verify; by default all. */
  readonly verify?: ServingCertificateVerification;
  readonly clock: Clock;
}

/** A client certificate of the API server, which is issued on first use and again after `renewAfterMs`. A failure is not cached. */
export class ProxyClientCertificate {
  readonly #options: ProxyClientCertificateOptions;
  #issued: { readonly at: number; readonly tls: Promise<{ readonly verified: ProxyTls; readonly unverified: ProxyTls }> } | undefined;

  constructor(options: ProxyClientCertificateOptions) {
    this.#options = options;
  }

  /**
   * Returns the TLS options; the same object until the certificate is renewed. `own` is true if the server states that it has a certificate of the
   * cluster CA.
   */
  async tls(own = true): Promise<ProxyTls> {
    const { clock, issue, caBundle, verify = true } = this.#options;
    const now = clock.monotonic();
    if (this.#issued === undefined || now - this.#issued.at > renewAfterMs) {
      const tls = issue().then(({ certificate, key }) => {
        const verified: ProxyTls = { cert: certificate, key, ...(caBundle !== undefined && { ca: caBundle }) };
        return { verified, unverified: { ...verified, rejectUnauthorized: false } };
      });
      const issued = { at: now, tls };
      this.#issued = issued;
      tls.catch(() => {
        if (this.#issued === issued) this.#issued = undefined;
      });
    }
    const { verified, unverified } = await this.#issued.tls;
    return requiresVerification(verify, own) ? verified : unverified;
  }
}
