import { readFile } from 'node:fs/promises';
import type { Clock, Timer } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import type { Client } from '@oarlock/spi/client';
import type { KeyPair } from '@oarlock/spi/cluster';
import { parse, stringify } from 'yaml';
import { ownAddresses } from './addresses.ts';
import { renewAt } from './certificate-life.ts';
import { writeAtomic } from './keys.ts';
import { certify } from './node-requests.ts';

export interface NodeCertificatesOptions {
  readonly nodeName: string;
  readonly kubeconfigFile: string;
  readonly certificateFile: string;
  readonly keyFile: string;
  readonly client: Client;
  /** Makes the client show the new certificate. */
  readonly renewed: (pair: { readonly cert: string; readonly key: string }) => void;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Before the kubelet reads its files again: it does so when four fifths are over. */
const part = 0.7;
const retryMs = 10 * 60_000;
/** How long whoever approves and signs is waited for. */
const answerMs = 15 * 60_000;

/** Renews the certificates of a node that joined, by requests that it makes with those that it has, in the files from which they are read. */
export class NodeCertificates {
  readonly #options: NodeCertificatesOptions;
  #timer: Timer | undefined;
  #renewing: Promise<void> | undefined;
  readonly #stopping = new AbortController();

  constructor(options: NodeCertificatesOptions) {
    this.#options = options;
  }

  async start(): Promise<void> {
    this.#in((await this.#due()) - this.#options.clock.now());
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#timer?.cancel();
    await this.#renewing;
  }

  #in(ms: number): void {
    if (this.#stopping.signal.aborted) return;
    this.#timer = this.#options.clock.after(Math.max(0, ms), () => {
      this.#renewing = this.#renew();
    });
  }

  /** When the first of both is due. */
  async #due(): Promise<number> {
    const { kubeconfigFile, certificateFile } = this.#options;
    const { users } = parse(await readFile(kubeconfigFile, 'utf8')) as Kubeconfig;
    const client = Buffer.from(users[0].user['client-certificate-data'], 'base64').toString('utf8');
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

  async #write(own: KeyPair, serving: KeyPair): Promise<void> {
    const { kubeconfigFile, certificateFile, keyFile } = this.#options;
    const base64 = (text: string) => Buffer.from(text).toString('base64');
    const config = parse(await readFile(kubeconfigFile, 'utf8')) as Kubeconfig;
    const user = { 'client-certificate-data': base64(own.certificate), 'client-key-data': base64(own.key) };
    await writeAtomic(kubeconfigFile, stringify({ ...config, users: [{ ...config.users[0], user }] }));
    await writeAtomic(keyFile, serving.key);
    await writeAtomic(certificateFile, serving.certificate);
  }
}

interface Kubeconfig {
  readonly users: readonly [{ readonly user: { readonly 'client-certificate-data': string; readonly 'client-key-data': string } }];
}
