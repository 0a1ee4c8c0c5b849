import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { Clock, Timer } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import type { Client } from '@oarlock/spi/client';
import type { KeyPair } from '@oarlock/spi/cluster';
import { parse, stringify } from 'yaml';
import { ownAddresses } from './addresses.ts';
import { renewAt } from './certificate-life.ts';
import { writeAtomic } from './files.ts';
import { certify } from './node-requests.ts';

export interface NodeCertificatesOptions {
  readonly nodeName: string;
  readonly kubeconfigFile: string;
  readonly certificateFile: string;
  readonly keyFile: string;
  readonly client: Client;
  /** Makes the client show the new certificate, and trust other CAs. */
  readonly renewed: (shown: { readonly cert?: string; readonly key?: string; readonly ca?: string }) => void;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Before the kubelet reads its files again: it does so when four fifths are over. */
const part = 0.7;
const retryMs = 10 * 60_000;
/** How often it is looked whether the cluster has other CAs. */
const trustMs = 3_600_000;
/** How long whoever approves and signs is waited for. */
const answerMs = 15 * 60_000;

/**
 * Renews the certificates of a node that joined, by requests that it makes with those that it has, in the files from which they are read:
 * before they end, and when another CA signs. Which CAs are trusted comes from the cluster, over connections that those of before vouch for.
 */
export class NodeCertificates {
  readonly #options: NodeCertificatesOptions;
  #timer: Timer | undefined;
  #trusting: Timer | undefined;
  #learning: Promise<void> | undefined;
  #renewing: Promise<void> | undefined;
  #writing: Promise<void> = Promise.resolve();
  readonly #stopping = new AbortController();

  constructor(options: NodeCertificatesOptions) {
    this.#options = options;
  }

  async start(): Promise<void> {
    this.#in((await this.#due()) - this.#options.clock.now());
    this.#learning = this.#trust();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#timer?.cancel();
    this.#trusting?.cancel();
    await this.#learning;
    await this.#renewing;
  }

  #in(ms: number): void {
    if (this.#stopping.signal.aborted) return;
    this.#timer = this.#options.clock.after(Math.max(0, ms), () => {
      this.#renewing = this.#renew().finally(() => {
        this.#renewing = undefined;
      });
    });
  }

  /** Takes up which CAs the cluster has. */
  async #trust(): Promise<void> {
    const { client, clock, log, kubeconfigFile, renewed } = this.#options;
    const signal = AbortSignal.any([this.#stopping.signal, AbortSignal.timeout(answerMs)]);
    try {
      const ca = await authoritiesOf(client, signal);
      if (trusts(parse(await readFile(kubeconfigFile, 'utf8')) as Kubeconfig) !== ca) {
        await this.#rewrite((config) => trusting(config, ca));
        renewed({ ca });
        log.info({ authorities: certificatesIn(ca).length }, 'the cluster has other CAs');
        // a renewal that is under way looks when the next one is due
        if (this.#renewing === undefined) {
          this.#timer?.cancel();
          this.#in((await this.#due()) - clock.now());
        }
      }
    } catch (error) {
      if (this.#stopping.signal.aborted) return;
      log.warn({ err: error }, 'the CAs of the cluster could not be read');
    }
    this.#trusting = clock.after(trustMs, () => {
      this.#learning = this.#trust();
    });
  }

  /** When the first of both is due: at once where another CA signs now. */
  async #due(): Promise<number> {
    const { kubeconfigFile, certificateFile } = this.#options;
    const { users, clusters } = parse(await readFile(kubeconfigFile, 'utf8')) as Kubeconfig;
    const client = decoded(users[0].user['client-certificate-data']);
    const [signing] = certificatesIn(decoded(clusters[0].cluster['certificate-authority-data']));
    if (signing !== undefined && !new X509Certificate(client).verify(new X509Certificate(signing).publicKey)) return 0;
    return Math.min(renewAt(client, part), renewAt(await readFile(certificateFile, 'utf8'), part));
  }

  async #renew(): Promise<void> {
    const { nodeName, client, clock, log, renewed } = this.#options;
    const waiting = new AbortController();
    const deadline = clock.after(answerMs, () => waiting.abort(new Error(`no certificate within ${answerMs} ms`)));
    const signal = AbortSignal.any([waiting.signal, this.#stopping.signal]);
    try {
      const [own, serving] = await Promise.all([
        certify({ client, purpose: 'client', subject: { nodeName }, signal }),
        certify({ client, purpose: 'serving', subject: { nodeName, names: [nodeName, ...ownAddresses()] }, signal }),
      ]);
      await this.#write(own, serving);
      renewed({ cert: own.certificate, key: own.key });
      log.info({ node: nodeName }, 'the certificates of the node have been renewed');
      this.#in((await this.#due()) - clock.now());
    } catch (error) {
      if (this.#stopping.signal.aborted) return;
      log.error({ err: error, retryMs }, 'the certificates of the node could not be renewed');
      this.#in(retryMs);
    } finally {
      deadline.cancel();
    }
  }

  /** One change of the kubeconfig after the other. */
  #rewrite(change: (config: Kubeconfig) => Kubeconfig): Promise<void> {
    const { kubeconfigFile } = this.#options;
    const written = this.#writing.then(async () => {
      await writeAtomic(kubeconfigFile, stringify(change(parse(await readFile(kubeconfigFile, 'utf8')) as Kubeconfig)));
    });
    this.#writing = written.catch(() => undefined); // told to whoever changes
    return written;
  }

  async #write(own: KeyPair, serving: KeyPair): Promise<void> {
    const { certificateFile, keyFile } = this.#options;
    const user = { 'client-certificate-data': encoded(own.certificate), 'client-key-data': encoded(own.key) };
    await this.#rewrite((config) => ({ ...config, users: [{ ...config.users[0], user }] }));
    await writeAtomic(keyFile, serving.key);
    await writeAtomic(certificateFile, serving.certificate);
  }
}

/** @throws Error when the cluster names none */
async function authoritiesOf(client: Pick<Client, 'raw'>, signal: AbortSignal): Promise<string> {
  const { ca } = (await client.raw('GET', '/oarlock/v1/ca', undefined, { signal })) as { readonly ca?: unknown };
  if (typeof ca !== 'string' || certificatesIn(ca).length === 0) throw new Error('the cluster names no CA');
  return ca;
}

/**
 * Writes into the kubeconfig of a node that does not run which CAs the cluster has: what starts trusts them from its beginning, for those who ask
 * the kubelet, too.
 */
export async function takeUpAuthorities(kubeconfigFile: string, client: Pick<Client, 'raw'>, signal: AbortSignal): Promise<void> {
  const ca = await authoritiesOf(client, signal);
  const config = parse(await readFile(kubeconfigFile, 'utf8')) as Kubeconfig;
  if (trusts(config) !== ca) await writeAtomic(kubeconfigFile, stringify(trusting(config, ca)));
}

const trusts = ({ clusters: [{ cluster }] }: Kubeconfig): string => decoded(cluster['certificate-authority-data']);
function trusting(config: Kubeconfig, ca: string): Kubeconfig {
  const [first, ...others] = config.clusters;
  return { ...config, clusters: [{ ...first, cluster: { ...first.cluster, 'certificate-authority-data': encoded(ca) } }, ...others] };
}

const encoded = (text: string) => Buffer.from(text).toString('base64');
const decoded = (data: string) => Buffer.from(data, 'base64').toString('utf8');
const certificatesIn = (pem: string): readonly string[] => pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];

interface ClusterEntry {
  readonly cluster: { readonly 'certificate-authority-data': string };
}
interface Kubeconfig {
  readonly clusters: readonly [ClusterEntry, ...ClusterEntry[]];
  readonly users: readonly [{ readonly user: { readonly 'client-certificate-data': string; readonly 'client-key-data': string } }];
}
