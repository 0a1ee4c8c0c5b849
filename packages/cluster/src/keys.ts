import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  randomBytes,
  webcrypto,
  X509Certificate,
  type KeyObject,
} from 'node:crypto';
import { watch } from 'node:fs';
import { mkdir, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { readAuthority, stepAuthority, writePair, type AuthorityStep } from './authorities.ts';
import { renewAt } from './certificate-life.ts';
import { readIfThere, writeAtomic } from './files.ts';
import type { CertificateRequest, ClusterKeys, KeyPair } from '@oarlock/spi/cluster';

type Authority = NonNullable<Awaited<ReturnType<typeof readAuthority>>>;

const caName = 'oarlock-ca';
const dayMs = 86_400_000;
const caDays = 3650;
const leafDays = 365;
const backdateMs = 5 * 60_000; // clocks of joining machines may be behind ours
const hashes: Readonly<Record<string, readonly [curve: string, hash: string]>> = {
  prime256v1: ['P-256', 'SHA-256'],
  secp384r1: ['P-384', 'SHA-384'],
  secp521r1: ['P-521', 'SHA-512'],
};
/** Our own keys are on P-256; those of a CA that somebody else made may be others. */
function algorithmOf({ asymmetricKeyType, asymmetricKeyDetails }: KeyObject) {
  if (asymmetricKeyType === 'rsa') return { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' };
  const [namedCurve, hash] = hashes[asymmetricKeyDetails?.namedCurve ?? ''] ?? [];
  if (asymmetricKeyType !== 'ec' || namedCurve === undefined || hash === undefined)
    throw new Error(`a key of type ${asymmetricKeyType} cannot sign certificates: RSA keys and those on NIST curves can`);
  return { name: 'ECDSA', namedCurve, hash };
}

/** The library is large and only needed when something is signed: a warm start signs nothing. */
const x509 = async () => {
  await import('reflect-metadata'); // the library's own container wants it first
  return import('@peculiar/x509');
};

const newKey = () => generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ type: 'pkcs8', format: 'pem' }) as string;

async function importPair(keyPem: string): Promise<webcrypto.CryptoKeyPair> {
  const key = createPrivateKey(keyPem);
  const algorithm = algorithmOf(key);
  const publicDer = createPublicKey(key).export({ type: 'spki', format: 'der' });
  return {
    privateKey: await webcrypto.subtle.importKey('pkcs8', key.export({ type: 'pkcs8', format: 'der' }), algorithm, true, ['sign']),
    publicKey: await webcrypto.subtle.importKey('spki', publicDer, algorithm, true, ['verify']),
  };
}

async function selfSigned(commonName: string): Promise<KeyPair> {
  const lib = await x509();
  lib.cryptoProvider.set(webcrypto);
  const key = newKey();
  const keys = await importPair(key);
  const certificate = await lib.X509CertificateGenerator.createSelfSigned({
    serialNumber: serial(),
    name: [{ CN: [commonName] }],
    notBefore: new Date(Date.now() - backdateMs),
    notAfter: new Date(Date.now() + caDays * dayMs),
    signingAlgorithm: algorithmOf(createPrivateKey(key)),
    keys,
    extensions: [
      new lib.BasicConstraintsExtension(true, undefined, true),
      new lib.KeyUsagesExtension(lib.KeyUsageFlags.keyCertSign | lib.KeyUsageFlags.cRLSign | lib.KeyUsageFlags.digitalSignature, true),
      await lib.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return { certificate: `${certificate.toString('pem')}\n`, key };
}

// the first bit stays clear: serial numbers are positive (RFC 5280, 4.1.2.2)
const serial = () => {
  const bytes = randomBytes(16);
  bytes[0] = ((bytes[0] ?? 0) & 0x7f) | 0x01;
  return bytes.toString('hex');
};

async function signLeaf(ca: KeyPair, publicKey: webcrypto.CryptoKey, request: CertificateRequest): Promise<string> {
  const lib = await x509();
  lib.cryptoProvider.set(webcrypto);
  const issuer = new lib.X509Certificate(ca.certificate);
  const names = [
    ...(request.dnsNames ?? []).map((value) => ({ type: 'dns' as const, value })),
    ...(request.ipAddresses ?? []).map((value) => ({ type: 'ip' as const, value })),
  ];
  const usages = request.usages.map((usage) => (usage === 'server' ? lib.ExtendedKeyUsage.serverAuth : lib.ExtendedKeyUsage.clientAuth));
  const certificate = await lib.X509CertificateGenerator.create({
    serialNumber: serial(),
    issuer: issuer.subjectName,
    subject: [...(request.organizations ?? []).map((O) => ({ O: [O] })), { CN: [request.commonName] }],
    notBefore: new Date(Date.now() - backdateMs),
    notAfter: new Date(Date.now() + (request.days ?? leafDays) * dayMs),
    signingAlgorithm: algorithmOf(createPrivateKey(ca.key)),
    publicKey,
    signingKey: (await importPair(ca.key)).privateKey,
    extensions: [
      new lib.BasicConstraintsExtension(false, undefined, true),
      new lib.KeyUsagesExtension(lib.KeyUsageFlags.digitalSignature | lib.KeyUsageFlags.keyEncipherment, true),
      new lib.ExtendedKeyUsageExtension(usages),
      await lib.SubjectKeyIdentifierExtension.create(publicKey),
      await lib.AuthorityKeyIdentifierExtension.create(await issuer.publicKey.export()),
      ...(names.length > 0 ? [new lib.SubjectAlternativeNameExtension(names)] : []),
    ],
  });
  return `${certificate.toString('pem')}\n`;
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
  if ((await readAuthority(directory)) === undefined) await writePair(directory, 'ca', await selfSigned(caName));
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
    const key = newKey();
    const fresh = { certificate: await signLeaf(ca, (await importPair(key)).publicKey, request), key };
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
  return signLeaf(ca, await parsed.publicKey.export(), request);
}

const publicOf = (key: string) => createPublicKey(key).export({ type: 'spki', format: 'pem' }) as string;
const unsigned = (): Promise<never> => Promise.reject(new Error("this process does not hold the key of the cluster's CA"));

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
    return { caBundle: certificate ?? caBundle, trustOnly: true, issue: unsigned, sign: unsigned, serviceAccount };
  const { signing: ca, bundle } = authority;
  return {
    caBundle: bundle,
    serviceAccount,
    sign: (csr, request) => signRequest(ca, csr, request),
    async issue(request) {
      const leaf = newKey();
      return { certificate: await signLeaf(ca, (await importPair(leaf)).publicKey, request), key: leaf };
    },
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
  stepAuthority(directory, step, () => selfSigned(`${caName}-${randomBytes(4).toString('hex')}`)); // two of a name are hard to tell apart

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
