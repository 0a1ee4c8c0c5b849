import { constants, X509Certificate } from 'node:crypto';
import { watch } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import { dirname } from 'node:path';
import type { Server } from 'node:https';
import type { SecureContextOptions } from 'node:tls';
import { atTime } from '@oarlock/primitives/at-time';
import type { Timer } from '@oarlock/primitives/clock';
import { CoalescingRunner } from '@oarlock/primitives/concurrency/coalescing-runner';
import { serverTls } from '@oarlock/primitives/net/tls-policy';
import type { KeyPair } from '@oarlock/spi/cluster';
import type { Kubelet } from '../../kubelet/kubelet.ts';

/** The minimum delay of a renewal, and the delay of a retry. Milliseconds. */
const renewalRetryMs = 10 * 60_000;

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
  readonly #stop = new AbortController();

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
    if (this.#stop.signal.aborted) return;
    let pair = used;
    const renew = async () => {
      const current = await this.current();
      if (current.certificate !== pair.certificate || current.key !== pair.key) server.setSecureContext(this.tls(current));
      pair = current;
    };
    const { tls } = this.#kubelet.config;
    if (tls) this.#followFiles(new Set([dirname(tls.certificateFile), dirname(tls.keyFile)]), renew);
    else
      this.#renewBeforeEnd(async () => {
        await renew();
        return pair;
      }, used.certificate);
  }

  /** Renews after each change in the directories: the process that joined the node renews the files, also when another CA signs. */
  #followFiles(directories: ReadonlySet<string>, renew: () => Promise<void>): void {
    const { clock, log } = this.#kubelet.context;
    const { signal } = this.#stop;
    // the files are written one after the other: a certificate without its key is rejected, and read again
    const failureMessage = 'reading the serving certificate of the kubelet failed';
    const runner = new CoalescingRunner({ clock, log, failureMessage, run: renew });
    for (const directory of directories)
      watch(directory, { persistent: false, signal }, () => void runner.trigger()).on('error', (error) =>
        log.error({ err: error, directory }, 'changes of the serving certificate of the kubelet are not noticed any more'),
      );
    signal.addEventListener('abort', () => void runner.stop(), { once: true });
    // the files may have changed since they were read
    void runner.trigger();
  }

  #renewBeforeEnd(renew: () => Promise<KeyPair>, certificate: string): void {
    const { clock, log } = this.#kubelet.context;
    const { validFrom, validTo } = new X509Certificate(certificate);
    const [from, to] = [Date.parse(validFrom), Date.parse(validTo)];
    const at = Math.max(from + (to - from) * 0.8, clock.now() + renewalRetryMs);
    const renewNow = async () => {
      const next = await renew().catch((error: unknown) => {
        log.error({ err: error }, 'renewing the serving certificate of the kubelet failed');
        return undefined;
      });
      if (!this.#stop.signal.aborted) this.#renewBeforeEnd(renew, next?.certificate ?? certificate);
    };
    this.#renewal = atTime(clock, at, () => void renewNow());
  }

  stop(): void {
    this.#stop.abort();
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
