import type { ImageConfig } from '../image-config.ts';
import type { ImageRecord } from '../image-store.ts';
import type { LayerStore } from '../layers/layer-store.ts';
import { formatReference, parseReference, repositoryName, type Reference } from '../reference.ts';
import type { IndexEntry } from './image-index.ts';

/** Returns an image of the index as the store reports it. */
export function imageRecord(entry: IndexEntry, config: ImageConfig, layers: LayerStore): ImageRecord {
  const { id, manifestDigest, tags, digests, sizeBytes, chainIds, pinned } = entry;
  const [user = ''] = config.user.split(':');
  const isUid = /^\d+$/.test(user);
  return {
    id,
    repoTags: tags,
    repoDigests: digests,
    sizeBytes,
    ...(isUid && { uid: Number(user) }),
    ...(!isUid && user !== '' && { username: user }),
    ...(pinned && { pinned }),
    manifestDigest,
    config,
    chainIds,
    notes: [...new Set(chainIds.flatMap((chainId) => layers.get(chainId)?.notes ?? []))],
  };
}

/** Returns the names of an image without one name. The last tag of a repository takes the names with digests along. */
export function withoutName(entry: IndexEntry, reference: Reference): Pick<IndexEntry, 'tags' | 'digests'> {
  const name = formatReference(reference.digest === undefined ? reference : { ...reference, tag: undefined });
  const tags = entry.tags.filter((tag) => tag !== name);
  const repository = repositoryName(reference);
  const isLastOfRepository = !tags.some((tag) => repositoryName(parseReference(tag)) === repository);
  const digests = entry.digests.filter((digest) => digest !== name && !(isLastOfRepository && digest.startsWith(`${repository}@`)));
  return { tags, digests };
}
