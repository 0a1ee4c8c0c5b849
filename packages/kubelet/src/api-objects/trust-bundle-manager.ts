import { selectorFromLabelSelector } from '@oarlock/api/selectors/label-selector';
import { clusterTrustBundlesV1beta1 } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { ClusterTrustBundle } from '@oarlock/api/types/certificates-v1beta1';
import type { ClusterTrustBundleProjection } from '@oarlock/api/types/core-v1';
import type { SpanContext } from '@oarlock/kernel/tracing';
import type { Client, Informers } from '@oarlock/spi/client';
import { VolumeError } from '@oarlock/spi/volume';

const certificates = /-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----/g;
type Listener = (spanContext: SpanContext | undefined) => void;

/**
 * Provides the trust anchors of ClusterTrustBundles, selected by name or by signer and labels (KEP-3257). The ClusterTrustBundle API is optional:
 * the informer starts when the first pod needs a bundle.
 */
export class TrustBundleManager {
  readonly #client: Client;
  readonly #informers: Informers;
  readonly #signal: AbortSignal;
  readonly #listeners = new Set<Listener>();
  #informerStarted = false;

  constructor(client: Client, informers: Informers, signal: AbortSignal) {
    this.#client = client;
    this.#informers = informers;
    this.#signal = signal;
  }

  /** Calls the listener after every change of a ClusterTrustBundle. The returned function removes the listener. */
  watch(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Returns the deduplicated certificates of the selected bundles in a stable order; undefined if no bundle matches and the source is optional.
   * @throws VolumeError `NotFound` if no bundle matches, `Failed` if the API server does not serve ClusterTrustBundles
   */
  async certificates({ name, signerName, labelSelector, optional }: ClusterTrustBundleProjection): Promise<Buffer | undefined> {
    const all = await this.#all();
    const selector = selectorFromLabelSelector(labelSelector);
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
    if (!this.#informerStarted) {
      // an informer of a resource that is not served would never sync
      await this.#client.list(clusterTrustBundlesV1beta1, { limit: 1 }).catch((cause: unknown) => {
        if (!isStatus(cause, 'NotFound')) throw cause;
        throw new VolumeError('Failed', 'the server does not serve clustertrustbundles of certificates.k8s.io/v1beta1', { cause });
      });
      this.#startInformer();
    }
    const informer = this.#informers.forResource(clusterTrustBundlesV1beta1);
    await informer.whenSynced(this.#signal);
    return [...informer.list()];
  }

  #startInformer(): void {
    if (this.#informerStarted) return;
    this.#informerStarted = true;
    const notifyListeners = (spanContext: SpanContext | undefined) => {
      for (const listener of [...this.#listeners]) listener(spanContext);
    };
    this.#informers.forResource(clusterTrustBundlesV1beta1).addEventHandler({
      onAdd: (_, spanContext) => notifyListeners(spanContext),
      onUpdate: (_now, _before, spanContext) => notifyListeners(spanContext),
      onDelete: (_, spanContext) => notifyListeners(spanContext),
    });
  }
}

/** Normalizes a PEM block to lines of 64 characters, so that equal certificates have equal text. */
function tidy(block: string): string {
  const body = block.replace(/-----[A-Z ]+-----|\s/g, '');
  return `-----BEGIN CERTIFICATE-----\n${body.replace(/.{1,64}/g, '$&\n')}-----END CERTIFICATE-----\n`;
}
