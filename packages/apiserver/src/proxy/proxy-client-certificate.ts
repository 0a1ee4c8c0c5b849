import type { Clock } from '@oarlock/primitives/clock';
import type { KeyPair } from '@oarlock/spi/cluster';
import type { ProxyTls } from './reverse-proxy.ts';

/** Certificates are requested again long before they expire, however short their lifetime is. */
const renewAfterMs = 12 * 3600 * 1000;

/**
 * Which servers must present a certificate of the cluster CA: all (`true`), none (`false`), or those whose Node states that they have one
 * (`own`). Kubelets of upstream sign their own certificates by default, and kube-apiserver accepts them.
 */
export type ServingCertificateVerification = boolean | 'own';
export const requiresVerification = (verify: ServingCertificateVerification, own: boolean): boolean => (verify === 'own' ? own : verify);

export interface ProxyClientCertificateOptions {
  issue(): Promise<KeyPair>;
  /** PEM that verifies servers; if undefined, the caller adds it. */
  readonly caBundle?: string;
  /** Default: all servers must have a certificate that `caBundle` verifies. */
  readonly verify?: ServingCertificateVerification;
  readonly clock: Clock;
}

/** A client certificate of the API server. It is issued at the first use and again after `renewAfterMs`. Failures are not cached. */
export class ProxyClientCertificate {
  readonly #options: ProxyClientCertificateOptions;
  #issued: { readonly at: number; readonly tls: Promise<{ readonly verified: ProxyTls; readonly unverified: ProxyTls }> } | undefined;

  constructor(options: ProxyClientCertificateOptions) {
    this.#options = options;
  }

  /** Returns the same object until the certificate is renewed. `own`: the server states that it has a certificate of the cluster CA. */
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
