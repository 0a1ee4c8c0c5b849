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
  #issued: { readonly at: number; readonly tls: Promise<ProxyTls> } | undefined;

  constructor(keys: ClusterKeys, request: CertificateRequest, clock: Clock) {
    this.#keys = keys;
    this.#request = request;
    this.#clock = clock;
  }

  /** The same object until it is renewed. The other side is to be known by the cluster's CA. */
  tls(): Promise<ProxyTls> {
    const now = this.#clock.monotonic();
    if (this.#issued === undefined || now - this.#issued.at > renewAfterMs) {
      const tls = this.#keys
        .issue(this.#request)
        .then(({ certificate, key }): ProxyTls => ({ cert: certificate, key, ca: this.#keys.caBundle }));
      const issued = { at: now, tls };
      this.#issued = issued;
      tls.catch(() => {
        if (this.#issued === issued) this.#issued = undefined;
      });
    }
    return this.#issued.tls;
  }
}
