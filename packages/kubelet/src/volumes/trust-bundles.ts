import { selectorFromObject } from '@oarlock/api/label-selector';
import { clusterTrustBundlesV1beta1 } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { ClusterTrustBundle } from '@oarlock/api/types/certificates-v1beta1';
import type { ClusterTrustBundleProjection } from '@oarlock/api/types/core-v1';
import type { Cause } from '@oarlock/kernel/tracing';
import type { Client, Informers } from '@oarlock/spi/client';
import { VolumeError } from '@oarlock/spi/volume';

const certificates = /-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----/g;
type Listener = (cause: Cause | undefined) => void;

/**
 * Trust anchors that pods ask for by name, or by signer and labels (KEP-3257). The API that has them is optional: it is looked for when
 * the first pod asks, and followed from then on.
 */
export class TrustBundles {
  readonly #client: Client;
  readonly #informers: Informers;
  readonly #signal: AbortSignal;
  readonly #listeners = new Set<Listener>();
  #following = false;

  constructor(client: Client, informers: Informers, signal: AbortSignal) {
    this.#client = client;
    this.#informers = informers;
    this.#signal = signal;
  }

  /** Calls the listener after every change of any bundle until the returned function is called. */
  hold(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * The certificates of all bundles that the source selects, each once, in an order that stays. Undefined: there are none, and none are needed.
   * @throws VolumeError `NotFound` when there are none that match, `Failed` when the server has no such API
   */
  async certificates({ name, signerName, labelSelector, optional }: ClusterTrustBundleProjection): Promise<Buffer | undefined> {
    const all = await this.#all();
    const selector = selectorFromObject(labelSelector);
    const chosen = all.filter(({ metadata, spec }) =>
      name !== undefined ? metadata?.name === name : spec.signerName === signerName && selector.matches(metadata?.labels),
    );
    if (chosen.length === 0) {
      if (optional === true) return undefined;
      throw new VolumeError(
        'NotFound',
        name === undefined
          ? 'combination of signerName and labelSelector matched zero ClusterTrustBundles'
          : `clustertrustbundle.certificates.k8s.io "${name}" not found`,
      );
    }
    const found = new Set(chosen.flatMap(({ spec }) => [...spec.trustBundle.matchAll(certificates)].map(([block]) => tidy(block))));
    return Buffer.from([...found].sort().join(''), 'utf8');
  }

  async #all(): Promise<readonly ClusterTrustBundle[]> {
    if (!this.#following) {
      // an informer would wait for ever for what is not served
      await this.#client.list(clusterTrustBundlesV1beta1, { limit: 1 }).catch((cause: unknown) => {
        if (!isStatus(cause, 'NotFound')) throw cause;
        throw new VolumeError('Failed', 'the server does not serve clustertrustbundles of certificates.k8s.io/v1beta1', { cause });
      });
      this.#follow();
    }
    const informer = this.#informers.of(clusterTrustBundlesV1beta1);
    await informer.whenSynced(this.#signal);
    return [...informer.list()];
  }

  #follow(): void {
    if (this.#following) return;
    this.#following = true;
    const tell = (cause: Cause | undefined) => {
      for (const listener of [...this.#listeners]) listener(cause);
    };
    this.#informers.of(clusterTrustBundlesV1beta1).on({
      added: (_, cause) => tell(cause),
      updated: (_now, _before, cause) => tell(cause),
      deleted: (_, cause) => tell(cause),
    });
  }
}

/** Lines of 64, as every tool writes them: the same certificate is the same text. */
function tidy(block: string): string {
  const body = block.replace(/-----[A-Z ]+-----|\s/g, '');
  return `-----BEGIN CERTIFICATE-----\n${body.replace(/.{1,64}/g, '$&\n')}-----END CERTIFICATE-----\n`;
}
