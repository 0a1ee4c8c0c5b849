import { constants, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import type { Server } from 'node:https';
import type { SecureContextOptions } from 'node:tls';
import { atTime } from '@oarlock/primitives/at-time';
import type { Timer } from '@oarlock/primitives/clock';
import { serverTls } from '@oarlock/primitives/net/tls-policy';
import type { KeyPair } from '@oarlock/spi/cluster';
import type { Kubelet } from '../../kubelet/kubelet.ts';

/** The minimum delay of a renewal, and the delay of a retry. Milliseconds. */
const renewalRetryMs = 10 * 60_000;

/** The serving certificate of the kubelet: read from configured files, or issued by the cluster's CA. It is renewed before it expires. */
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
      ...serverTls,
      // a resumed session has no client certificate
      secureOptions: constants.SSL_OP_NO_TICKET,
    };
  }

  /** Schedules the renewal of the server's certificate at 80 % of its lifetime. New connections then use the new certificate. */
  renewLater(server: Server, { certificate }: Pick<KeyPair, 'certificate'>): void {
    const { clock, log } = this.#kubelet.context;
    const { validFrom, validTo } = new X509Certificate(certificate);
    const [from, to] = [Date.parse(validFrom), Date.parse(validTo)];
    const due = from + (to - from) * 0.8;
    const renew = async () => {
      try {
        const pair = await this.current();
        server.setSecureContext(this.tls(pair));
        this.renewLater(server, pair);
      } catch (error) {
        log.error({ err: error }, 'renewing the serving certificate of the kubelet failed');
        this.renewLater(server, { certificate });
      }
    };
    this.#renewal = atTime(clock, Math.max(due, clock.now() + renewalRetryMs), () => void renew());
  }

  stop(): void {
    this.#renewal?.cancel();
  }

  /** Returns the certificate and key. @throws Error if the files cannot be read, or if the CA issues no certificate */
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
