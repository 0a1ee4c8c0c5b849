import { isDigest, type Digest } from './digest.ts';
import { OciError } from '../oci-error.ts';
import { formatPlatform, selectPlatform, type Platform } from '../platform.ts';

export interface Descriptor {
  readonly mediaType: string;
  readonly digest: Digest;
  readonly size: number;
  readonly platform?: Platform;
  readonly annotations: Readonly<Record<string, string>>;
}
export interface Manifest {
  readonly config: Descriptor;
  readonly layers: readonly Descriptor[];
}
export interface Index {
  readonly manifests: readonly Descriptor[];
}

export const limits = {
  manifestBytes: 4 * 1024 ** 2,
  configBytes: 8 * 1024 ** 2,
  layers: 127,
  manifestsOfIndex: 1000,
  layerBytes: 64 * 1024 ** 3,
} as const;

export const mediaTypes = {
  manifest: 'application/vnd.oci.image.manifest.v1+json',
  index: 'application/vnd.oci.image.index.v1+json',
  config: 'application/vnd.oci.image.config.v1+json',
  layer: 'application/vnd.oci.image.layer.v1.tar',
  dockerManifest: 'application/vnd.docker.distribution.manifest.v2+json',
  dockerList: 'application/vnd.docker.distribution.manifest.list.v2+json',
  dockerConfig: 'application/vnd.docker.container.image.v1+json',
  dockerLayer: 'application/vnd.docker.image.rootfs.diff.tar',
} as const;
/** Media types for the Accept header of requests for manifests. */
export const acceptedManifests = [mediaTypes.dockerManifest, mediaTypes.dockerList, mediaTypes.manifest, mediaTypes.index, '*/*'].join(
  ', ',
);

const layerTypes = new Set(
  [mediaTypes.layer, mediaTypes.dockerLayer].flatMap((type) => [type, `${type}+gzip`, `${type}.gzip`, `${type}+zstd`, `${type}.zstd`]),
);
const invalid = (what: string) => new OciError('InvalidContent', `invalid manifest: ${what}`);
type Json = Readonly<Record<string, unknown>>;
const isObject = (value: unknown): value is Json => typeof value === 'object' && value !== null && !Array.isArray(value);

/** Parses JSON that must be an object. @throws OciError `InvalidContent` */
export function parseObject(bytes: Buffer, what: string): Json {
  let value: unknown;
  try {
    value = JSON.parse(bytes.toString('utf8'));
  } catch (error) {
    throw new OciError('InvalidContent', `invalid ${what}: not JSON`, { cause: error });
  }
  if (!isObject(value)) throw new OciError('InvalidContent', `invalid ${what}: not an object`);
  return value;
}

function descriptorOf(value: unknown, where: string): Descriptor {
  if (!isObject(value)) throw invalid(`${where} is not an object`);
  const { mediaType, digest, size, platform, annotations } = value;
  if (typeof mediaType !== 'string' || mediaType.length > 255) throw invalid(`${where}.mediaType is not a media type`);
  if (!isDigest(digest)) throw invalid(`${where}.digest is not a sha256 digest`);
  if (typeof size !== 'number' || !Number.isSafeInteger(size) || size < 0) throw invalid(`${where}.size is not a size`);
  return { mediaType, digest, size, ...platformOf(platform), annotations: isObject(annotations) ? textsOf(annotations) : {} };
}

const textsOf = (value: Json): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(value).filter((entry): entry is [string, string] => typeof entry[1] === 'string'));

function platformOf(value: unknown): { readonly platform?: Platform } {
  if (!isObject(value)) return {};
  const { os, architecture, variant } = value;
  if (typeof os !== 'string' || typeof architecture !== 'string') return {};
  return { platform: { os, architecture, ...(typeof variant === 'string' && variant !== '' && { variant }) } };
}

/** Parses a manifest or an index. @throws OciError `InvalidContent`, `Unsupported`, `TooLarge` */
export function parseManifest(bytes: Buffer, contentType: string | undefined): Manifest | Index {
  const value = parseObject(bytes, 'manifest');
  const type = typeof value['mediaType'] === 'string' ? value['mediaType'] : (contentType?.split(';')[0]?.trim() ?? '');
  if (value['schemaVersion'] === 1 || type.startsWith('application/vnd.docker.distribution.manifest.v1'))
    throw new OciError('Unsupported', 'manifests of schema version 1 are not supported; push the image again with a current tool');
  if (value['schemaVersion'] !== 2) throw invalid('schemaVersion is not 2');
  const { manifests, config, layers } = value;
  if (manifests !== undefined && (layers !== undefined || config !== undefined)) throw invalid('it has both manifests and layers');
  if (Array.isArray(manifests)) {
    if (manifests.length > limits.manifestsOfIndex)
      throw new OciError('TooLarge', `the index has more than ${limits.manifestsOfIndex} manifests`);
    return { manifests: manifests.map((each, index) => descriptorOf(each, `manifests[${index}]`)) };
  }
  if (!Array.isArray(layers)) throw invalid('it has neither layers nor manifests');
  return imageManifest(config, layers);
}

function imageManifest(config: unknown, layers: readonly unknown[]): Manifest {
  if (layers.length > limits.layers) throw new OciError('TooLarge', `the image has more than ${limits.layers} layers`);
  const parsed = { config: descriptorOf(config, 'config'), layers: layers.map((each, index) => descriptorOf(each, `layers[${index}]`)) };
  if (parsed.config.mediaType !== mediaTypes.config && parsed.config.mediaType !== mediaTypes.dockerConfig)
    throw new OciError(
      'Unsupported',
      `the manifest is of an artifact, not of a container image: its config has the type ${parsed.config.mediaType}`,
    );
  if (parsed.config.size > limits.configBytes) throw new OciError('TooLarge', `the config has more than ${limits.configBytes} bytes`);
  for (const { mediaType, digest, size } of parsed.layers) {
    if (/foreign|nondistributable/.test(mediaType))
      throw new OciError(
        'Unsupported',
        `the layer ${digest} is foreign: it is not in the registry, and content of other servers is not downloaded`,
      );
    if (!layerTypes.has(mediaType)) throw new OciError('Unsupported', `the layer ${digest} has the unknown type ${mediaType}`);
    if (size > limits.layerBytes) throw new OciError('TooLarge', `the layer ${digest} has more than ${limits.layerBytes} bytes`);
  }
  return parsed;
}

/** Returns the manifest for a platform. Attestations and other manifests without a platform are ignored if others exist. @throws OciError `NotFound` */
export function selectManifest({ manifests }: Index, platform: Platform): Descriptor {
  const found =
    selectPlatform(manifests, platform) ?? (manifests.length === 1 && manifests[0]?.platform === undefined ? manifests[0] : undefined);
  if (found) return found;
  const available = manifests.flatMap((each) => (each.platform ? [formatPlatform(each.platform)] : [])).slice(0, 20);
  throw new OciError(
    'NotFound',
    `no match for platform in manifest: the image has ${available.join(', ') || 'no platforms'}, not ${formatPlatform(platform)}`,
  );
}
