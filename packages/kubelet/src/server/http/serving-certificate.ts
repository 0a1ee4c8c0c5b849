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

/** Interval in milliseconds between reads of the configured files: the process that joined the node renews them, also when another CA signs. */
const fileIntervalMs = 10_000;

/** What a serving certificate needs of the kubelet. */
export interface ServingKubelet extends Pick<Kubelet, 'keys' | 'address'> {
  readonly config: Pick<Kubelet['config'], 'nodeName' | 'tls'>;
  readonly context: Pick<Kubelet['context'], 'clock' | 'log' | 'hostname'>;
}
type TlsServer = Pick<Server, 'setSecureContext'>;

/** The serving certificate of the kubelet: read from configured files, or issued by the cluster's CA. It is renewed before it expires. */
export class ServingCertificate {
  readonly #kubelet: ServingKubelet;
  #renewal: Timer | undefined;
  #stopped = false;

  constructor(kubelet: ServingKubelet) {
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

  /** Makes new connections use each later certificate, until `stop`: that of changed files at once, an issued one at 80 % of the lifetime of the previous. */
  keep(server: TlsServer, used: KeyPair): void {
    if (this.#stopped) return;
    const { clock, log } = this.#kubelet.context;
    const renew = async () => {
      let pair = used;
      try {
        const current = await this.current();
        if (current.certificate !== used.certificate || current.key !== used.key) server.setSecureContext(this.tls(current));
        pair = current;
      } catch (error) {
        log.error({ err: error }, 'renewing the serving certificate of the kubelet failed');
      }
      this.keep(server, pair);
    };
    this.#renewal = atTime(clock, this.#renewalTime(used), () => void renew());
  }

  /** Returns when to look for a later certificate, in milliseconds since the epoch. */
  #renewalTime({ certificate }: KeyPair): number {
    const now = this.#kubelet.context.clock.now();
    if (this.#kubelet.config.tls) return now + fileIntervalMs;
    const { validFrom, validTo } = new X509Certificate(certificate);
    const [from, to] = [Date.parse(validFrom), Date.parse(validTo)];
    return Math.max(from + (to - from) * 0.8, now + renewalRetryMs);
  }

  stop(): void {
    this.#stopped = true;
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
