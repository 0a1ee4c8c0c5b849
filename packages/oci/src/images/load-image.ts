import type { ContentStore } from '../content/content-store.ts';
import { layerLease } from '../content/leases.ts';
import { limits } from '../content/manifest.ts';
import type { PullProgress } from '../image-store.ts';
import { parseReference, repositoryName } from '../reference.ts';
import type { ArchiveImage } from './archive-images.ts';
import type { IndexEntry } from './image-index.ts';
import type { SpooledArchive } from './load-archive.ts';
import { parseImageConfig } from './parse-image-config.ts';
import type { Unpacker } from './unpacker.ts';

export interface LoadContext {
  readonly content: ContentStore;
  readonly unpacker: Unpacker;
  readonly signal: AbortSignal;
  /** Keeps blobs and layers from garbage collection, also after the call. */
  hold(keys: readonly string[]): void;
  onProgress(progress: PullProgress): void;
}

/** Adds an image of an archive to the store's content and layers. The caller records the returned entry. @throws OciError */
export async function loadImage(spooled: SpooledArchive, image: ArchiveImage, context: LoadContext): Promise<IndexEntry> {
  const { content, unpacker, signal, hold, onProgress } = context;
  const blobs = image.manifests.map(({ digest }) => digest);
  hold([image.config.digest, ...blobs]);
  for (const file of [...image.manifests, image.config]) await spooled.commit(file, content);
  if (blobs.length === 0) {
    const digest = await content.write(dockerManifest(image));
    hold([digest]);
    blobs.push(digest);
  }
  const config = parseImageConfig(await content.read(image.config.digest, limits.configBytes));
  const byDigest = new Map(image.layers.map((file) => [file.digest, file]));
  const chainIds = await unpacker.unpack({
    layers: image.manifest.layers,
    config,
    source: 'archive',
    signal,
    onProgress,
    fetch: async ({ digest }) => {
      const file = byDigest.get(digest);
      if (file) await spooled.commit(file, content);
    },
  });
  hold(chainIds.map(layerLease));
  const root = blobs[0] ?? '';
  return {
    id: image.config.digest,
    manifestDigest: blobs.at(-1) ?? '',
    blobs,
    chainIds,
    sizeBytes: image.layers.reduce((sum, { size }) => sum + size, image.config.size),
    tags: image.names,
    digests: image.manifests.length === 0 ? [] : image.names.map((name) => `${repositoryName(parseReference(name))}@${root}`),
    pinned: false,
  };
}

/** Returns a manifest for an image of an archive without manifests. */
const dockerManifest = ({ manifest: { config, layers } }: ArchiveImage): Buffer => {
  const descriptor = ({ mediaType, digest, size }: (typeof layers)[number]) => ({ mediaType, digest, size });
  return Buffer.from(JSON.stringify({ schemaVersion: 2, config: descriptor(config), layers: layers.map(descriptor) }));
};
