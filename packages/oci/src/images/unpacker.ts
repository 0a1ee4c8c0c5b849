import { Semaphore } from '@oarlock/primitives/concurrency/semaphore';
import type { ContentStore } from '../content/content-store.ts';
import { chainIdsOf, type Digest } from '../content/digest.ts';
import { SharedWorks } from '../content/shared-works.ts';
import type { ImageConfig } from '../image-config.ts';
import type { PullProgress } from '../image-store.ts';
import type { LayerStore, StoredLayer } from '../layers/layer-store.ts';
import { OciError } from '../oci-error.ts';
import type { Leases } from '../content/leases.ts';
import type { Descriptor } from '../content/manifest.ts';

export interface UnpackRequest {
  readonly layers: readonly Descriptor[];
  readonly config: ImageConfig;
  /** Where the blobs come from, such as the host of a registry. */
  readonly source: string;
  readonly signal: AbortSignal;
  onProgress(progress: PullProgress): void;
  /** Brings a layer's blob into the content store. */
  fetch(layer: Descriptor, signal: AbortSignal, onBytes: (bytesDone: number) => void): Promise<void>;
}
interface LayerRequest {
  readonly index: number;
  readonly chainIds: readonly Digest[];
}

/**
 * Fetches and extracts the layers of images: downloads run concurrently, each layer once per source, and extraction starts when a blob is complete. Sources
 * share neither works nor places: a pull does not wait for a slow registry that names the same layers.
 */
export class Unpacker {
  readonly #content: ContentStore;
  readonly #layers: LayerStore;
  readonly #leases: Leases;
  readonly #maxDownloads: number;
  readonly #downloads = new Map<string, { readonly places: Semaphore; users: number }>();
  readonly #fetches = new SharedWorks<void, PullProgress>();
  readonly #works = new SharedWorks<StoredLayer, PullProgress>();

  constructor(
    content: ContentStore,
    layers: LayerStore,
    { leases, maxDownloads }: { readonly leases: Leases; readonly maxDownloads: number },
  ) {
    this.#content = content;
    this.#layers = layers;
    this.#leases = leases;
    this.#maxDownloads = maxDownloads;
  }

  /** Returns the chain ids of an image whose layers are extracted. @throws OciError; if one layer fails, the others are aborted */
  async unpack(request: UnpackRequest): Promise<readonly Digest[]> {
    const { layers, config } = request;
    if (config.diffIds.length !== layers.length)
      throw new OciError('InvalidContent', `the image has ${layers.length} layers, but its config has ${config.diffIds.length} diff ids`);
    const chainIds = chainIdsOf(config.diffIds);
    const own = new AbortController();
    const signal = AbortSignal.any([request.signal, own.signal]);
    const results = await Promise.allSettled(
      layers.map((_, index) =>
        this.#layer({ index, chainIds }, { ...request, signal }).catch((error: unknown) => {
          own.abort(error);
          throw error;
        }),
      ),
    );
    request.signal.throwIfAborted();
    // the first failure aborted the others
    if (own.signal.aborted) throw own.signal.reason;
    if (results.some(({ status }) => status === 'rejected')) throw new Error('a layer failed without a reason');
    return chainIds;
  }

  async #layer({ index, chainIds }: LayerRequest, request: UnpackRequest): Promise<StoredLayer> {
    const { signal, onProgress, fetch, config, source } = request;
    const layer = request.layers[index];
    const chainId = chainIds[index];
    const diffId = config.diffIds[index];
    if (!layer || chainId === undefined || diffId === undefined) throw new RangeError(`there is no layer ${index}`);
    const report = (status: PullProgress['status'], completedBytes: number): PullProgress => ({
      digest: layer.digest,
      status,
      completedBytes,
      totalBytes: layer.size,
    });
    const present = this.#layers.get(chainId);
    if (present) {
      onProgress(report('exists', layer.size));
      return present;
    }
    const release = this.#leases.hold([layer.digest]);
    try {
      return await this.#works.run(`${source} ${chainId}`, {
        signal,
        onProgress,
        work: async (shared, notify) => {
          // a layer may have been stored since, by the work that this one waited for
          const stored = this.#layers.get(chainId);
          if (stored) return stored;
          notify(report('waiting', 0));
          // the work holds the layers below itself, because the callers that started them may abort
          const lower = this.#lower({ index, chainIds }, { ...request, signal: shared, onProgress: () => {} });
          lower.catch(() => {}); // the extraction, or a caller, receives the failure
          await this.#fetch(layer, { source, signal: shared, notify, report, fetch });
          notify(report('extracting', layer.size));
          const extracted = await this.#layers.extract({ blob: this.#content.path(layer.digest), chainId, diffId, lower, signal: shared });
          notify(report('done', layer.size));
          return extracted;
        },
      });
    } finally {
      release();
      // an extracted layer does not need its blob, unless another image extracts it on top of other layers
      if (this.#layers.get(chainId) && !this.#leases.has(layer.digest)) await this.#content.remove(layer.digest);
    }
  }

  async #lower({ index, chainIds }: LayerRequest, request: UnpackRequest): Promise<readonly StoredLayer[]> {
    if (index === 0) return [];
    await this.#layer({ index: index - 1, chainIds }, request);
    const lower = this.#layers.chain(chainIds.slice(0, index));
    if (!lower) throw new Error('a lower layer was removed during a pull');
    return lower;
  }

  #fetch(
    layer: Descriptor,
    {
      source,
      signal,
      notify,
      report,
      fetch,
    }: {
      readonly source: string;
      readonly signal: AbortSignal;
      notify(progress: PullProgress): void;
      report(status: PullProgress['status'], bytesDone: number): PullProgress;
      readonly fetch: UnpackRequest['fetch'];
    },
  ): Promise<void> {
    return this.#fetches.run(`${source} ${layer.digest}`, {
      signal,
      onProgress: notify,
      work: (shared, progressed) =>
        this.#inPlace(source, shared, async () => {
          if (this.#content.has(layer.digest)) return;
          progressed(report('downloading', 0));
          await fetch(layer, shared, (bytesDone) => progressed(report('downloading', bytesDone)));
        }),
    });
  }

  /** Runs a download when its source has a free place. */
  async #inPlace(source: string, signal: AbortSignal, work: () => Promise<void>): Promise<void> {
    const downloads = this.#downloads.get(source) ?? { places: new Semaphore(this.#maxDownloads), users: 0 };
    this.#downloads.set(source, downloads);
    downloads.users += 1;
    try {
      await downloads.places.run(signal, work);
    } finally {
      downloads.users -= 1;
      if (downloads.users === 0) this.#downloads.delete(source);
    }
  }
}
