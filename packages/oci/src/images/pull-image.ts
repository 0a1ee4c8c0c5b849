import type { ContentStore } from '../content/content-store.ts';
import { chainIdsOf, digestOf, type Digest } from '../content/digest.ts';
import type { PullProgress } from '../image-store.ts';
import { OciError } from '../oci-error.ts';
import { formatReference, repositoryName, type Reference } from '../reference.ts';
import type { Platform } from '../platform.ts';
import { downloadBlob } from '../registry/download-blob.ts';
import { readBody } from '../registry/http-client.ts';
import { smallBodyMs, type FetchedManifest, type RegistryClient } from '../registry/registry-client.ts';
import { limits, parseManifest, selectManifest, type Descriptor, type Manifest } from '../content/manifest.ts';
import { parseImageConfig } from './parse-image-config.ts';
import type { IndexEntry } from './image-index.ts';
import { layerLease } from '../content/leases.ts';
import type { Unpacker } from './unpacker.ts';

export interface PullContext {
  readonly content: ContentStore;
  readonly unpacker: Unpacker;
  /** Keeps content and layers from garbage collection, also after this call returns. */
  hold(keys: readonly string[]): void;
  readonly registry: RegistryClient;
  readonly reference: Reference;
  readonly platform: Platform;
  /** Digest that the store has for the reference; undefined if it has none. */
  readonly known: Digest | undefined;
  readonly signal: AbortSignal;
  onProgress(progress: PullProgress): void;
}

const maxIndexDepth = 3;

/** Pulls an image into the store's content and layers. The caller records the returned entry. @throws OciError with the words of containerd */
export async function pullImage(context: PullContext): Promise<IndexEntry> {
  const { reference, registry, content, unpacker, hold, signal, onProgress } = context;
  const name = formatReference(reference);
  try {
    const { root, blobs, manifest } = await inContext(`failed to resolve reference "${name}"`, () => resolveManifest(context));
    const manifestDigest = blobs.at(-1) ?? root;
    hold([manifest.config.digest]);
    await inContext('failed to copy', () => fetchSmall(context, manifest.config));
    const config = parseImageConfig(await content.read(manifest.config.digest, limits.configBytes));
    hold(chainIdsOf(config.diffIds).map(layerLease));
    const chainIds = await unpacker.unpack({
      layers: manifest.layers,
      config,
      source: reference.host,
      signal,
      onProgress,
      fetch: (layer, shared, onBytes) =>
        downloadBlob(content, registry, { digest: layer.digest, size: layer.size, source: reference.host, signal: shared, onBytes }),
    });
    return {
      id: manifest.config.digest,
      manifestDigest,
      blobs,
      chainIds,
      sizeBytes: manifest.layers.reduce((sum, { size }) => sum + size, manifest.config.size),
      tags: reference.tag === undefined ? [] : [`${repositoryName(reference)}:${reference.tag}`],
      digests: [`${repositoryName(reference)}@${root}`],
      pinned: false,
    };
  } catch (error) {
    signal.throwIfAborted();
    throw withContext(`failed to pull and unpack image "${name}"`, error);
  }
}

interface ResolvedManifest {
  /** The digest to which the reference resolves. */
  readonly root: Digest;
  /** The index and the manifest, or the manifest alone. */
  readonly blobs: readonly Digest[];
  readonly manifest: Manifest;
}

async function resolveManifest(context: PullContext): Promise<ResolvedManifest> {
  const { platform } = context;
  let fetched = await rootManifest(context);
  const root = fetched.digest;
  const blobs: Digest[] = [];
  for (let depth = 0; depth < maxIndexDepth; depth += 1) {
    context.hold([fetched.digest]);
    await context.content.write(fetched.bytes);
    blobs.push(fetched.digest);
    const parsed = parseManifest(fetched.bytes, fetched.contentType);
    if (!('manifests' in parsed)) return { root, blobs, manifest: parsed };
    const chosen = selectManifest(parsed, platform);
    fetched = await manifestByDigest(context, chosen.digest, chosen.mediaType);
  }
  throw new OciError('InvalidContent', `the index nests more than ${maxIndexDepth} levels`);
}

/** Returns the manifest or index of the reference. If the store has it already, only the digest is requested from the registry. */
async function rootManifest(context: PullContext): Promise<FetchedManifest> {
  const { reference, registry, known, content, signal } = context;
  // the manifest is requested even if the content is present, because the credentials must allow the pull
  if (reference.digest !== undefined) return registry.resolvedManifest(reference.digest, signal);
  const tag = reference.tag ?? 'latest';
  const current = known === undefined ? undefined : await currentDigest(registry, tag, signal);
  if (current !== undefined && current === known && content.has(current))
    return { bytes: await content.read(current, limits.manifestBytes), digest: current, contentType: undefined };
  return registry.resolvedManifest(tag, signal);
}

/** Returns undefined if the registry does not answer HEAD requests as specified: the manifest is then downloaded. */
async function currentDigest(registry: RegistryClient, tag: string, signal: AbortSignal): Promise<Digest | undefined> {
  try {
    return await registry.resolve(tag, signal);
  } catch (error) {
    if (error instanceof OciError && error.code === 'InvalidContent') return undefined;
    throw error;
  }
}

async function manifestByDigest({ content, registry, signal }: PullContext, digest: Digest, contentType: string): Promise<FetchedManifest> {
  if (content.has(digest)) return { bytes: await content.read(digest, limits.manifestBytes), digest, contentType };
  return registry.manifest(digest, signal);
}

async function fetchSmall({ content, registry, signal }: PullContext, { digest, size }: Descriptor): Promise<void> {
  if (content.has(digest)) return;
  await registry.blob(digest, {
    offset: () => 0,
    read: async (response) => {
      const bytes = await readBody(response, Math.min(size, limits.configBytes));
      if (bytes.length < size)
        throw new OciError('Unavailable', `downloading ${digest} failed: the response ended after ${bytes.length} of ${size} bytes`);
      const actual = digestOf(bytes);
      if (actual !== digest) throw new OciError('InvalidContent', `unexpected digest of content: ${actual}, expected ${digest}`);
      await content.write(bytes);
    },
    bodyTimeoutMs: smallBodyMs,
    signal,
  });
}

/** Returns the error with a prefix for its message. */
export function withContext(prefix: string, error: unknown): unknown {
  return error instanceof OciError ? new OciError(error.code, `${prefix}: ${error.message}`, { cause: error }) : error;
}

async function inContext<T>(prefix: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw withContext(prefix, error);
  }
}
