import { isDigest, hexOf, type Digest } from '../content/digest.ts';
import { OciError } from '../oci-error.ts';
import type { Platform } from '../platform.ts';
import { formatReference, parseReference } from '../reference.ts';
import type { SpooledArchive, SpooledFile } from './load-archive.ts';
import { limits, mediaTypes, parseManifest, selectManifest, type Descriptor, type Index, type Manifest } from '../content/manifest.ts';

/** An image of an archive, with the files that hold its content. */
export interface ArchiveImage {
  /** Normalized names with tags. */
  readonly names: readonly string[];
  readonly manifest: Manifest;
  /** The manifests and indexes that led to the image, the outermost first; empty for an archive without manifests. */
  readonly manifests: readonly SpooledFile[];
  readonly config: SpooledFile;
  readonly layers: readonly SpooledFile[];
}

const maxImages = 1000;
const missing = (path: string) => new OciError('InvalidContent', `the archive has no ${path}`);
const blobPath = (digest: Digest) => `blobs/sha256/${hexOf(digest)}`;

function fileOf(archive: SpooledArchive, path: string): SpooledFile {
  const found = archive.get(path);
  if (!found) throw missing(path);
  return found;
}

/** A name that cannot be parsed is not a name of an image, such as the version that some tools write as `org.opencontainers.image.ref.name`. */
function normalizedName(text: string | undefined): readonly string[] {
  if (text === undefined) return [];
  try {
    const reference = parseReference(text);
    return reference.tag === undefined ? [] : [formatReference({ ...reference, digest: undefined })];
  } catch {
    return [];
  }
}

/** The names of a manifest in an index: containerd writes the whole name; the specification has a tag or a name. */
function namesOf({ annotations }: Descriptor, base: string | undefined): readonly string[] {
  const full = annotations['io.containerd.image.name'];
  const short = annotations['org.opencontainers.image.ref.name'];
  if (full !== undefined) return normalizedName(full);
  if (short === undefined) return [];
  if (short.includes('/') || short.includes(':')) return normalizedName(short);
  return base === undefined ? [] : normalizedName(`${base.replace(/:[^/:]*$/, '')}:${short}`);
}

/** Returns the images of an archive: an OCI layout, the format of `docker save`, or both. @throws OciError `InvalidContent`, `NotFound`, `TooLarge` */
export async function imagesOfArchive(
  archive: SpooledArchive,
  { platform, name }: { readonly platform: Platform; readonly name: string | undefined },
): Promise<readonly ArchiveImage[]> {
  const docker = await dockerImages(archive);
  const index = await archive.bytes('index.json', limits.manifestBytes);
  const layout = index ? await layoutImages(archive, index, { platform, base: name }) : [];
  // docker writes both formats; its names are in manifest.json
  const named = new Map(docker.map((image) => [image.config.digest, image.names]));
  const images = layout.map((image) => (image.names.length > 0 ? image : { ...image, names: named.get(image.config.digest) ?? [] }));
  const found = new Set(images.map(({ config }) => config.digest));
  const all = [...images, ...docker.filter(({ config }) => !found.has(config.digest))];
  if (all.length === 0) throw new OciError('InvalidContent', 'the archive is neither an OCI layout nor an archive of docker save');
  if (name === undefined) return all;
  const [only, ...more] = all;
  return only && more.length === 0 && only.names.length === 0 ? [{ ...only, names: [formatReference(parseReference(name))] }] : all;
}

async function layoutImages(
  archive: SpooledArchive,
  bytes: Buffer,
  { platform, base }: { readonly platform: Platform; readonly base: string | undefined },
): Promise<readonly ArchiveImage[]> {
  const index = parseManifest(bytes, mediaTypes.index);
  if (!('manifests' in index)) throw new OciError('InvalidContent', 'index.json of the archive is not an index');
  if (index.manifests.length > maxImages) throw new OciError('TooLarge', `the archive has more than ${maxImages} images`);
  const images: ArchiveImage[] = [];
  for (const descriptor of index.manifests) {
    if (descriptor.annotations['vnd.docker.reference.type'] === 'attestation-manifest') continue;
    const names = namesOf(descriptor, base);
    images.push({ ...(await layoutImage(archive, descriptor, platform)), names });
  }
  // several platforms of one image are several manifests without names
  const platforms = index.manifests.filter((each) => each.platform);
  if (images.length > 1 && images.every(({ names }) => names.length === 0) && platforms.length === images.length) {
    const chosen = selectManifest(index, platform);
    return images.filter((_, position) => index.manifests[position]?.digest === chosen.digest);
  }
  return images;
}

async function layoutImage(archive: SpooledArchive, descriptor: Descriptor, platform: Platform): Promise<Omit<ArchiveImage, 'names'>> {
  const manifests: SpooledFile[] = [];
  let current = descriptor;
  for (let depth = 0; depth < 3; depth += 1) {
    const path = blobPath(current.digest);
    const bytes = await archive.bytes(path, limits.manifestBytes);
    if (!bytes) throw missing(path);
    manifests.push(fileOf(archive, path));
    const parsed = parseManifest(bytes, current.mediaType);
    if (!('manifests' in parsed))
      return {
        manifest: parsed,
        manifests,
        config: fileOf(archive, blobPath(parsed.config.digest)),
        layers: parsed.layers.map(({ digest }) => fileOf(archive, blobPath(digest))),
      };
    current = selectManifest(availableOf(parsed, archive), platform);
  }
  throw new OciError('InvalidContent', 'the indexes of the archive nest too deeply');
}

/** An archive of one platform has the whole index, but the blobs of the platform only. */
const availableOf = ({ manifests }: Index, archive: SpooledArchive): Index => {
  const present = manifests.filter(({ digest }) => archive.get(blobPath(digest)));
  return { manifests: present.length > 0 ? present : manifests };
};

async function dockerImages(archive: SpooledArchive): Promise<readonly ArchiveImage[]> {
  const bytes = await archive.bytes('manifest.json', limits.manifestBytes);
  if (!bytes) return [];
  let list: unknown;
  try {
    list = JSON.parse(bytes.toString('utf8'));
  } catch (error) {
    throw new OciError('InvalidContent', 'manifest.json of the archive is not JSON', { cause: error });
  }
  if (!Array.isArray(list) || list.length > maxImages)
    throw new OciError('InvalidContent', 'manifest.json of the archive is not a list of images');
  return list.map((item: unknown, position) => dockerImage(archive, item, `manifest.json[${position}]`));
}

function dockerImage(archive: SpooledArchive, item: unknown, where: string): ArchiveImage {
  const { Config, RepoTags, Layers } = (item ?? {}) as {
    readonly Config?: unknown;
    readonly RepoTags?: unknown;
    readonly Layers?: unknown;
  };
  if (typeof Config !== 'string') throw new OciError('InvalidContent', `${where}.Config is not a path`);
  if (!Array.isArray(Layers) || Layers.length > limits.layers || !Layers.every((each) => typeof each === 'string'))
    throw new OciError('InvalidContent', `${where}.Layers is not a list of at most ${limits.layers} paths`);
  const config = fileOf(archive, Config);
  const layers = (Layers as readonly string[]).map((path) => fileOf(archive, path));
  const descriptor = (mediaType: string, { digest, size }: SpooledFile): Descriptor => ({ mediaType, digest, size, annotations: {} });
  if (!isDigest(config.digest)) throw missing(Config);
  return {
    names: (Array.isArray(RepoTags) ? RepoTags : []).flatMap((tag) => normalizedName(typeof tag === 'string' ? tag : undefined)),
    // the compression is detected by the content
    manifest: { config: descriptor(mediaTypes.dockerConfig, config), layers: layers.map((layer) => descriptor(mediaTypes.layer, layer)) },
    manifests: [],
    config,
    layers,
  };
}
