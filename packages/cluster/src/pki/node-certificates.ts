import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { atTime } from '@oarlock/primitives/at-time';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { Client } from '@oarlock/spi/client';
import type { KeyPair } from '@oarlock/spi/cluster';
import { parse, stringify } from 'yaml';
import { addressTowards } from '../process/addresses.ts';
import { certificatesOf, areCertificates } from './ca-hash.ts';
import { renewAt } from './certificate-life.ts';
import { writeAtomic } from '@oarlock/primitives/os/atomic-file';
import { requestCertificate } from './request-certificate.ts';

export interface NodeCertificatesOptions {
  readonly nodeName: string;
  readonly kubeconfigFile: string;
  readonly certificateFile: string;
  readonly keyFile: string;
  readonly client: Client;
  /** Returns the address on which the node serves. By default, the local address of connections to the API server of the kubeconfig. */
  readonly address?: (signal: AbortSignal) => Promise<string>;
  /** Called when a certificate was renewed or the trusted CAs changed, so that the client uses the new credentials. */
  readonly renewed: (credentials: { readonly cert?: string; readonly key?: string; readonly ca?: string }) => void;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Messages and warnings of the parser do not quote the file, which contains a key. */
const quiet = { prettyErrors: false, logLevel: 'error' } as const;
/** Fraction of the lifetime after which certificates are renewed. */
const renewalPart = 0.7;
const retryMs = 10 * 60_000;
/** Interval in milliseconds between checks whether the cluster's CAs have changed. */
const trustIntervalMs = 3_600_000;
/** Maximum time in milliseconds to wait for the approval and signing of a request. */
const signingTimeoutMs = 15 * 60_000;

/**
 * Renews the certificate files of a node that joined, before the certificates expire and when another CA signs. Authenticates with the current
 * certificates. Reads the trusted CAs from the cluster over connections that the previously trusted CAs verify.
 */
export class NodeCertificates {
  readonly #options: NodeCertificatesOptions;
  /** Number of failed renewals since the start. */
  renewErrors = 0;
  #timer: Timer | undefined;
  #trustTimer: Timer | undefined;
  #trustUpdate: Promise<void> | undefined;
  #renewal: Promise<void> | undefined;
  #writing: Promise<void> = Promise.resolve();
  readonly #stopping = new AbortController();

  constructor(options: NodeCertificatesOptions) {
    this.#options = options;
  }

  async start(): Promise<void> {
    this.#scheduleRenewal(await this.#renewalTime());
    this.#trustUpdate = this.#updateTrust();
  }

  /** Returns the client certificate in PEM. */
  async clientCertificate(): Promise<string> {
    const { users } = parse(await readFile(this.#options.kubeconfigFile, 'utf8'), quiet) as Kubeconfig;
    return decoded(users[0].user['client-certificate-data']);
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#timer?.cancel();
    this.#trustTimer?.cancel();
    await this.#trustUpdate;
    await this.#renewal;
  }

  /** Renews at a time in milliseconds since the epoch. */
  #scheduleRenewal(time: number): void {
    if (this.#stopping.signal.aborted) return;
    this.#timer = atTime(this.#options.clock, time, () => {
      this.#renewal = this.#renew().finally(() => {
        this.#renewal = undefined;
      });
    });
  }

  /** Reads the CAs of the cluster and adds them to the trusted CAs. */
  async #updateTrust(): Promise<void> {
    const { client, clock, log, kubeconfigFile, renewed } = this.#options;
    const signal = AbortSignal.any([this.#stopping.signal, AbortSignal.timeout(signingTimeoutMs)]);
    try {
      const ca = await authoritiesOf(client, signal);
      if (trusts(parse(await readFile(kubeconfigFile, 'utf8'), quiet) as Kubeconfig) !== ca) {
        await this.#rewrite((config) => trusting(config, ca));
        renewed({ ca });
        log.info({ authorities: certificatesOf(ca).length }, 'the CAs of the cluster have changed');
        // a renewal in progress schedules the next one itself
        if (this.#renewal === undefined) {
          this.#timer?.cancel();
          this.#scheduleRenewal(await this.#renewalTime());
        }
      }
    } catch (error) {
      if (this.#stopping.signal.aborted) return;
      log.warn({ err: error }, 'reading the CAs of the cluster failed');
    }
    this.#trustTimer = clock.after(trustIntervalMs, () => {
      this.#trustUpdate = this.#updateTrust();
    });
  }

  /** Returns when to renew, in milliseconds since the epoch: when either certificate is due, or now if another CA signs. */
  async #renewalTime(): Promise<number> {
    const { kubeconfigFile, certificateFile } = this.#options;
    const { clusters } = parse(await readFile(kubeconfigFile, 'utf8'), quiet) as Kubeconfig;
    const client = await this.clientCertificate();
    const [signing] = certificatesOf(decoded(clusters[0].cluster['certificate-authority-data']));
    if (signing !== undefined && !new X509Certificate(client).verify(new X509Certificate(signing).publicKey)) return 0;
    return Math.min(renewAt(client, renewalPart), renewAt(await readFile(certificateFile, 'utf8'), renewalPart));
  }

  async #renew(): Promise<void> {
    const { nodeName, client, clock, log, renewed } = this.#options;
    const waiting = new AbortController();
    const deadline = clock.after(signingTimeoutMs, () => waiting.abort(new Error(`no certificate within ${signingTimeoutMs} ms`)));
    const signal = AbortSignal.any([waiting.signal, this.#stopping.signal]);
    try {
      const address = await this.#address(signal);
      const [own, serving] = await Promise.all([
        requestCertificate({ client, purpose: 'client', subject: { nodeName }, signal }),
        requestCertificate({ client, purpose: 'serving', subject: { nodeName, names: [nodeName, address] }, signal }),
      ]);
      await this.#write(own, serving);
      renewed({ cert: own.certificate, key: own.key });
      log.info({ node: nodeName }, 'renewed the certificates of the node');
      this.#scheduleRenewal(await this.#renewalTime());
    } catch (error) {
      if (this.#stopping.signal.aborted) return;
      this.renewErrors += 1;
      log.error({ err: error, retryMs }, 'renewing the certificates of the node failed');
      this.#scheduleRenewal(clock.now() + retryMs);
    } finally {
      deadline.cancel();
    }
  }

  async #address(signal: AbortSignal): Promise<string> {
    const { kubeconfigFile, address } = this.#options;
    if (address !== undefined) return address(signal);
    const { clusters } = parse(await readFile(kubeconfigFile, 'utf8'), quiet) as Kubeconfig;
    return addressTowards(clusters[0].cluster.server, signal);
  }

  /** Changes the kubeconfig file. Concurrent changes run one after another. */
  #rewrite(change: (config: Kubeconfig) => Kubeconfig): Promise<void> {
    const { kubeconfigFile } = this.#options;
    const rewrite = this.#writing.then(async () => {
      await writeAtomic(kubeconfigFile, stringify(change(parse(await readFile(kubeconfigFile, 'utf8'), quiet) as Kubeconfig)), {
        sync: true,
      });
    });
    this.#writing = rewrite.catch(() => undefined); // the caller already receives the rejection
    return rewrite;
  }

  async #write(own: KeyPair, serving: KeyPair): Promise<void> {
    const { certificateFile, keyFile } = this.#options;
    const user = { 'client-certificate-data': encoded(own.certificate), 'client-key-data': encoded(own.key) };
    await this.#rewrite((config) => ({ ...config, users: [{ ...config.users[0], user }] }));
    await writeAtomic(keyFile, serving.key, { sync: true });
    await writeAtomic(certificateFile, serving.certificate, { sync: true });
  }
}

/** Returns the CAs of the cluster in PEM. @throws Error if the cluster publishes no CA */
async function authoritiesOf(client: Pick<Client, 'raw'>, signal: AbortSignal): Promise<string> {
  const { ca } = (await client.raw('GET', '/oarlock/v1/ca', undefined, { signal })) as { readonly ca?: unknown };
  if (typeof ca !== 'string' || !areCertificates(ca)) throw new Error('the cluster has no CA');
  return ca;
}

/**
 * Writes the cluster's CAs to the kubeconfig of a node that is not running, so that the node and the clients of its kubelet trust the CAs from the
 * start.
 */
export async function takeUpAuthorities(kubeconfigFile: string, client: Pick<Client, 'raw'>, signal: AbortSignal): Promise<void> {
  const ca = await authoritiesOf(client, signal);
  const config = parse(await readFile(kubeconfigFile, 'utf8'), quiet) as Kubeconfig;
  if (trusts(config) !== ca) await writeAtomic(kubeconfigFile, stringify(trusting(config, ca)), { sync: true });
}

const trusts = ({ clusters: [{ cluster }] }: Kubeconfig): string => decoded(cluster['certificate-authority-data']);
function trusting(config: Kubeconfig, ca: string): Kubeconfig {
  const [first, ...others] = config.clusters;
  return { ...config, clusters: [{ ...first, cluster: { ...first.cluster, 'certificate-authority-data': encoded(ca) } }, ...others] };
}

const encoded = (text: string) => Buffer.from(text).toString('base64');
const decoded = (data: string) => Buffer.from(data, 'base64').toString('utf8');

interface ClusterEntry {
  readonly cluster: { readonly server: string; readonly 'certificate-authority-data': string };
}
interface Kubeconfig {
  readonly clusters: readonly [ClusterEntry, ...ClusterEntry[]];
  readonly users: readonly [{ readonly user: { readonly 'client-certificate-data': string; readonly 'client-key-data': string } }];
}
