import { createHash, createPrivateKey, createPublicKey, generateKeyPairSync, randomBytes, webcrypto, X509Certificate } from 'node:crypto';
import { watch } from 'node:fs';
import { mkdir, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { readAuthority, stepAuthority, writePair, type AuthorityStep } from './authorities.ts';
import { renewAt } from './certificate-life.ts';
import { selfSigned, signLeaf, spkiOf } from './certificate-writer.ts';
import { readIfThere, writeAtomic } from './files.ts';
import type { CertificateRequest, ClusterKeys, KeyPair } from '@oarlock/spi/cluster';

type Authority = NonNullable<Awaited<ReturnType<typeof readAuthority>>>;

const caName = 'oarlock-ca';
/** The library is large and only needed to read the requests of others. */
const x509 = async () => {
  await import('reflect-metadata'); // the library's own container wants it first
  return import('@peculiar/x509');
};

const newKey = () => generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ type: 'pkcs8', format: 'pem' }) as string;

/** For a new key. */
function issued(ca: KeyPair, request: CertificateRequest): KeyPair {
  const key = newKey();
  return { certificate: signLeaf(ca, spkiOf(createPrivateKey(key)), request), key };
}

export interface KeyFiles {
  /** Its `serviceAccount` is another object after the files of the keys that sign and verify tokens have changed and were read again. */
  readonly keys: ClusterKeys;
  readonly directory: string;
  /** Reads those files again. A key that cannot be read leaves everything as it was. @throws Error */
  reload(): Promise<void>;
  /** Does so whenever they change, until the signal aborts. */
  follow(signal: AbortSignal, failed: (error: unknown) => void): void;
}

/**
 * The cluster's keys in `directory` (0700, files 0600): made at the first start, read at every later one. Certificates
 * that were issued for the same request are reused until a fifth of their life is left.
 */
export async function openKeys(directory: string, issuer: string): Promise<KeyFiles> {
  const issuedDirectory = join(directory, 'issued');
  await mkdir(issuedDirectory, { recursive: true, mode: 0o700 });
  if ((await readAuthority(directory)) === undefined) await writePair(directory, 'ca', selfSigned(caName, newKey()));
  const { signing: ca, bundle } = (await readAuthority(directory)) as Authority;
  const signingFile = join(directory, 'service-account.key');
  await onlyOnce(signingFile, async () => newKey());
  const read = async (): Promise<ClusterKeys['serviceAccount']> => {
    const signingKey = await readFile(signingFile, 'utf8');
    return { issuer, signingKey, verifyingKeys: [...new Set([publicOf(signingKey), ...(await formerKeys(directory))])] };
  };
  let serviceAccount = await read();
  const reload = async (): Promise<void> => {
    serviceAccount = await read();
  };

  const issue = async (request: CertificateRequest): Promise<KeyPair> => {
    const digest = createHash('sha256').update(ca.certificate).update(JSON.stringify(request)).digest('hex').slice(0, 16);
    const file = join(issuedDirectory, `${request.commonName.replaceAll(/[^\w.-]/g, '_')}-${digest}.json`);
    const known = keptPair(await readIfThere(file));
    if (known !== undefined) return known;
    const fresh = issued(ca, request);
    await writeAtomic(file, JSON.stringify(fresh));
    return fresh;
  };
  return {
    directory,
    keys: {
      caBundle: bundle,
      issue,
      sign: (csr, request) => signRequest(ca, csr, request),
      get serviceAccount() {
        return serviceAccount;
      },
    },
    reload,
    follow: (signal, failed) => followKeys(directory, signal, reload, failed),
  };
}

const tokenKey = /^service-account\.(?:key|[\w-]+\.pub)$/;

/** One read at a time, and one more where a file has changed meanwhile. */
function followKeys(directory: string, signal: AbortSignal, reload: () => Promise<void>, failed: (error: unknown) => void): void {
  let changed = false;
  let reading: Promise<void> | undefined;
  const read = async () => {
    while (changed) {
      changed = false;
      await reload().catch(failed);
    }
    reading = undefined;
  };
  const watcher = watch(directory, { persistent: false, signal }, (_, file) => {
    if (file !== null && !tokenKey.test(file)) return;
    changed = true;
    reading ??= read();
  });
  watcher.on('error', failed);
}

/** Signs for the key of a PKCS #10 request, as `request` says. */
async function signRequest(ca: KeyPair, csr: string, request: CertificateRequest): Promise<string> {
  const lib = await x509();
  lib.cryptoProvider.set(webcrypto);
  const parsed = new lib.Pkcs10CertificateRequest(csr);
  if (!(await parsed.verify())) throw new Error('the certificate request is not signed by its own key');
  return signLeaf(ca, Buffer.from(parsed.publicKey.rawData), request);
}

const publicOf = (key: string) => createPublicKey(key).export({ type: 'spki', format: 'pem' }) as string;
const unsigned = (): Promise<never> => Promise.reject(new Error("this process does not hold the key of the cluster's CA"));

/** Servers show a certificate of a CA that is made up and forgotten, as a kubelet of Kubernetes does that has none; nobody can be known by one. */
function issuedByNobody(): ClusterKeys['issue'] {
  let ca: KeyPair | undefined;
  return async (request) => {
    if (request.usages.includes('client')) return unsigned();
    ca ??= selfSigned(`${request.commonName}-ca`, newKey());
    return issued(ca, request);
  };
}

/**
 * The keys of a process without an API server: what there is of `ca.crt`, `ca.key` and the key that signs tokens of service accounts
 * (`service-account.key`, or `sa.key` as kubeadm names it) in `directory`. Nothing is made. `caBundle` is trusted where there is no CA.
 */
export async function readKeys(directory: string, caBundle: string): Promise<ClusterKeys> {
  const file = (name: string) => readIfThere(join(directory, name));
  const authority = await readAuthority(directory);
  const [certificate, own, kubeadms] = await Promise.all(['ca.crt', 'service-account.key', 'sa.key'].map(file));
  const signingKey = own ?? kubeadms ?? '';
  const serviceAccount = { issuer: '', signingKey, verifyingKeys: signingKey === '' ? [] : [publicOf(signingKey)] };
  if (authority === undefined)
    return { caBundle: certificate ?? caBundle, trustOnly: true, issue: issuedByNobody(), sign: unsigned, serviceAccount };
  const { signing: ca, bundle } = authority;
  return {
    caBundle: bundle,
    serviceAccount,
    sign: (csr, request) => signRequest(ca, csr, request),
    issue: async (request) => issued(ca, request),
  };
}

const former = /^service-account\.[\w-]+\.pub$/;

/** Keys that signed tokens before: they verify until their files are taken away. */
async function formerKeys(directory: string): Promise<readonly string[]> {
  const files = (await readdir(directory)).filter((file) => former.test(file)).sort();
  return Promise.all(files.map((file) => readFile(join(directory, file), 'utf8')));
}

/**
 * Puts a new key in the place of the one that signs tokens of service accounts. The old one is kept to verify with, in
 * `service-account.<hash>.pub`. A server that runs takes them up at once.
 */
export async function rotateServiceAccountKey(directory: string): Promise<void> {
  const file = join(directory, 'service-account.key');
  const old = await readIfThere(file);
  if (old !== undefined) {
    const pem = publicOf(old);
    const name = createHash('sha256').update(pem).digest('hex').slice(0, 12);
    await writeAtomic(join(directory, `service-account.${name}.pub`), pem);
  }
  await writeAtomic(file, newKey());
}

/** Takes a step to another CA. @throws AuthorityError when it cannot be taken now */
export const rotateAuthority = (directory: string, step: AuthorityStep): Promise<void> =>
  stepAuthority(directory, step, async () => selfSigned(`${caName}-${randomBytes(4).toString('hex')}`, newKey())); // two of a name are hard to tell apart

/** A pair that is whole and has a fifth of its life before it. What was cut off by a crash is made anew. */
function keptPair(text: string | undefined): KeyPair | undefined {
  if (text === undefined) return undefined;
  try {
    const { certificate, key } = JSON.parse(text) as KeyPair;
    const parsed = new X509Certificate(certificate);
    return parsed.checkPrivateKey(createPrivateKey(key)) && Date.now() < renewAt(certificate) ? { certificate, key } : undefined;
  } catch {
    return undefined;
  }
}

async function onlyOnce(file: string, make: () => Promise<string>): Promise<string> {
  const there = await readIfThere(file);
  if (there !== undefined) return there;
  const made = await make();
  await writeAtomic(file, made);
  return made;
}
