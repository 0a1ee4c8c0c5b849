import { createHash, createPrivateKey, createPublicKey, generateKeyPair, randomBytes, webcrypto } from 'node:crypto';
import { watch } from 'node:fs';
import { mkdir, readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import {
  AuthorityError,
  openAuthority,
  readAuthority,
  readRemovedAuthorities,
  stepAuthority,
  type AuthorityName,
  type AuthorityStep,
} from './authorities.ts';
import { selfSigned, signLeaf } from './certificate-writer.ts';
import { frontProxyCaName, openFrontProxyKeys } from './front-proxy-keys.ts';
import { isUsable, issuePair, newKey } from './key-pair.ts';
import { readIfExists, writeAtomic } from '@oarlock/primitives/os/atomic-file';
import { tokenAlgorithmOf, type CertificateRequest, type ClusterKeys, type KeyPair, type TokenAlgorithm } from '@oarlock/spi/cluster';

const caNames: Readonly<Record<AuthorityName, string>> = { ca: 'oarlock-ca', 'front-proxy-ca': frontProxyCaName };
/** Loads the X.509 library, which is large and only needed to read certificate requests. */
const x509 = async () => {
  await import('reflect-metadata'); // the library's dependency injection requires it to be loaded first
  return import('@peculiar/x509');
};

export interface KeyFiles {
  /** The keys of the cluster. `reload` replaces `serviceAccount`. */
  readonly keys: ClusterKeys;
  readonly directory: string;
  /** The newest server certificate for each common name, PEM. Client certificates are issued again when they are used. */
  readonly serverCertificates: ReadonlyMap<string, string>;
  /**
   * Reads the service account signing and verification keys again, and calls the listeners of `ClusterKeys.onChange`.
   * @throws Error if a file cannot be read; the previous keys then stay in use
   */
  reload(): Promise<void>;
  /** Calls `reload` when the key files change, until the signal aborts. */
  follow(signal: AbortSignal, onError: (error: unknown) => void): void;
}

export interface OpenKeysOptions {
  /**
   * The algorithm of service account tokens: replaces a signing key of another type, whose public key still verifies tokens. If absent, keeps the
   * key, or creates one for `defaultTokenAlgorithm`.
   */
  readonly algorithm?: GeneratedTokenAlgorithm | undefined;
  /** The lifetime of certificates whose request has none, in days. Default: one year. */
  readonly days?: number | undefined;
}

/**
 * Opens the cluster's keys in `directory` (mode 0700, files 0600): creates the keys at the first start, and reads them later. Reuses a certificate
 * that was issued for the same request until a fifth of its lifetime remains. Creates a front-proxy CA in a directory of an earlier version that has
 * none.
 */
export async function openKeys(directory: string, issuer: string, { algorithm, days }: OpenKeysOptions = {}): Promise<KeyFiles> {
  const issuedDirectory = join(directory, 'issued');
  await mkdir(issuedDirectory, { recursive: true, mode: 0o700 });
  const { signing: ca, bundle } = await openAuthority(directory, 'ca', () => selfSigned(caNames.ca, newKey()));
  const signingFile = join(directory, 'service-account.key');
  // new keys are synced to the disk, which takes several milliseconds each
  const [removedCaBundle, frontProxy, existing] = await Promise.all([
    readRemovedAuthorities(directory, 'ca'),
    openFrontProxyKeys(directory),
    readOrCreate(signingFile, () => newTokenKey(algorithm ?? defaultTokenAlgorithm)),
  ]);
  if (algorithm !== undefined && tokenAlgorithmOf(createPrivateKey(existing)) !== algorithm)
    await rotateServiceAccountKey(directory, algorithm);
  const read = async (): Promise<ClusterKeys['serviceAccount']> => {
    const signingKey = await readFile(signingFile, 'utf8');
    return { issuer, signingKey, verifyingKeys: [...new Set([publicOf(signingKey), ...(await formerKeys(directory))])] };
  };
  let serviceAccount = await read();
  const listeners = new Set<() => Promise<void>>();
  const reload = async (): Promise<void> => {
    serviceAccount = await read();
    for (const listener of listeners) await listener();
  };

  const serverCertificates = new Map<string, string>();
  const issueStored = async (request: CertificateRequest): Promise<KeyPair> => {
    const digest = createHash('sha256').update(ca.certificate).update(JSON.stringify(request)).digest('hex').slice(0, 16);
    const file = join(issuedDirectory, `${request.commonName.replaceAll(/[^\w.-]/g, '_')}-${digest}.json`);
    const stored = storedPair(await readIfExists(file));
    if (stored !== undefined && isUsable(stored)) return stored;
    const pair = issuePair(ca, request);
    await writeAtomic(file, JSON.stringify(pair));
    return pair;
  };
  const issue = async (request: CertificateRequest): Promise<KeyPair> => {
    const pair = await issueStored(days === undefined ? request : { days, ...request });
    if (request.usages.includes('server')) serverCertificates.set(request.commonName, pair.certificate);
    return pair;
  };
  return {
    directory,
    serverCertificates,
    keys: {
      caBundle: bundle,
      removedCaBundle,
      frontProxy,
      issue,
      sign: (csr, request) => signRequest(ca, csr, request),
      get serviceAccount() {
        return serviceAccount;
      },
      onChange(listener) {
        listeners.add(listener);
        return () => listeners.delete(listener);
      },
    },
    reload,
    follow: (signal, onError) => followKeys(directory, { signal, reload, onError }),
  };
}

const tokenKey = /^service-account\.(?:key|[\w-]+\.pub)$/;

/** Runs one reload at a time, and another reload if a file changes in the meantime. */
function followKeys(
  directory: string,
  { signal, reload, onError }: { readonly signal: AbortSignal; reload(): Promise<void>; onError(error: unknown): void },
): void {
  let changed = false;
  let reading: Promise<void> | undefined;
  const read = async () => {
    while (changed) {
      changed = false;
      await reload().catch(onError);
    }
    reading = undefined;
  };
  const watcher = watch(directory, { persistent: false, signal }, (_, file) => {
    if (file !== null && !tokenKey.test(file)) return;
    changed = true;
    reading ??= read();
  });
  watcher.on('error', onError);
}

/** Signs a certificate for the public key of a PKCS #10 request. `request` determines the content of the certificate. */
async function signRequest(ca: KeyPair, csr: string, request: CertificateRequest): Promise<string> {
  const lib = await x509();
  lib.cryptoProvider.set(webcrypto);
  const parsed = new lib.Pkcs10CertificateRequest(csr);
  if (!(await parsed.verify())) throw new Error('the certificate request is not signed by its own key');
  return signLeaf(ca, Buffer.from(parsed.publicKey.rawData), request);
}

const publicOf = (key: string) => createPublicKey(key).export({ type: 'spki', format: 'pem' }) as string;
const unsigned = (): Promise<never> => Promise.reject(new Error('this process does not hold the key of the cluster CA'));

/**
 * Returns an issuer for a process without the CA key. A temporary CA signs serving certificates, as in a kubelet without a certificate; requests for
 * client certificates are rejected.
 */
function selfSignedIssuer(): ClusterKeys['issue'] {
  let ca: KeyPair | undefined;
  return async (request) => {
    if (request.usages.includes('client')) return unsigned();
    ca ??= selfSigned(`${request.commonName}-ca`, newKey());
    return issuePair(ca, request);
  };
}

/**
 * Reads the keys of a process without an API server: `ca.crt`, `ca.key` and the service account signing key (`service-account.key`, or kubeadm's
 * `sa.key`), as far as `directory` contains them. Creates nothing. Without a CA in `directory`, `caBundle` is trusted.
 */
export async function readKeys(directory: string, caBundle: string): Promise<ClusterKeys> {
  const file = (name: string) => readIfExists(join(directory, name));
  const authority = await readAuthority(directory);
  const [certificate, own, kubeadms] = await Promise.all(['ca.crt', 'service-account.key', 'sa.key'].map(file));
  const signingKey = own ?? kubeadms ?? '';
  const serviceAccount = { issuer: '', signingKey, verifyingKeys: signingKey === '' ? [] : [publicOf(signingKey)] };
  if (authority === undefined)
    return { caBundle: certificate ?? caBundle, trustOnly: true, issue: selfSignedIssuer(), sign: unsigned, serviceAccount };
  const { signing: ca, bundle } = authority;
  return {
    caBundle: bundle,
    serviceAccount,
    sign: (csr, request) => signRequest(ca, csr, request),
    issue: async (request) => issuePair(ca, request),
  };
}

const former = /^service-account\.[\w-]+\.pub$/;

/** Returns former public signing keys, which verify tokens until their files are deleted. */
async function formerKeys(directory: string): Promise<readonly string[]> {
  const files = (await readdir(directory)).filter((file) => former.test(file)).sort();
  return Promise.all(files.map((file) => readFile(join(directory, file), 'utf8')));
}

/** The algorithms for which keys are generated. Tokens are also verified with keys of other types. */
export type GeneratedTokenAlgorithm = Extract<TokenAlgorithm, 'ES256' | 'RS256'>;
/** An RSA key takes as long to generate as everything else that a new cluster does until it is ready (ADR 26). */
const defaultTokenAlgorithm: GeneratedTokenAlgorithm = 'ES256';

/** Generates a private key that signs tokens (PEM, PKCS #8): P-256, or RSA with 2048 bits. */
async function newTokenKey(algorithm: GeneratedTokenAlgorithm): Promise<string> {
  if (algorithm === 'ES256') return newKey();
  const { privateKey } = await promisify(generateKeyPair)('rsa', { modulusLength: 2048 });
  return privateKey.export({ type: 'pkcs8', format: 'pem' }) as string;
}

/** Returns the algorithm of a new key that replaces `pem`. */
function successorAlgorithm(pem: string | undefined): GeneratedTokenAlgorithm {
  return pem !== undefined && tokenAlgorithmOf(createPrivateKey(pem)) === 'RS256' ? 'RS256' : defaultTokenAlgorithm;
}

/**
 * Replaces the key that signs service account tokens by a key for `algorithm`; if absent, of the same type. Keeps the old public key in `service-account.<hash>.pub` to verify tokens. A running API
 * server loads both keys at once.
 */
export async function rotateServiceAccountKey(directory: string, algorithm?: GeneratedTokenAlgorithm): Promise<void> {
  const file = join(directory, 'service-account.key');
  const old = await readIfExists(file);
  if (old !== undefined) {
    const pem = publicOf(old);
    await writeAtomic(join(directory, publicKeyFile(pem)), pem, { sync: true });
  }
  await writeAtomic(file, await newTokenKey(algorithm ?? successorAlgorithm(old)), { sync: true });
}

const nextServiceAccountKey = 'service-account-next.key';
const publicKeyFile = (publicKey: string): string =>
  `service-account.${createHash('sha256').update(publicKey).digest('hex').slice(0, 12)}.pub`;

/**
 * Creates the next key of service account tokens, for `algorithm`; if absent, of the type of the current key. Its public key verifies tokens; no server signs with it before `useServiceAccountKey`.
 * @throws AuthorityError if there is a next key already
 */
export async function addServiceAccountKey(directory: string, algorithm?: GeneratedTokenAlgorithm): Promise<void> {
  if ((await readIfExists(join(directory, nextServiceAccountKey))) !== undefined)
    throw new AuthorityError('there is a next service account signing key already');
  const current = await readIfExists(join(directory, 'service-account.key'));
  const key = await newTokenKey(algorithm ?? successorAlgorithm(current));
  await writeAtomic(join(directory, nextServiceAccountKey), key, { sync: true });
  await writeAtomic(join(directory, publicKeyFile(publicOf(key))), publicOf(key), { sync: true });
}

/** Makes the next key the one that signs; the former public key still verifies. @throws AuthorityError if there is no next key */
export async function useServiceAccountKey(directory: string): Promise<void> {
  const next = await readIfExists(join(directory, nextServiceAccountKey));
  if (next === undefined) throw new AuthorityError('there is no next service account signing key');
  const former = publicOf(await readFile(join(directory, 'service-account.key'), 'utf8'));
  await writeAtomic(join(directory, publicKeyFile(former)), former, { sync: true });
  await writeAtomic(join(directory, 'service-account.key'), next, { sync: true });
  await rm(join(directory, nextServiceAccountKey));
}

/** Deletes the former public keys: their tokens become invalid. @throws AuthorityError if a rotation is in progress */
export async function removeFormerServiceAccountKeys(directory: string): Promise<void> {
  if ((await readIfExists(join(directory, nextServiceAccountKey))) !== undefined)
    throw new AuthorityError('the next service account signing key does not sign yet: run `oarlock keys rotate`, which continues');
  for (const file of await readdir(directory)) if (former.test(file)) await rm(join(directory, file));
}

/** Takes a step of the rotation of a CA. @throws AuthorityError if the step is not possible now */
export function rotateAuthority(directory: string, step: AuthorityStep, name: AuthorityName = 'ca'): Promise<void> {
  // two CAs with the same name would be hard to distinguish
  const make = () => selfSigned(`${caNames[name]}-${randomBytes(4).toString('hex')}`, newKey());
  return stepAuthority(step, { directory, name, make });
}

/** Parses a stored key pair. Returns undefined if there is no text or if a crash truncated it. */
function storedPair(text: string | undefined): KeyPair | undefined {
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text) as KeyPair;
  } catch {
    return undefined;
  }
}

/** Reads a file. If the file does not exist, creates it first. */
async function readOrCreate(file: string, make: () => Promise<string>): Promise<string> {
  const existing = await readIfExists(file);
  if (existing !== undefined) return existing;
  const created = await make();
  await writeAtomic(file, created, { sync: true });
  return created;
}
