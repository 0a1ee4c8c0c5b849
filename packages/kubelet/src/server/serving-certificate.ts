import { constants, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import type { Server } from 'node:https';
import type { SecureContextOptions } from 'node:tls';
import type { Timer } from '@oarlock/kernel/clock';
import type { KeyPair } from '@oarlock/spi/cluster';
import type { Kubelet } from '../kubelet.ts';

/** A certificate that could not be renewed is asked for again so soon. */
const renewalRetryMs = 10 * 60_000;

/** What the kubelet's server shows: files that are configured, or a certificate of the cluster's own that is renewed in time. */
export class ServingCertificate {
  readonly #kubelet: Kubelet;
  #renewal: Timer | undefined;

  constructor(kubelet: Kubelet) {
    this.#kubelet = kubelet;
  }

  tls({ certificate, key }: KeyPair): SecureContextOptions {
    return {
      cert: certificate,
      key,
      ca: this.#kubelet.keys.caBundle,
      minVersion: 'TLSv1.2',
      // a resumed session would not show its certificate
      secureOptions: constants.SSL_OP_NO_TICKET,
    };
  }

  /** Shows a new certificate when four fifths of the life of this one are over, to connections that are made from then on. */
  renewLater(server: Server, { certificate }: Pick<KeyPair, 'certificate'>): void {
    const { clock, log } = this.#kubelet.context;
    const { validFrom, validTo } = new X509Certificate(certificate);
    const [from, to] = [Date.parse(validFrom), Date.parse(validTo)];
    const due = from + (to - from) * 0.8 - clock.now();
    const renew = async () => {
      try {
        const pair = await this.current();
        server.setSecureContext(this.tls(pair));
        this.renewLater(server, pair);
      } catch (error) {
        log.error({ err: error }, "the certificate of the kubelet's server could not be renewed");
        this.renewLater(server, { certificate });
      }
    };
    this.#renewal = clock.after(Math.max(due, renewalRetryMs), () => void renew());
  }

  stop(): void {
    this.#renewal?.cancel();
  }

  /** @throws Error when there is none to be had */
  async current(): Promise<KeyPair> {
    const kubelet = this.#kubelet;
    const { tls } = kubelet.config;
    if (tls) {
      const [certificate, key] = await Promise.all([readFile(tls.certificateFile, 'utf8'), readFile(tls.keyFile, 'utf8')]);
      return { certificate, key };
    }
    const { address } = kubelet;
    const names = [kubelet.config.nodeName, kubelet.context.hostname, 'localhost', ...(isIP(address) ? [] : [address])];
    return kubelet.keys.issue({
      commonName: `system:node:${kubelet.config.nodeName}`,
      organizations: ['system:nodes'],
      dnsNames: [...new Set(names)],
      ipAddresses: [...new Set(['127.0.0.1', ...(isIP(address) ? [address] : [])])],
      usages: ['server'],
    });
  }
}
