import { createHash, createHmac, createPublicKey } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { parseGeneratedKey } from '@oarlock/apiserver/storage/encryption/encryption-config';
import { writeAtomic } from '@oarlock/primitives/os/atomic-file';
import { caHash } from '../pki/ca-hash.ts';
import { storagePkiDirectory } from '../pki/storage-server.ts';

/** Directory of the CAs and of the keys of service account tokens, in the data directory. */
export const pkiDirectory = 'pki';
/** Directory of generated encryption keys, in the data directory. */
export const encryptionDirectory = join('plugins', 'apiserver', 'encryption');

/** The contents of the key files that all API servers of a cluster share, by path below the data directory. */
export type KeyFiles = Readonly<Record<string, string>>;

/** The public part of the shared keys. Two servers belong to the same cluster if these values are equal. */
export interface ClusterIdentity {
  /** Hashes of the public keys of the trusted cluster CAs, the signing CA first, as in kubeadm's `--discovery-token-ca-cert-hash`. */
  readonly ca: readonly string[];
  /** Hashes of the cluster CAs that rotations removed. */
  readonly removedCa: readonly string[];
  readonly frontProxyCa: readonly string[];
  /** Hashes of the public keys that verify service account tokens, the signing key first. */
  readonly serviceAccountKeys: readonly string[];
  /** Names and keyed hashes of the generated encryption keys, `NAME:HASH`. */
  readonly encryptionKeys: readonly string[];
  /** Hashes of the CAs of the storage's members, the signing CA first; absent in a record of an earlier version, and empty without members. */
  readonly etcdCa?: readonly string[] | undefined;
}

/** Matches the files in `pki` that servers share. Certificates that a server issued to itself are its own. */
const sharedPkiFile =
  /^(?:(?:front-proxy-)?ca(?:-next|-former)?\.(?:crt|key)|(?:front-proxy-)?ca-removed\.crt|service-account(?:-next)?\.key|service-account\.[\w-]+\.pub)$/;
const sharedEncryptionFile = /^generated(?:-\d{8}T\d{9}Z)?(?:\.next)?\.key$/;
const sharedDirectories: readonly (readonly [directory: string, files: RegExp])[] = [
  [pkiDirectory, sharedPkiFile],
  [encryptionDirectory, sharedEncryptionFile],
  [storagePkiDirectory, /^ca(?:-next|-former)?\.(?:crt|key)$|^ca-removed\.crt$/],
];

/** Returns true if a path below the data directory is that of a shared key file. */
const isSharedFile = (path: string): boolean =>
  sharedDirectories.some(([directory, files]) => dirname(path) === directory && files.test(basename(path)));

/** Returns true if the data directory contains keys of a cluster. */
export const hasKeys = (dataDir: string): boolean =>
  ['ca.crt', 'ca.key', 'service-account.key'].some((file) => existsSync(join(dataDir, pkiDirectory, file)));

/** Reads the shared key files of a data directory. */
export async function readKeyFiles(dataDir: string): Promise<KeyFiles> {
  const files: Record<string, string> = {};
  for (const [directory, pattern] of sharedDirectories)
    for (const name of await namesIn(join(dataDir, directory)))
      if (pattern.test(name)) files[join(directory, name)] = await readFile(join(dataDir, directory, name), 'utf8');
  return files;
}

const isCertificate = (path: string) => Number(path.endsWith('.crt'));

/**
 * Returns paths of key files in the order in which they are written: CAs that are only trusted first, because certificates of a CA in use would lose their
 * trust if the process ended meanwhile, and a key before its certificate, because a pair without a certificate counts as absent.
 */
export function writeOrder(paths: readonly string[]): readonly string[] {
  const order = (path: string) => isCertificate(path) + (/-(?:next|former)\.(?:crt|key)$/.test(path) ? 0 : 2);
  return [...paths].sort((a, b) => order(a) - order(b));
}

async function namesIn(directory: string): Promise<readonly string[]> {
  const names = await readdir(directory).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw error;
  });
  return names.sort();
}

/**
 * Makes the shared key files of a data directory equal to `files`. New files are written, in their `writeOrder`, before old ones are removed.
 * @throws Error if a path is not that of a shared key file
 */
export async function writeKeyFiles(dataDir: string, files: KeyFiles): Promise<void> {
  const current = await readKeyFiles(dataDir);
  const foreign = Object.keys(files).find((path) => !isSharedFile(path));
  if (foreign !== undefined) throw new Error(`${JSON.stringify(foreign)} is not a key file of a cluster`);
  for (const path of writeOrder(Object.keys(files).filter((each) => current[each] !== files[each]))) {
    const content = files[path] ?? '';
    await mkdir(dirname(join(dataDir, path)), { recursive: true, mode: 0o700 });
    await writeAtomic(join(dataDir, path), content, { sync: true });
  }
  // the certificate first: a pair without a certificate counts as absent
  // a record from before the storage ran members has no CA of them
  const hasStorageAuthority = join(storagePkiDirectory, 'ca.crt') in files;
  const removed = Object.keys(current).filter((path) => !(path in files) && (hasStorageAuthority || dirname(path) !== storagePkiDirectory));
  for (const path of removed.sort((a, b) => isCertificate(b) - isCertificate(a))) await rm(join(dataDir, path), { force: true });
}

/** Removes all shared key files of a data directory. */
export const removeKeyFiles = (dataDir: string): Promise<void> => writeKeyFiles(dataDir, {});

const hashOf = (publicKey: string): string =>
  `sha256:${createHash('sha256')
    .update(createPublicKey(publicKey).export({ type: 'spki', format: 'der' }))
    .digest('hex')}`;

/** Returns the public part of key files. @throws Error if a file is not valid */
export function identityOf(files: KeyFiles): ClusterIdentity {
  const pki = (name: string): readonly string[] => {
    const content = files[join(pkiDirectory, name)];
    return content === undefined ? [] : [content];
  };
  const authorities = (name: string) => [`${name}.crt`, `${name}-next.crt`, `${name}-former.crt`].flatMap(pki).map(caHash);
  const formerKeys = Object.keys(files).filter((path) => /^service-account\.[\w-]+\.pub$/.test(basename(path)));
  const verifyingKeys = [...pki('service-account.key'), ...formerKeys.map((path) => files[path] ?? '')].map(hashOf);
  return {
    ca: unique(authorities('ca')),
    removedCa: pki('ca-removed.crt')
      .flatMap((text) => text.match(certificate) ?? [])
      .map(caHash),
    frontProxyCa: unique(authorities('front-proxy-ca')),
    serviceAccountKeys: unique(verifyingKeys),
    encryptionKeys: Object.entries(files).flatMap(([path, content]) => encryptionKeyId(path, content)),
    etcdCa: unique(authorities(join(basename(storagePkiDirectory), 'ca'))),
  };
}

const certificate = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;
const unique = (values: readonly string[]): readonly string[] => [...new Set(values)];

/** Returns the name and a keyed hash of an encryption key, from which the key cannot be computed. */
function encryptionKeyId(path: string, content: string): readonly string[] {
  if (dirname(path) !== encryptionDirectory) return [];
  const parsed = parseGeneratedKey(basename(path), content);
  if (parsed === undefined) return [];
  return [`${parsed.name}:${createHmac('sha256', parsed.key).update('oarlock encryption key id').digest('hex').slice(0, 16)}`];
}

/** Returns how the keys of a server differ from those of the cluster, one clause each; an empty list if the cluster has them all. */
export function identityDifferences(own: ClusterIdentity, cluster: ClusterIdentity): readonly string[] {
  const knownAuthorities = [...cluster.ca, ...cluster.removedCa];
  const unknown = (ours: readonly string[], known: readonly string[]) => ours.filter((each) => !known.includes(each));
  const differences: string[] = [];
  const [ca] = unknown(own.ca.slice(0, 1), knownAuthorities);
  if (ca !== undefined) differences.push(`the CA is ${ca}, that of the cluster is ${cluster.ca[0] ?? 'unknown'}`);
  const [signingKey] = unknown(own.serviceAccountKeys.slice(0, 1), cluster.serviceAccountKeys);
  if (signingKey !== undefined)
    differences.push(
      `the service account signing key is ${signingKey}, that of the cluster is ${cluster.serviceAccountKeys[0] ?? 'unknown'}`,
    );
  const encryption = unknown(own.encryptionKeys, cluster.encryptionKeys);
  if (encryption.length > 0) differences.push(`the encryption keys ${encryption.join(', ')} are not those of the cluster`);
  return differences;
}
