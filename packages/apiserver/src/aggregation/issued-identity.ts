import type { Clock } from '@oarlock/kernel/clock';
import type { CertificateRequest, ClusterKeys } from '@oarlock/spi/cluster';
import type { ProxyTls } from './reverse-proxy.ts';

/** Certificates are asked for anew long before they end, however short the cluster makes them. */
const renewAfterMs = 12 * 3600 * 1000;

/** A client certificate of this server's, issued when it is first needed, and again from time to time. A failure is not kept. */
export class IssuedIdentity {
  readonly #keys: ClusterKeys;
  readonly #request: CertificateRequest;
  readonly #clock: Clock;
  readonly #verify: boolean;
  #issued: { readonly at: number; readonly tls: Promise<ProxyTls> } | undefined;

  /** `verify`: the other side has a certificate of the cluster's CA. */
  constructor(keys: ClusterKeys, request: CertificateRequest, clock: Clock, { verify = true }: { readonly verify?: boolean } = {}) {
    this.#keys = keys;
    this.#request = request;
    this.#clock = clock;
    this.#verify = verify;
  }

  /** The same object until it is renewed. The other side is to be known by the cluster's CA, unless that is not asked for. */
  tls(): Promise<ProxyTls> {
    const now = this.#clock.monotonic();
    if (this.#issued === undefined || now - this.#issued.at > renewAfterMs) {
      const tls = this.#keys.issue(this.#request).then(
        ({ certificate, key }): ProxyTls => ({
          cert: certificate,
          key,
          ca: this.#keys.caBundle,
          ...(!this.#verify && { rejectUnauthorized: false }),
        }),
      );
      const issued = { at: now, tls };
      this.#issued = issued;
      tls.catch(() => {
        if (this.#issued === issued) this.#issued = undefined;
      });
    }
    return this.#issued.tls;
  }
}
