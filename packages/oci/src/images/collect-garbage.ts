import type { ContentStore } from '../content/content-store.ts';
import type { Digest } from '../content/digest.ts';
import { layerLease, type Leases } from '../content/leases.ts';
import type { GarbageCollection } from '../image-store.ts';
import type { LayerStore } from '../layers/layer-store.ts';
import type { ImageIndex } from './image-index.ts';

export interface GarbageOptions {
  readonly content: ContentStore;
  readonly layers: LayerStore;
  readonly leases: Leases;
  readonly index: ImageIndex;
  /** Returns the chain ids that snapshots use. */
  snapshotLayers(): Iterable<Digest>;
}

/** Removes the layers, blobs and partial downloads that no image, snapshot or running operation uses. */
export async function collectGarbage({ content, layers, leases, index, snapshotLayers }: GarbageOptions): Promise<GarbageCollection> {
  const entries = index.list();
  const usedBlobs = new Set(entries.flatMap(({ id, blobs }) => [id, ...blobs]));
  const usedLayers = new Set([...entries.flatMap(({ chainIds }) => chainIds), ...snapshotLayers()]);
  let freedBytes = 0;
  let removedLayers = 0;
  let removedBlobs = 0;
  for (const { chainId, usedBytes } of [...layers.list()].reverse()) {
    if (usedLayers.has(chainId) || leases.has(layerLease(chainId))) continue;
    await layers.remove(chainId);
    freedBytes += usedBytes;
    removedLayers += 1;
  }
  for (const { digest } of content.blobs()) {
    if (usedBlobs.has(digest) || leases.has(digest)) continue;
    freedBytes += await content.remove(digest);
    removedBlobs += 1;
  }
  for (const partial of await content.partials()) if (!leases.has(partial.digest)) freedBytes += await content.removePartial(partial);
  return { freedBytes, removedLayers, removedBlobs };
}
