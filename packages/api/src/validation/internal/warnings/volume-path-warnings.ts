import type { Volume, VolumeProjection } from '../../../generated/types/core-v1.ts';

/** A path inside a volume, and the kind and the name of the source of a projected volume that provides it. */
interface VolumePath {
  readonly path: string;
  readonly kind: string;
  readonly name: string | undefined;
}
function describe({ path, kind, name }: VolumePath): string {
  if (kind === '') return JSON.stringify(path);
  return `${JSON.stringify(path)} (${name === undefined ? kind : `${kind} ${JSON.stringify(name)}`})`;
}

const pathsOf = (items: readonly { readonly path?: string }[], kind = '', name?: string): readonly VolumePath[] =>
  items.map(({ path = '' }) => ({ path, kind, name }));

const noWarnings: readonly string[] = [];

/** Returns the paths of a source. A source without items provides every key, whose names are not known here. */
function projectedPaths(projection: VolumeProjection): readonly VolumePath[] {
  const {
    configMap,
    secret,
    downwardAPI,
    serviceAccountToken: token,
    clusterTrustBundle: bundle,
    podCertificate: certificate,
  } = projection;
  if (configMap?.items !== undefined) return pathsOf(configMap.items, 'ConfigMap', configMap.name ?? '');
  if (secret?.items !== undefined) return pathsOf(secret.items, 'Secret', secret.name ?? '');
  if (downwardAPI?.items !== undefined) return pathsOf(downwardAPI.items, 'DownwardAPI');
  if (token !== undefined) return pathsOf([token], 'ServiceAccountToken');
  if (bundle !== undefined) return pathsOf([bundle], 'ClusterTrustBundle', bundle.name ?? bundle.signerName ?? '');
  if (certificate === undefined) return [];
  return [
    { path: certificate.certificateChainPath ?? '', kind: 'PodCertificate chain', name: undefined },
    { path: certificate.keyPath ?? '', kind: 'PodCertificate key', name: undefined },
    { path: certificate.credentialBundlePath ?? '', kind: 'PodCertificate credential bundle', name: undefined },
  ].filter(({ path }) => path !== '');
}

/** Returns true if `path` is `folder` or below it. */
const isWithin = (path: string, folder: string) =>
  path.startsWith(folder) && (path.length === folder.length || path.charCodeAt(folder.length) === slash);
const slash = '/'.charCodeAt(0);

/** Returns a description of each pair of paths of which one is the other or a parent folder of the other. */
function overlaps(paths: Iterable<VolumePath>): readonly string[] {
  const found: string[] = [];
  const earlier: VolumePath[] = [];
  for (const { path, kind, name } of paths) {
    const entry = { path: path.endsWith('/') ? path.replace(/\/+$/, '') : path, kind, name };
    if (entry.path === '') continue;
    for (const other of earlier)
      if (isWithin(entry.path, other.path) || isWithin(other.path, entry.path)) found.push(`${describe(entry)} with ${describe(other)}`);
    earlier.push(entry);
  }
  return found;
}

function isEmpty(source: object): boolean {
  for (const _ in source) return false;
  return true;
}

/** The maximum number of paths of one volume that are compared with each other, because the comparison is quadratic. */
const maxPaths = 1000;

function volumeWarnings({ name, configMap, secret, downwardAPI, projected }: Volume): readonly string[] {
  const check = (kind: string, paths: readonly VolumePath[]) =>
    overlaps(paths.slice(0, maxPaths)).map((pair) => `volume ${JSON.stringify(name)} (${kind}): overlapping paths: ${pair}`);
  if (configMap?.items !== undefined) return check(`ConfigMap ${JSON.stringify(configMap.name ?? '')}`, pathsOf(configMap.items));
  if (secret?.items !== undefined) return check(`Secret ${JSON.stringify(secret.secretName ?? '')}`, pathsOf(secret.items));
  if (downwardAPI?.items !== undefined) return check('DownwardAPI', pathsOf(downwardAPI.items));
  if (projected?.sources === undefined) return noWarnings;
  const paths: VolumePath[] = [];
  const warnings: string[] = [];
  for (const source of projected.sources) {
    if (isEmpty(source)) warnings.push(`volume ${JSON.stringify(name)} (Projected) has no sources provided`);
    paths.push(...projectedPaths(source));
  }
  warnings.push(...check('Projected', paths));
  return warnings;
}

/** Returns the warnings about files of a volume that have the same path, or a path below another file. */
export const volumePathWarnings = (volumes: readonly Volume[]): readonly string[] => volumes.flatMap(volumeWarnings);
