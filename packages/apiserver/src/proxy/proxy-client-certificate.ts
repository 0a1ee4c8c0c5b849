import type { Clock } from '@oarlock/primitives/clock';
import type { CertificateRequest, ClusterKeys } from '@oarlock/spi/cluster';
import type { ProxyTls } from './reverse-proxy.ts';

/** Certificates are asked for anew long before they end, however short the cluster makes them. */
const renewAfterMs = 12 * 3600 * 1000;

/**
 * Whose certificate has to be of the cluster's CA: everybody's, nobody's, or that of those who say that they have one (`own`). Other kubelets sign
 * their own unless they are told otherwise, and Kubernetes' API server takes them so.
 */
export type ServingCertificateVerification = boolean | 'own';
export const requiresVerification = (verify: ServingCertificateVerification, own: boolean): boolean => (verify === 'own' ? own : verify);

/** A client certificate of this server's, issued when it is first needed, and again from time to time. A failure is not kept. */
export class ProxyClientCertificate {
  readonly #keys: ClusterKeys;
  readonly #request: CertificateRequest;
  readonly #clock: Clock;
  readonly #verify: ServingCertificateVerification;
  #issued: { readonly at: number; readonly tls: Promise<{ readonly verified: ProxyTls; readonly unverified: ProxyTls }> } | undefined;

  /** `verify`: who has to have a certificate of the cluster's CA. */
  constructor(
    keys: ClusterKeys,
    request: CertificateRequest,
    clock: Clock,
    { verify = true }: { readonly verify?: ServingCertificateVerification } = {},
  ) {
    this.#keys = keys;
    this.#request = request;
    this.#clock = clock;
    this.#verify = verify;
  }

  /** The same object until it is renewed. `own`: the other side says that it has a certificate of the cluster's CA. */
  async tls(own = true): Promise<ProxyTls> {
    const now = this.#clock.monotonic();
    if (this.#issued === undefined || now - this.#issued.at > renewAfterMs) {
      const tls = this.#keys.issue(this.#request).then(({ certificate, key }) => {
        const verified: ProxyTls = { cert: certificate, key, ca: this.#keys.caBundle };
        return { verified, unverified: { ...verified, rejectUnauthorized: false } };
      });
      const issued = { at: now, tls };
      this.#issued = issued;
      tls.catch(() => {
        if (this.#issued === issued) this.#issued = undefined;
      });
    }
    const { verified, unverified } = await this.#issued.tls;
    return requiresVerification(this.#verify, own) ? verified : unverified;
  }
}
